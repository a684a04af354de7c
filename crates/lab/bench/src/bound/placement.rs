//! [`Placement`]: the distance between two cores, from the round trip of a cache line.

use serde::{Deserialize, Serialize};

/// Class of the distance between two cores, judged by the round trip of a cache line between them. Virtual cores move:
/// probes before and after the runs of a sample show which samples are comparable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Round trips below 70 ns: two SMT siblings of one physical core.
    Smt,
    /// Round trips of 70 to 250 ns: two cores that share a cache.
    Near,
    /// Round trips above 250 ns: two cores without a shared cache.
    Far,
    /// The probes of one sample fall into different classes: the cores moved during it.
    Moved,
}

/// Ring round trips below this, nanoseconds, mean SMT siblings *(our choice, between values that we saw: 55-62, and 75
/// and more)*.
const SMT_BELOW_NS: f64 = 70.0;
/// Ring round trips above this, nanoseconds, mean cores without a shared cache *(seen: 75-120 near, 270-460 far)*.
const FAR_ABOVE_NS: f64 = 250.0;

impl Placement {
    /// Placement of two cores between which a round trip of the ring ([`Echo::probe_ns`](super::Echo::probe_ns)) takes
    /// `ring_rtt_ns`: below 70 [`Smt`](Placement::Smt), up to 250 [`Near`](Placement::Near), above
    /// [`Far`](Placement::Far).
    pub fn of(ring_rtt_ns: f64) -> Placement {
        if ring_rtt_ns < SMT_BELOW_NS {
            Placement::Smt
        } else if ring_rtt_ns <= FAR_ABOVE_NS {
            Placement::Near
        } else {
            Placement::Far
        }
    }

    /// Placement during a sample, from the round trips probed during it, in nanoseconds: the placement of all if it is
    /// the same, else [`Moved`](Placement::Moved). `Moved` if there are no probes.
    pub fn among(probes_ns: &[f64]) -> Placement {
        let mut all = probes_ns.iter().map(|&ns| Placement::of(ns));
        let first = all.next().unwrap_or(Placement::Moved);
        if all.all(|other| other == first) {
            first
        } else {
            Placement::Moved
        }
    }

    /// The placement called `smt`, `near` or `far`; `None` for any other name.
    pub fn named(name: &str) -> Option<Placement> {
        let settled = [Placement::Smt, Placement::Near, Placement::Far];
        settled.into_iter().find(|p| p.to_string() == name)
    }

    /// The most common of `all`, not counting [`Moved`](Placement::Moved); of equally common ones `Near` before `Smt`
    /// before `Far`. `Moved` if `all` has nothing else, `None` if `all` is empty.
    pub fn most_common(all: &[Placement]) -> Option<Placement> {
        let settled = [Placement::Near, Placement::Smt, Placement::Far];
        let count = |p: &Placement| all.iter().filter(|q| *q == p).count();
        let best = settled.into_iter().rev().max_by_key(count)?;
        match (count(&best), all.is_empty()) {
            (_, true) => None,
            (0, false) => Some(Placement::Moved),
            _ => Some(best),
        }
    }
}

impl std::fmt::Display for Placement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Placement::Smt => "smt",
            Placement::Near => "near",
            Placement::Far => "far",
            Placement::Moved => "moved",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Placement::{Far, Moved, Near, Smt};

    #[test]
    fn by_round_trip() {
        assert_eq!([50.0, 120.0, 460.0].map(Placement::of), [Smt, Near, Far]);
        assert_eq!(Placement::among(&[120.0, 460.0, 120.0]), Moved);
        assert_eq!(Placement::among(&[120.0, 130.0]), Near);
        assert_eq!(
            ["near", "far", "moved"].map(Placement::named),
            [Some(Near), Some(Far), None]
        );
    }

    #[test]
    fn the_most_common_wins_and_moved_only_alone() {
        assert_eq!(Placement::most_common(&[]), None);
        assert_eq!(Placement::most_common(&[Moved, Moved, Far]), Some(Far));
        assert_eq!(Placement::most_common(&[Moved]), Some(Moved));
        assert_eq!(Placement::most_common(&[Far, Near, Near, Far]), Some(Near));
        assert_eq!(Placement::most_common(&[Far, Far, Near]), Some(Far));
    }
}
