//! [`Outcome`]: what came of a run, whichever system was in it.

use crate::check::Violation;
use crate::record::{End, Record};
use drover_base::Ns;
use drover_sim::Ps;
use drover_verbs_sim::World;
use std::fmt;

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What must not be, if anything.
    pub violations: Vec<Violation>,
    /// What happened.
    pub summary: Summary,
    /// Of machines and cores, in order.
    pub timeline: Vec<String>,
    /// Over every event of the cluster: equal for equal cases.
    pub trace_hash: u64,
}

/// Counts of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Operations asked.
    pub asked: usize,
    /// Answered.
    pub completed: usize,
    /// Nobody can know.
    pub unknown: usize,
    /// Did not happen.
    pub refused: usize,
    /// Their clients crashed.
    pub orphaned: usize,
    /// Messages lost, late, doubled, torn; connections broken.
    pub message_faults: u64,
    /// What clients that are up at the end counted, each with its name.
    pub counted: Vec<(&'static str, u64)>,
    /// Keys whose histories were judged.
    pub judged: usize,
    /// Keys whose histories overlap too much to be judged.
    pub unjudged: usize,
    /// Virtual time in all.
    pub time: Ns,
    /// Of it from the end of trouble until every client was ready.
    pub until_ready: Ns,
    /// Events.
    pub events: u64,
}

impl Summary {
    /// Of operations and time.
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
