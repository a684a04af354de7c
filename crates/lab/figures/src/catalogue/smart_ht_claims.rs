//! What SMART Figs 5, 7, 8, 9 and 14 show of RACE and Smart-HT as curves: where each is highest, which is higher, and how far
//! conflict avoidance is ahead at the greatest load.

use super::smart_ht::{MIXES, OF_CONFLICTS, STEPS};
use crate::judge::Claim;

/// The claims about `figure`; none if it is another paper's.
pub(super) fn of(figure: &str) -> Vec<Claim> {
    match figure {
        "smart-5" => vec![Claim::Peaks(vec!["RACE".to_string()])],
        "smart-7" => of_mixes(&["RACE", "Smart-HT"], 6.0),
        "smart-8" => {
            let curves: Vec<&str> = ["RACE"].into_iter().chain(STEPS).collect();
            of_mixes(&curves, 96.0)
        }
        "smart-9" => vec![Claim::Order(["RACE", "Smart-HT"].map(str::to_string).to_vec())],
        "smart-14" => of_curves(OF_CONFLICTS.map(str::to_string).to_vec(), 96.0),
        _ => Vec::new(),
    }
}

/// Curves of one share of updates are compared with each other only.
fn of_mixes(curves: &[&str], x: f64) -> Vec<Claim> {
    let named = |mix: &str| curves.iter().map(|curve| format!("{mix} / {curve}")).collect();
    let mixes = MIXES.iter().map(|(mix, _)| named(mix));
    mixes.flat_map(|curves| of_curves(curves, x)).collect()
}

/// Peaks and order of `curves`, and how far the last is ahead of the first at `x`.
fn of_curves(curves: Vec<String>, x: f64) -> Vec<Claim> {
    let (of, over) = (curves[curves.len() - 1].clone(), curves[0].clone());
    vec![
        Claim::Peaks(curves.clone()),
        Claim::Order(curves),
        Claim::Ratio { of, over, x },
    ]
}
