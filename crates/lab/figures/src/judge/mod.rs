//! [`Claim`]: what published curves show beyond their single values; [`judge`]: whether simulated curves show it, too.
//!
//! Only rows that have both values are judged. Where published values do not differ by more than [`TIE`] they may be an
//! accident of the run, so nothing is asked of the simulated ones.

mod order;
mod peak;
mod ratio;
#[cfg(test)]
mod tests;

use crate::figure::Metric;
use crate::run::Row;

/// How far below its peak a simulated curve may be where the published one has its peak, as a fraction of the peak. *(our
/// choice)*
pub const PEAK_SLACK: f64 = 0.05;
/// Relative difference up to which two published values count as equal. *(our choice)*
pub const TIE: f64 = 0.15;
/// Factor by which a simulated ratio of two curves may differ from the published one, either way. *(our choice)*
pub const RATIO_FACTOR: f64 = 1.5;

/// What must hold of simulated curves. Curves are called by the names of their series.
#[derive(Clone, PartialEq, Debug)]
pub enum Claim {
    /// The throughput of each of these curves is highest where the published one is, or at the point before or behind, or is
    /// there at most [`PEAK_SLACK`] below its peak.
    Peaks(Vec<String>),
    /// Where published values of two of these curves differ by more than [`TIE`], with the same x and metric, the greater
    /// one is also greater in the simulation.
    Order(Vec<String>),
    /// The throughput of the first curve divided by that of the second is within [`RATIO_FACTOR`] of the published ratio.
    Ratio {
        /// The curve that is divided.
        of: String,
        /// The curve that it is divided by.
        over: String,
        /// Where on the x axis.
        x: f64,
    },
}

/// What came of a claim about a curve, or about two.
#[derive(Clone, PartialEq, Debug)]
pub struct Judgement {
    /// What is claimed: `peak`, `order` or `ratio`.
    pub claim: &'static str,
    /// The curve, or both curves.
    pub curves: String,
    /// What the published values show.
    pub published: String,
    /// What the simulated ones show.
    pub simulated: String,
    /// Whether the claim holds.
    pub holds: bool,
    /// The points that miss the claim, and the [part that binds](Row::binding) at each; empty if it holds.
    pub binding: String,
}

/// Judges `claims` by the values of `rows`. A claim gives a judgement for each curve or pair of curves that it is about; none
/// for those without published values.
pub fn judge(rows: &[Row], claims: &[Claim]) -> Vec<Judgement> {
    let of_claim = |claim: &Claim| match claim {
        Claim::Peaks(curves) => curves
            .iter()
            .filter_map(|curve| peak::judge(rows, curve))
            .collect(),
        Claim::Order(curves) => order::judge(rows, curves),
        Claim::Ratio { of, over, x } => ratio::judge(rows, of, over, *x).into_iter().collect::<Vec<_>>(),
    };
    claims.iter().flat_map(of_claim).collect()
}

/// Both values of a row.
#[derive(Clone, Copy, Debug)]
struct Value<'a> {
    x: f64,
    metric: Metric,
    published: f64,
    simulated: f64,
    binding: &'a str,
}

/// The values of `curve` of all metrics, x ascending.
fn curve<'a>(rows: &'a [Row], curve: &str) -> Vec<Value<'a>> {
    let of_row = |row: &'a Row| {
        Some(Value {
            x: row.x,
            metric: row.metric,
            published: row.expected.as_ref()?.value,
            simulated: row.simulated?,
            binding: &row.binding,
        })
    };
    let rows = rows.iter().filter(|row| row.series == curve);
    let mut values: Vec<Value<'_>> = rows.filter_map(of_row).collect();
    values.sort_by(|a, b| a.x.total_cmp(&b.x));
    values
}

/// The throughputs of `curve`, x ascending.
fn throughputs<'a>(rows: &'a [Row], name: &str) -> Vec<Value<'a>> {
    let mut values = curve(rows, name);
    values.retain(|value| value.metric == Metric::Throughput);
    values
}
