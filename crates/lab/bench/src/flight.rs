//! [`Flight`]: the operations of one client that are under way, and what came of those that finished.

use crate::latency::Latency;
use crate::workload::{Draw, Values, Verb};
use drover_kv::{Outcome, Token};
use drover_mem::{NativeCpu, timestamp};
use serde::{Deserialize, Serialize};
use std::hint::cold_path;

/// One in this many hits is compared byte by byte with what was written; all are checked for their length.
const VERIFY_EVERY: u64 = 64;

/// What came of the operations of one run.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Counts {
    /// Operations finished, a read-modify-write counted once.
    pub ops: u64,
    /// GETs finished, those of read-modify-writes included.
    pub gets: u64,
    /// GETs that found a value.
    pub hits: u64,
    /// PUTs acknowledged.
    pub puts: u64,
    /// Hits compared byte by byte.
    pub verified: u64,
    /// Hits whose bytes or length were wrong. Anything but 0 is a defect.
    pub corrupt: u64,
    /// Operations refused, given up or indeterminate.
    pub failed: u64,
}

impl Counts {
    /// Adds another client's.
    pub fn add(&mut self, other: &Counts) {
        self.ops += other.ops;
        self.gets += other.gets;
        self.hits += other.hits;
        self.puts += other.puts;
        self.verified += other.verified;
        self.corrupt += other.corrupt;
        self.failed += other.failed;
    }

    /// Counts what came of a GET or PUT of key `index`, and looks at the value that it found.
    #[inline(always)]
    fn count(&mut self, index: u32, outcome: Outcome<'_>, values: &Values) {
        match outcome {
            Outcome::Value(value) => {
                let index = u64::from(index);
                self.gets += 1;
                self.hits += 1;
                if value.len() != values.len_of(index) {
                    self.corrupt += 1;
                } else if self.hits.is_multiple_of(VERIFY_EVERY) {
                    self.verified += 1;
                    self.corrupt += u64::from(!values.verify(index, value));
                }
            }
            Outcome::NotFound => self.gets += 1,
            Outcome::Stored => self.puts += 1,
            _ => self.failed += 1,
        }
    }

    /// Hits per GET; 1 when there were no GETs.
    pub fn hit_rate(&self) -> f64 {
        if self.gets == 0 {
            1.0
        } else {
            self.hits as f64 / self.gets as f64
        }
    }
}

/// What a token waits for. One byte says all that finishing asks for, and nearly always it says GET or PUT.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    Get,
    Put,
    /// The GET of a read-modify-write, whose PUT comes next.
    Half,
    /// A GET or PUT whose latency is measured.
    Timed,
    /// A GET whose PUT comes next; the latency of both together is measured.
    TimedHalf,
    /// Nothing: the slot is free.
    Free,
}

#[derive(Clone, Copy)]
struct Slot {
    /// When it began, in ticks, if it is timed.
    began: u64,
    /// Its key; of a free slot: the next free one.
    index: u32,
    wait: Wait,
}

/// A table of operations under way, one slot per token. Nothing is allocated after it is made.
pub(crate) struct Flight {
    slots: Box<[Slot]>,
    /// The slot freed last, the first of a list; behind the last slot: all are taken.
    free: usize,
    /// Read-modify-writes whose GET has finished: their PUT is next.
    pub(crate) modify: Vec<usize>,
    /// But for the operations.
    counts: Counts,
    /// GETs of read-modify-writes that finished.
    halves: u64,
    pub(crate) latency: Latency,
    /// Completions of tokens that were not under way. Anything but 0 is a defect of the target.
    pub(crate) strays: u64,
}

impl Flight {
    pub(crate) fn new(window: usize) -> Flight {
        let free = |nth| Slot {
            began: 0,
            index: nth + 1,
            wait: Wait::Free,
        };
        Flight {
            slots: (0..window as u32).map(free).collect(),
            free: 0,
            modify: Vec::with_capacity(window),
            counts: Counts::default(),
            halves: 0,
            latency: Latency::new(),
            strays: 0,
        }
    }

    /// What finished so far. Operations are whatever was counted but the first halves: one counter less to keep.
    pub(crate) fn counts(&self) -> Counts {
        let Counts {
            gets, puts, failed, ..
        } = self.counts;
        Counts {
            ops: gets + puts + failed - self.halves,
            ..self.counts
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.under_way() == 0
    }

    /// Counted, which nobody asks for while a run goes on.
    pub(crate) fn under_way(&self) -> usize {
        self.slots.iter().filter(|s| s.wait != Wait::Free).count()
    }

    /// `draw` is under way now. Its token; `None`: as many as may be are already.
    #[inline(always)]
    pub(crate) fn begin(&mut self, draw: Draw) -> Option<usize> {
        let token = self.free;
        let slot = self.slots.get_mut(token)?;
        self.free = slot.index as usize;
        slot.index = draw.index;
        slot.wait = match draw.verb {
            Verb::Get => Wait::Get,
            Verb::Put => Wait::Put,
            Verb::Modify => Wait::Half,
        };
        Some(token)
    }

    /// The latency of `token` is to be measured, from `began` ticks on.
    #[inline]
    pub(crate) fn sample(&mut self, token: usize, began: u64) {
        let slot = &mut self.slots[token];
        slot.began = began;
        slot.wait = match slot.wait {
            Wait::Half => Wait::TimedHalf,
            _ => Wait::Timed,
        };
    }

    /// What has just [begun](Flight::begin) with `token` has not: the target had no space for it.
    pub(crate) fn cancel(&mut self, token: usize) {
        let slot = &mut self.slots[token];
        (slot.wait, slot.index) = (Wait::Free, self.free as u32);
        self.free = token;
    }

    /// The key of a token whose PUT is due.
    #[inline]
    pub(crate) fn index_of(&self, token: usize) -> u32 {
        self.slots[token].index
    }

    /// The PUT of a read-modify-write is on its way: what finishes next is a PUT.
    #[inline]
    pub(crate) fn now_put(&mut self, token: usize) {
        let slot = &mut self.slots[token];
        slot.wait = match slot.wait {
            Wait::TimedHalf => Wait::Timed,
            _ => Wait::Put,
        };
    }

    /// Notes that `token` finished with `outcome`.
    #[inline(always)]
    pub(crate) fn finish(&mut self, token: Token, outcome: Outcome<'_>, values: &Values) {
        let token = token as usize;
        let Some(slot) = self.slots.get_mut(token) else {
            cold_path();
            self.strays += 1;
            return;
        };
        // Paths that are not said to be cold make a jump through a table of this.
        match slot.wait {
            Wait::Get | Wait::Put => self.counts.count(slot.index, outcome, values),
            Wait::Timed => {
                cold_path();
                self.counts.count(slot.index, outcome, values);
                let ticks = timestamp().saturating_sub(slot.began);
                self.latency.record(NativeCpu::ticks_to_ns(ticks));
            }
            Wait::Half | Wait::TimedHalf => {
                cold_path();
                self.counts.count(slot.index, outcome, values);
                self.halves += 1;
                self.modify.push(token);
                return;
            }
            Wait::Free => {
                cold_path();
                self.strays += 1;
                return;
            }
        }
        (slot.wait, slot.index) = (Wait::Free, self.free as u32);
        self.free = token;
    }
}
