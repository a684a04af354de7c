//! [`Outcome`]: the result of a run, for any system.

use crate::check::Violation;
use crate::record::{End, Record};
use drover_base::Ns;
use drover_sim::Ps;
use drover_verbs_sim::World;
use std::fmt;

/// Result of a simulated run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// All violations of rules; empty if the run is correct.
    pub violations: Vec<Violation>,
    /// Counts and times of the run.
    pub summary: Summary,
    /// Text with time and description of each event of the fault plan (crashes, stops, shutdowns, clients that come or
    /// leave) and of the end of the trouble, in order of time.
    pub timeline: Vec<String>,
    /// Hash over all events of the cluster; equal for equal cases.
    pub trace_hash: u64,
}

/// Counts and times of a simulated run, checks after the trouble included.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Number of operations that clients accepted.
    pub asked: usize,
    /// Number of operations with an answer: stored, deleted, found or not found.
    pub completed: usize,
    /// Number of operations with an indeterminate outcome.
    pub unknown: usize,
    /// Number of operations that were refused and did not happen.
    pub refused: usize,
    /// Number of operations whose client crashed before they ended, or whose result makes no sense.
    pub orphaned: usize,
    /// Number of messages lost, delayed, reordered, duplicated or torn, and of connections broken. Lost packets do not
    /// count.
    pub message_faults: u64,
    /// Counters by name, each summed over the clients or shards that run at the end.
    pub counted: Vec<(&'static str, u64)>,
    /// Number of keys whose histories were checked for linearizability.
    pub judged: usize,
    /// Number of keys whose histories overlap too much to be checked.
    pub unjudged: usize,
    /// Total virtual time of the run.
    pub time: Ns,
    /// Virtual time from the end of the trouble until nothing was in flight and every client had its sessions, or until
    /// waiting for that was given up.
    pub until_ready: Ns,
    /// Number of events that the simulator handled.
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
