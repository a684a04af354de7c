//! [`Executor`]: what a step needs of its core; [`Core`]: what stays from step to step.

use crate::counters::Holdings;
use crate::line::LineBuffer;
use crate::{CoreRouter, Counters, Server};
use drover_base::Cpu;
use drover_base::sync::Ordering;
use drover_store::Partition;

/// What this core keeps for its memcached clients: one for all of its connections.
#[derive(Debug, Default)]
pub struct Core {
    /// What was counted here.
    pub counters: Counters,
    pub(crate) line: LineBuffer,
    /// Whose requests are executed: number of its connection.
    pub(crate) connection: u32,
    /// What anybody watches, as bits, as of the beginning of the step.
    pub(crate) watched: u32,
    /// The [resets](Server) it has seen.
    resets: u32,
}

/// What a step needs of its core. Made anew for each step: it is a handful of references.
pub struct Executor<'d, C: Cpu> {
    /// The items that live here.
    pub partition: &'d mut Partition,
    /// The core.
    pub cpu: &'d C,
    /// Seconds since the server's start.
    pub now_s: u32,
    /// What stays.
    pub core: &'d mut Core,
    /// What all cores share.
    pub server: &'d Server,
    /// The way to the others.
    pub router: &'d mut dyn CoreRouter,
}

impl<C: Cpu> Executor<'_, C> {
    /// What is due by the clock. Every entry point calls it; whoever has an idle core may.
    #[inline]
    pub fn begin_step(&mut self) {
        // Relaxed: who counts a command too much or too few around a reset cannot be told.
        let resets = self.server.resets.load(Ordering::Relaxed);
        if resets != self.core.resets {
            self.core.resets = resets;
            self.core.counters = Counters::default();
        }
        let watched = self.server.watchers.kinds();
        if watched | self.core.watched != 0 {
            self.begin_watched_step(watched);
        }
        if let Some(at_s) = self.partition.clear_at_s()
            && at_s <= self.now_s
        {
            self.flush(at_s);
        }
    }

    /// Forgets everything: now, or when `at_s` is reached. The last one counts.
    pub(crate) fn flush(&mut self, at_s: u32) {
        let is_due = at_s <= self.now_s;
        self.partition.set_clear_at_s((!is_due).then_some(at_s));
        if is_due {
            self.partition.clear();
        }
    }

    /// Shows this core's numbers to the others: at the end of a step in which something was done, before its replies
    /// leave. Cost: four lines written.
    pub fn publish(&self) {
        if let Some(board) = self.server.boards.get(self.router.own()) {
            board.publish(&self.core.counters, &self.partition.stats().into());
        }
    }

    /// `stats reset`: on this core now, on others with their next step; what they show is 0 at once.
    pub(crate) fn reset_counters(&mut self) {
        self.server.resets.fetch_add(1, Ordering::Relaxed);
        self.begin_step();
        for board in &self.server.boards {
            board.publish(&Counters::default(), &board.read().1);
        }
        self.server.detail.clear();
    }

    /// The numbers of all cores: this one's as of now, the others' as they published them last.
    pub(crate) fn totals(&self) -> (Counters, Holdings) {
        let (mut counters, mut holdings) = (self.core.counters, Holdings::from(self.partition.stats()));
        for (core, board) in self.server.boards.iter().enumerate() {
            if core != self.router.own() {
                let (theirs, held) = board.read();
                counters.add(&theirs);
                holdings.add(&held);
            }
        }
        (counters, holdings)
    }
}
