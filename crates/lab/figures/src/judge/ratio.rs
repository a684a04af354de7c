//! [`Ratio`](super::Claim::Ratio): how many times as high one curve is as another.

use super::{Judgement, RATIO_FACTOR, throughputs};
use crate::output::short;
use crate::run::Row;

pub(super) fn judge(rows: &[Row], of: &str, over: &str, x: f64) -> Option<Judgement> {
    let at = |name| throughputs(rows, name).into_iter().find(|value| value.x == x);
    let (of_value, over_value) = (at(of)?, at(over)?);
    let published = of_value.published / over_value.published;
    let simulated = of_value.simulated / over_value.simulated;
    let off = (simulated / published).max(published / simulated);
    let holds = off <= RATIO_FACTOR;
    Some(Judgement {
        claim: "ratio",
        curves: format!("{of} / {over}"),
        published: format!("at {x}: {}", short(published)),
        simulated: format!("{}; off by a factor of {off:.2}", short(simulated)),
        holds,
        binding: match holds {
            true => String::new(),
            false => format!("at {x}: {}, {}", of_value.binding, over_value.binding),
        },
    })
}
