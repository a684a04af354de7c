//! [`ResultTransfer`]: how results come to clients of systems that know several ways; [`FetchObjective`]: what a client that
//! READs them aims at; [`Calls`]: what the calls took.

use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// How results come to a client, in systems that know several ways; others ignore it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ResultTransfer {
    /// As the system sees fit from call to call.
    #[default]
    Auto,
    /// The client READs them.
    Fetch,
    /// The server WRITEs them.
    Reply,
}

impl ResultTransfer {
    /// All of them.
    pub const ALL: [ResultTransfer; 3] = [ResultTransfer::Auto, ResultTransfer::Fetch, ResultTransfer::Reply];

    /// Its name, as options have it.
    pub fn name(self) -> &'static str {
        match self {
            ResultTransfer::Auto => "auto",
            ResultTransfer::Fetch => "fetch",
            ResultTransfer::Reply => "reply",
        }
    }
}

impl FromStr for ResultTransfer {
    type Err = String;

    fn from_str(name: &str) -> Result<ResultTransfer, String> {
        let found = ResultTransfer::ALL
            .into_iter()
            .find(|transfer| transfer.name() == name);
        found.ok_or_else(|| format!("{name}: expected auto, fetch or reply"))
    }
}

/// What is best, when a client chooses how many bytes its first READ of a result fetches.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FetchObjective {
    /// The most calls per second for the sizes of results that come: the inverse of the mean time per call.
    #[default]
    Exact,
    /// RFP's: the sum of the rates of all results, where one that does not fit halves the rate.
    Paper,
}

impl FetchObjective {
    /// All of them.
    pub const ALL: [FetchObjective; 2] = [FetchObjective::Exact, FetchObjective::Paper];

    /// Its name, as options have it.
    pub fn name(self) -> &'static str {
        match self {
            FetchObjective::Exact => "exact",
            FetchObjective::Paper => "paper",
        }
    }
}

impl FromStr for FetchObjective {
    type Err = String;

    fn from_str(name: &str) -> Result<FetchObjective, String> {
        let found = FetchObjective::ALL
            .into_iter()
            .find(|objective| objective.name() == name);
        found.ok_or_else(|| format!("{name}: expected exact or paper"))
    }
}

/// How clients READ results, instead of what they would choose themselves: for figures, which prescribe it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FetchChoice {
    /// `R`: a call with this many failed READs is slow. `u32::MAX`: none is, so that results are never pushed.
    pub slow_reads: u32,
    /// `F`: bytes of a value that the first READ of a GET's result fetches, headers excluded.
    pub first_bytes: usize,
    /// Whether calls take turns with their READs, as where a READ is a copy by the client's core.
    pub takes_turns: bool,
}

/// What the calls of a client took, all shards together, whose results are fetched or pushed.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Calls {
    /// Calls begun. An operation is one call, or several with a long value.
    pub calls: u64,
    /// Verbs that the client posted for them: WRITEs of requests and modes, READs of results.
    pub operations: u64,
    /// READs of the rest of a result, behind the bytes that the first READ fetches.
    pub second_reads: u64,
    /// Calls whose results were fetched, by the number of READs before that found nothing; the last counts all longer ones.
    pub failed_reads: [u64; 17],
    /// Calls whose results were pushed.
    pub pushed: u64,
    /// Changes from fetching to pushing, and back.
    pub switches: [u64; 2],
    /// Pushed results of earlier calls that were dropped.
    pub late_pushes: u64,
    /// Results with a wrong checksum: looked at while they were written.
    pub sum_rejects: u64,
    /// Operations that were begun again because a shard said that it does not own the key.
    #[serde(default)]
    pub elsewhere: u64,
    /// What is in use, not a count: see [`InUse`].
    pub in_use: InUse,
}

/// The parameters of fetching that a client uses.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InUse {
    /// F: bytes of a GET's result that the first READ fetches.
    pub first_bytes: u64,
    /// R: so many failed READs make a call slow.
    pub slow_reads: u64,
    /// P: the server's time per call from which on pushing is worth it, nanoseconds.
    pub push_time_ns: u64,
}

impl Calls {
    /// Adds the counts of another client. What is in use is the other's.
    pub fn add(&mut self, other: &Calls) {
        self.combine(other, |a, b| a + b);
        self.in_use = other.in_use;
    }

    /// Difference between these counts and `earlier`, a previous state of them.
    #[must_use]
    pub fn since(&self, earlier: &Calls) -> Calls {
        let mut since = *self;
        since.combine(earlier, u64::saturating_sub);
        since
    }

    fn combine(&mut self, other: &Calls, op: impl Fn(u64, u64) -> u64) {
        let counts = |calls: &Calls| {
            let [to, back] = calls.switches;
            [
                calls.calls,
                calls.operations,
                calls.second_reads,
                calls.pushed,
                to,
                back,
                calls.late_pushes,
                calls.sum_rejects,
                calls.elsewhere,
            ]
        };
        let (ours, theirs) = (counts(self), counts(other));
        let all: [u64; 9] = std::array::from_fn(|at| op(ours[at], theirs[at]));
        [
            self.calls,
            self.operations,
            self.second_reads,
            self.pushed,
            self.switches[0],
            self.switches[1],
            self.late_pushes,
            self.sum_rejects,
            self.elsewhere,
        ] = all;
        self.failed_reads =
            std::array::from_fn(|fails| op(self.failed_reads[fails], other.failed_reads[fails]));
    }

    /// Calls that have ended.
    pub fn ended(&self) -> u64 {
        self.failed_reads.iter().sum::<u64>() + self.pushed
    }

    /// Verbs of the client per call; 0 without calls.
    pub fn operations_per_call(&self) -> f64 {
        self.operations as f64 / self.calls.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_options() {
        for transfer in ResultTransfer::ALL {
            assert_eq!(transfer.name().parse(), Ok(transfer));
        }
        assert!("push".parse::<ResultTransfer>().is_err());
        for objective in FetchObjective::ALL {
            assert_eq!(objective.name().parse(), Ok(objective));
        }
        assert!("best".parse::<FetchObjective>().is_err());
    }

    #[test]
    fn counts_of_a_run_are_differences() {
        let some = |n: u64| Calls {
            calls: n,
            operations: 2 * n,
            second_reads: 3,
            failed_reads: [n; 17],
            pushed: 4,
            switches: [n, 1],
            late_pushes: 5,
            sum_rejects: 6,
            elsewhere: n,
            in_use: InUse {
                first_bytes: n,
                ..InUse::default()
            },
        };
        let mut sum = some(3);
        sum.add(&some(7));
        assert_eq!(
            (sum.calls, sum.switches, sum.elsewhere, sum.in_use.first_bytes),
            (10, [10, 2], 10, 7)
        );
        let since = sum.since(&some(3));
        assert_eq!((since.calls, since.failed_reads[16], since.pushed), (7, 7, 4));
        assert_eq!(since.operations_per_call(), 2.0);
    }
}
