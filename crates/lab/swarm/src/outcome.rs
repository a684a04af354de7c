//! [`Outcome`]: the result of a run, for any system.

use crate::check::Violation;
use crate::record::{End, Record};
use drover_base::Ns;
use drover_sim::Ps;
use drover_verbs_sim::World;
use std::fmt;

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Violations of rules, if any.
    pub violations: Vec<Violation>,
    /// Counts.
    pub summary: Summary,
    /// Faults of machines and cores, in order of time.
    pub timeline: Vec<String>,
    /// Hash over all events of the cluster; equal for equal cases.
    pub trace_hash: u64,
}

/// Counts of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Operations submitted.
    pub asked: usize,
    /// Operations with an answer.
    pub completed: usize,
    /// Operations with an indeterminate outcome.
    pub unknown: usize,
    /// Operations that were refused and did not happen.
    pub refused: usize,
    /// Operations whose clients crashed.
    pub orphaned: usize,
    /// Messages lost, delayed, duplicated or torn, and connections broken.
    pub message_faults: u64,
    /// Counters of the clients that run at the end, by name.
    pub counted: Vec<(&'static str, u64)>,
    /// Keys whose histories were checked.
    pub judged: usize,
    /// Keys whose histories overlap too much to be checked.
    pub unjudged: usize,
    /// Total virtual time.
    pub time: Ns,
    /// Time from the end of the trouble until every client was ready.
    pub until_ready: Ns,
    /// Number of events.
    pub events: u64,
}

impl Summary {
    /// The counts of operations, time and events.
    pub(crate) fn of(record: &Record, world: &World) -> Summary {
        Summary {
            asked: record.entries.len(),
            completed: record.count(|end| matches!(end, End::Answered(_))),
            unknown: record.count(|end| matches!(end, End::Unknown(_))),
            refused: record.count(|end| matches!(end, End::Refused(..))),
            orphaned: record.count(|end| *end == End::Orphaned),
            time: Ps::from(world.now()).floor(),
            events: world.events(),
            ..Summary::default()
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "operations: {} asked, {} answered, {} indeterminate, {} refused, {} of crashed clients",
            self.asked, self.completed, self.unknown, self.refused, self.orphaned
        )?;
        write!(f, "messages:   {} faults", self.message_faults)?;
        for (name, count) in &self.counted {
            write!(f, ", {count} {name}")?;
        }
        write!(
            f,
            "\ntime:       {} virtual, {} events; ready again {} after the trouble",
            self.time, self.events, self.until_ready
        )
    }
}
