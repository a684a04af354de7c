//! [`Peaks`](super::Claim::Peaks): where a curve is highest.

use super::{Judgement, PEAK_SLACK, Value, throughputs};
use crate::output::short;
use crate::run::Row;

pub(super) fn judge(rows: &[Row], curve: &str) -> Option<Judgement> {
    let values = throughputs(rows, curve);
    let published = highest(&values, |value| value.published)?;
    let simulated = highest(&values, |value| value.simulated)?;
    let (expected, top) = (values[published], values[simulated]);
    let below = 1.0 - expected.simulated / top.simulated;
    let holds = published.abs_diff(simulated) <= 1 || below <= PEAK_SLACK;
    let at = |x: f64, y: f64| format!("at {x}: {}", short(y));
    let lower = match published == simulated {
        true => String::new(),
        false => format!("; at {} {:.0} % lower", expected.x, below * 100.0),
    };
    let binding = || {
        let part = |value: Value<'_>| format!("at {}: {}", value.x, value.binding);
        format!("{}; {}", part(top), part(expected))
    };
    Some(Judgement {
        claim: "peak",
        curves: curve.to_string(),
        published: at(expected.x, expected.published),
        simulated: at(top.x, top.simulated) + &lower,
        holds,
        binding: if holds { String::new() } else { binding() },
    })
}

/// Index of the first of the highest values.
fn highest(values: &[Value<'_>], y: impl Fn(&Value<'_>) -> f64) -> Option<usize> {
    let indices = (0..values.len()).rev();
    indices.max_by(|a, b| y(&values[*a]).total_cmp(&y(&values[*b])))
}
