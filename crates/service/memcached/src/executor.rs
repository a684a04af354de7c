//! [`Executor`]: the parts of its core that a step uses; [`Core`]: the state that stays from step to step.

use crate::counters::Holdings;
use crate::gather::Gathered;
use crate::in_place::InPlaceReads;
use crate::line::LineBuffer;
use crate::member::MemberCore;
use crate::{CoreRouter, Counters, Server};
use drover_base::Cpu;
use drover_base::sync::Ordering;
use drover_store::{Exclusive, Partition, Sharing};

/// A partition has whole pages of memory.
const PAGE_BYTES: u64 = 4096;

/// Memcached state of one core that outlasts a step; all connections of the core share it.
#[derive(Debug, Default)]
pub struct Core {
    /// Counters of this core since the start or the last `stats reset`.
    pub counters: Counters,
    pub(crate) line: LineBuffer,
    /// Access to the partitions of other cores.
    pub(crate) reads: InPlaceReads,
    /// Messages about several keys, by core.
    pub(crate) gathered: Vec<Gathered>,
    /// End of a reply to such a message.
    pub(crate) places: Vec<u8>,
    /// What a core of a member of a service has; `None`: there is no cluster.
    pub(crate) member: Option<Box<MemberCore>>,
    /// Number of the connection whose requests are being executed.
    pub(crate) connection: u32,
    /// Bits of all watched event kinds, as of the beginning of the step.
    pub(crate) watched: u32,
    /// Number of times that this core has flushed all items.
    pub(crate) flushes: u64,
    /// Hand-overs that failed, and of which nothing must be stored any more: few in the life of a process.
    pub(crate) ended_attempts: std::collections::BTreeSet<u64>,
    /// Number of [resets](Server) that this core has done.
    resets: u32,
    /// What this core has published of its partition.
    published: Holdings,
    /// The server's memory in bytes that this core's partition has its share of; 0: that with which it was created.
    memory_bytes: u64,
}

/// References to what a step uses: the core's own partition and state, and what all cores share. Made for each step.
pub struct Executor<'d, C: Cpu, S: Sharing = Exclusive> {
    /// The core's partition: it holds the items whose keys this core owns.
    pub partition: &'d mut Partition<S>,
    /// Handle of the core that runs the step.
    pub cpu: &'d C,
    /// Current time in seconds since [`Server::start_unix_s`], at least 1: an item given a negative expiry expires in
    /// second 1.
    pub now_s: u32,
    /// State of this core that stays from step to step.
    pub core: &'d mut Core,
    /// State shared by all cores.
    pub server: &'d Server,
    /// Route to the other cores.
    pub router: &'d mut dyn CoreRouter,
}

impl<C: Cpu, S: Sharing> Executor<'_, C, S> {
    /// Does what has become due since the last step: zeroes the counters after a `stats reset`, follows changes in what
    /// clients watch, reports evicted items to them, follows changes in who may read which partition, and executes a delayed
    /// `flush_all`. A step of a session and
    /// [`serve`](Executor::serve) call it; an idle core may call it too.
    #[inline]
    pub fn begin_step(&mut self) {
        // Relaxed: nobody can observe whether a command near a reset is counted before or after it.
        let resets = self.server.resets.load(Ordering::Relaxed);
        if resets != self.core.resets {
            self.core.resets = resets;
            self.core.counters = Counters::default();
        }
        let memory_bytes = self.server.memory_bytes();
        if memory_bytes != self.core.memory_bytes {
            self.limit_memory(memory_bytes);
        }
        let watched = self.server.watchers.kinds();
        if watched | self.core.watched != 0 {
            self.begin_watched_step(watched);
        }
        self.follow_readers();
        if let Some(at_s) = self.partition.clear_at_s()
            && at_s <= self.now_s
        {
            self.flush(at_s);
        }
    }

    /// Gives this core's partition its share of `memory_bytes`; returns whether it can have that. The first call takes note
    /// only.
    #[cold]
    pub(crate) fn limit_memory(&mut self, memory_bytes: u64) -> bool {
        let before = std::mem::replace(&mut self.core.memory_bytes, memory_bytes);
        if before == 0 && memory_bytes == self.server.settings.items.memory_bytes {
            return true;
        }
        let share = memory_bytes / self.router.core_count() as u64;
        // A last page that is not whole is not used, as when the partition was created.
        let is_possible = self.partition.limit_memory(share & !(PAGE_BYTES - 1));
        if !is_possible {
            self.core.memory_bytes = before;
        }
        is_possible
    }

    /// Flushes all items: now, or when `at_s` is reached. The last call wins.
    pub(crate) fn flush(&mut self, at_s: u32) {
        let is_due = at_s <= self.now_s;
        if is_due {
            // First: until then a flush that is due keeps other cores from reading.
            match self.core.replicas() {
                None => self.partition.clear(),
                Some(_) => self.flush_own(),
            }
            self.core.flushes += 1;
        }
        self.partition.set_clear_at_s((!is_due).then_some(at_s));
    }

    /// Publishes this core's numbers on its [`Board`](crate::Board). To be called at the end of a step that did
    /// something, before its replies leave. Cost: four or five cache lines written.
    pub fn publish(&mut self) {
        if S::HAS_READERS {
            self.core.reads.publish_counts();
        }
        let holdings = self.partition.stats().into();
        if let Some(board) = self.server.boards.get(self.router.own()) {
            board.publish(&self.core.counters, &holdings);
        }
        self.core.published = holdings;
    }

    /// [Publishes](Executor::publish) what others than memcached's clients have changed in the partition; returns whether
    /// there was anything.
    pub fn publish_changes(&mut self) -> bool {
        let has_changed = self.core.published != self.partition.stats().into();
        if has_changed {
            self.publish();
        }
        has_changed
    }

    /// `stats reset`: this core resets now, the others at their next step; the published numbers are 0 at once.
    pub(crate) fn reset_counters(&mut self) {
        self.server.resets.fetch_add(1, Ordering::Relaxed);
        self.begin_step();
        for board in &self.server.boards {
            board.publish(&Counters::default(), &board.read().1);
        }
        self.server.detail.clear();
    }

    /// The numbers of all cores: this core's current ones, and the last published ones of the others.
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
