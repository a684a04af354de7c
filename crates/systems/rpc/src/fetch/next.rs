//! [`Next`]: what a client's end says to do. Its options and counters.

use super::switch::{Mode, SwitchOptions, Transfer};
use crate::CallError;
use drover_base::Ns;

/// Most failed READs of a call that statistics tell apart.
pub const FAILS_COUNTED_MAX: usize = 16;

/// Options of a client's end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CallerOptions {
    /// Which modes are used.
    pub transfer: Transfer,
    /// When modes change.
    pub switch: SwitchOptions,
    /// `F`: bytes of payload that the first READ of a result fetches, header excluded. More than a slot has is cut to
    /// that.
    pub first_bytes: usize,
    /// After so many failed READs of a call, the next ones are this far apart.
    pub backoff: (u32, Ns),
}

impl Default for CallerOptions {
    /// `Auto`, the paper's R, N, P and F = 256; a READ every 2 us after 32 failed ones.
    fn default() -> CallerOptions {
        CallerOptions {
            transfer: Transfer::Auto,
            switch: SwitchOptions::default(),
            first_bytes: 256,
            backoff: (32, Ns::from_us(2)),
        }
    }
}

/// What a client does next for a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// READ `len` bytes from `offset` of the result slot into the same bytes of the landing slot; then
    /// [`landed`](super::Caller::landed).
    Read {
        /// Offset from the start of the slot, bytes.
        offset: usize,
        /// Length, bytes.
        len: usize,
    },
    /// [`poll`](super::Caller::poll) until the result is there; before that, WRITE the mode, if there is one.
    Wait {
        /// The mode that changes.
        mode: Option<ModeChange>,
    },
    /// The call is over.
    Done {
        /// Bytes of the result, which is at the start of the buffer that the method got, or why there is none.
        result: Result<usize, CallError>,
        /// A mode that changes for the next call: WRITE it before that one's request.
        mode: Option<ModeChange>,
    },
    /// The result of a call came that had been reported as failed. WRITE the mode, if there is one.
    Late {
        /// The mode that changes.
        mode: Option<ModeChange>,
    },
    /// Nothing: a completion that the call did not wait for.
    Nothing,
}

/// A byte that the client WRITEs into the server's memory to change a mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModeChange {
    /// Offset in the inbound memory.
    pub offset: usize,
    /// The mode, which is the byte's value.
    pub mode: Mode,
}

/// Counters of a client's end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CallerStats {
    /// Calls begun. Each is one WRITE.
    pub calls: u64,
    /// First READs, failed ones included.
    pub first_reads: u64,
    /// READs of the rest of a result.
    pub second_reads: u64,
    /// WRITEs of modes: changes to `Reply`, and back.
    pub switches: [u64; 2],
    /// Calls whose result was fetched, by the number of failed READs; the last counts all longer ones.
    pub fails: [u64; FAILS_COUNTED_MAX + 1],
    /// Calls whose result was pushed.
    pub pushed: u64,
    /// Results with a wrong checksum: READ or polled while they were written.
    pub sum_rejects: u64,
    /// Pushed results of earlier calls that were dropped.
    pub late_pushes: u64,
    /// Calls that passed their deadline.
    pub timeouts: u64,
}

impl CallerStats {
    /// Adds the counters of another end.
    pub fn add(&mut self, other: &CallerStats) {
        self.calls += other.calls;
        self.first_reads += other.first_reads;
        self.second_reads += other.second_reads;
        self.switches[0] += other.switches[0];
        self.switches[1] += other.switches[1];
        let fails = self.fails.iter_mut().zip(&other.fails);
        fails.for_each(|(sum, count)| *sum += count);
        self.pushed += other.pushed;
        self.sum_rejects += other.sum_rejects;
        self.late_pushes += other.late_pushes;
        self.timeouts += other.timeouts;
    }

    /// Verbs that the client posted for all calls: WRITEs of requests and modes, READs.
    pub fn operations(&self) -> u64 {
        self.calls + self.first_reads + self.second_reads + self.switches.iter().sum::<u64>()
    }
}
