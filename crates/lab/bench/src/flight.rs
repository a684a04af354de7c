//! [`Flight`]: the operations in flight of one client, and the results of finished ones.

use crate::latency::Latency;
use crate::workload::{Draw, Values, Verb};
use drover_kv::{Outcome, Token};
use drover_mem::{NativeCpu, timestamp};
use serde::{Deserialize, Serialize};
use std::hint::cold_path;

/// One hit in this many is compared byte by byte with the written value; every hit's length is checked.
const VERIFY_EVERY: u64 = 64;

/// Counts of the operations of a run.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Counts {
    /// Operations finished, failed ones included; a read-modify-write counts once.
    pub ops: u64,
    /// GETs answered, hits and misses, including those of read-modify-writes.
    pub gets: u64,
    /// GETs that found a value.
    pub hits: u64,
    /// PUTs acknowledged, including those of read-modify-writes.
    pub puts: u64,
    /// Hits compared byte by byte with the written value: one in 64.
    pub verified: u64,
    /// Hits of wrong length, and compared hits with wrong bytes. Anything but 0 is a bug.
    pub corrupt: u64,
    /// GETs and PUTs that were refused (also because no server answered in time) or whose result is unknown.
    pub failed: u64,
}

impl Counts {
    /// Adds the counts of another client.
    pub fn add(&mut self, other: &Counts) {
        self.ops += other.ops;
        self.gets += other.gets;
        self.hits += other.hits;
        self.puts += other.puts;
        self.verified += other.verified;
        self.corrupt += other.corrupt;
        self.failed += other.failed;
    }

    /// Counts the outcome of a GET or PUT of key `index`, and checks the value that it found.
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

    /// Hits per answered GET, 0 to 1; 1 without GETs.
    pub fn hit_rate(&self) -> f64 {
        if self.gets == 0 {
            1.0
        } else {
            self.hits as f64 / self.gets as f64
        }
    }
}

/// State of a token: one byte says what to do on completion, and nearly always it is GET or PUT.
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
    /// Free slot.
    Free,
}

#[derive(Clone, Copy)]
struct Slot {
    /// Start in ticks, if the latency is measured.
    began: u64,
    /// Key index; in a free slot: the next free slot.
    index: u32,
    wait: Wait,
}

/// The operations in flight, one slot per token. Allocates nothing after its construction.
pub(crate) struct Flight {
    slots: Box<[Slot]>,
    /// The first slot of the free list; past the last slot if all are taken.
    free: usize,
    /// Tokens of read-modify-writes whose GET has finished and whose PUT is next.
    pub(crate) modify: Vec<usize>,
    /// All counts except `ops`.
    counts: Counts,
    /// Number of finished GETs of read-modify-writes.
    halves: u64,
    pub(crate) latency: Latency,
    /// Completions of tokens that were not in flight. Anything but 0 is a bug of the target.
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

    /// Counts so far. `ops` is computed from the others without the first halves, which saves a counter.
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

    /// Number of operations in flight. It scans the slots, as no run needs it.
    pub(crate) fn under_way(&self) -> usize {
        self.slots.iter().filter(|s| s.wait != Wait::Free).count()
    }

    /// Records `draw` as in flight and returns its token, or `None` if the window is full.
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

    /// Starts the latency measurement of `token` at `began` ticks.
    #[inline]
    pub(crate) fn sample(&mut self, token: usize, began: u64) {
        let slot = &mut self.slots[token];
        slot.began = began;
        slot.wait = match slot.wait {
            Wait::Half => Wait::TimedHalf,
            _ => Wait::Timed,
        };
    }

    /// Undoes the [`begin`](Flight::begin) of `token`: the target had no space for it.
    pub(crate) fn cancel(&mut self, token: usize) {
        let slot = &mut self.slots[token];
        (slot.wait, slot.index) = (Wait::Free, self.free as u32);
        self.free = token;
    }

    /// Key index of a token whose PUT is due.
    #[inline]
    pub(crate) fn index_of(&self, token: usize) -> u32 {
        self.slots[token].index
    }

    /// Records that the PUT of a read-modify-write was submitted.
    #[inline]
    pub(crate) fn now_put(&mut self, token: usize) {
        let slot = &mut self.slots[token];
        slot.wait = match slot.wait {
            Wait::TimedHalf => Wait::Timed,
            _ => Wait::Put,
        };
    }

    /// Records the outcome of `token`.
    #[inline(always)]
    pub(crate) fn finish(&mut self, token: Token, outcome: Outcome<'_>, values: &Values) {
        let token = token as usize;
        let Some(slot) = self.slots.get_mut(token) else {
            cold_path();
            self.strays += 1;
            return;
        };
        // Without the cold paths the compiler would use a jump table here.
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
