//! [`Order`](super::Claim::Order): which of two curves is higher.

use super::{Judgement, TIE, Value, curve};
use crate::run::Row;

/// A judgement for each pair of `curves` that differ somewhere.
pub(super) fn judge(rows: &[Row], curves: &[String]) -> Vec<Judgement> {
    let mut judgements = Vec::new();
    for (index, first) in curves.iter().enumerate() {
        for second in &curves[index + 1..] {
            judgements.extend(of_pair(rows, first, second));
        }
    }
    judgements
}

fn of_pair(rows: &[Row], first: &str, second: &str) -> Option<Judgement> {
    let seconds = curve(rows, second);
    let pairs: Vec<(Value<'_>, Value<'_>)> = curve(rows, first)
        .into_iter()
        .filter_map(|a| {
            let same = |b: &&Value<'_>| (a.x, a.metric.name()) == (b.x, b.metric.name());
            seconds.iter().find(same).map(|b| (a, *b))
        })
        .filter(|(a, b)| differ(a.published, b.published))
        .collect();
    let missed: Vec<&(Value<'_>, Value<'_>)> = pairs.iter().filter(|(a, b)| !same_order(a, b)).collect();
    let binding = missed
        .iter()
        .map(|(a, b)| format!("at {}: {}, {}", a.x, a.binding, b.binding));
    (!pairs.is_empty()).then(|| Judgement {
        claim: "order",
        curves: format!("{first} : {second}"),
        published: format!("{} values differ", pairs.len()),
        simulated: format!("{} in this order", pairs.len() - missed.len()),
        holds: missed.is_empty(),
        binding: binding.collect::<Vec<_>>().join("; "),
    })
}

/// Whether published values differ by so much that their order means something.
fn differ(a: f64, b: f64) -> bool {
    a.max(b) > (1.0 + TIE) * a.min(b)
}

fn same_order(a: &Value<'_>, b: &Value<'_>) -> bool {
    match a.published > b.published {
        true => a.simulated > b.simulated,
        false => a.simulated < b.simulated,
    }
}
