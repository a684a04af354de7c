//! [`Flight`]: the operations of one client that are under way, and what came of those that finished.

use crate::latency::Latency;
use crate::workload::{Draw, Values, Verb};
use drover_kv::{Outcome, Token};
use drover_mem::{NativeCpu, timestamp};
use serde::{Deserialize, Serialize};

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

    /// Hits per GET; 1 when there were no GETs.
    pub fn hit_rate(&self) -> f64 {
        if self.gets == 0 {
            1.0
        } else {
            self.hits as f64 / self.gets as f64
        }
    }
}

#[derive(Clone, Copy)]
struct Slot {
    draw: Draw,
    /// When it began, in ticks; 0: not sampled.
    began: u64,
    busy: bool,
}

/// A table of operations under way, one slot per token. Nothing is allocated after it is made.
pub(crate) struct Flight {
    slots: Box<[Slot]>,
    free: Vec<u32>,
    /// Read-modify-writes whose GET has finished: their PUT is next.
    pub(crate) modify: Vec<u32>,
    pub(crate) counts: Counts,
    pub(crate) latency: Latency,
    /// Completions of tokens that were not under way. Anything but 0 is a defect of the target.
    pub(crate) strays: u64,
}

impl Flight {
    pub(crate) fn new(window: usize) -> Flight {
        let idle = Slot {
            draw: Draw {
                verb: Verb::Get,
                index: 0,
            },
            began: 0,
            busy: false,
        };
        Flight {
            slots: vec![idle; window].into(),
            free: (0..window as u32).rev().collect(),
            modify: Vec::with_capacity(window),
            counts: Counts::default(),
            latency: Latency::new(),
            strays: 0,
        }
    }

    /// Whether another operation may begin.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    pub(crate) fn under_way(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The token that the next [`begin`](Flight::begin) takes. There must be room.
    #[inline]
    pub(crate) fn next_token(&self) -> u32 {
        *self.free.last().expect("the caller asked for room")
    }

    /// Takes the next token for `draw`, begun at `began` ticks (0: not sampled).
    #[inline(always)]
    pub(crate) fn begin(&mut self, draw: Draw, began: u64) {
        let token = self.free.pop().expect("the caller asked for room");
        self.slots[token as usize] = Slot {
            draw,
            began,
            busy: true,
        };
    }

    /// The operation of a token whose PUT is due.
    #[inline]
    pub(crate) fn draw_of(&self, token: u32) -> Draw {
        self.slots[token as usize].draw
    }

    /// The PUT of a read-modify-write is on its way: what finishes next is a PUT.
    #[inline]
    pub(crate) fn now_put(&mut self, token: u32) {
        self.slots[token as usize].draw.verb = Verb::Put;
    }

    /// Notes that `token` finished with `outcome`.
    #[inline(always)]
    pub(crate) fn finish(&mut self, token: Token, outcome: Outcome<'_>, values: &Values) {
        let Some(slot) = self.slots.get_mut(token as usize).filter(|s| s.busy) else {
            self.strays += 1;
            return;
        };
        let draw = slot.draw;
        match outcome {
            Outcome::Value(value) => {
                self.counts.gets += 1;
                self.counts.hits += 1;
                if value.len() != values.len_of(u64::from(draw.index)) {
                    self.counts.corrupt += 1;
                } else if self.counts.hits.is_multiple_of(VERIFY_EVERY) {
                    self.counts.verified += 1;
                    self.counts.corrupt += u64::from(!values.verify(u64::from(draw.index), value));
                }
            }
            Outcome::NotFound => self.counts.gets += 1,
            Outcome::Stored => self.counts.puts += 1,
            _ => self.counts.failed += 1,
        }
        if draw.verb == Verb::Modify {
            self.modify.push(token as u32);
            return;
        }
        slot.busy = false;
        if slot.began != 0 {
            let ticks = timestamp().saturating_sub(slot.began);
            self.latency.record(NativeCpu::ticks_to_ns(ticks));
        }
        self.counts.ops += 1;
        self.free.push(token as u32);
    }
}
