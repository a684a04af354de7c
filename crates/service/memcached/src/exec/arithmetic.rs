//! `incr`, `decr` and the numeric part of `ma`.

use super::answer;
use crate::Executor;
use crate::decide::{
    NO_MEMORY_FOR_NUMBER, NON_NUMERIC, NUMBER_BYTES_MAX, NumberText, VALUE_BYTES_MAX, number_in, sum,
};
use crate::line::{digits, write_number};
use drover_base::Cpu;
use drover_net::Output;
use drover_store::{ExtraOutcome, ExtraPut, ItemRef, Key, Sharing};

const SPACES: &[u8; 4096] = &[b' '; 4096];

/// Result of an addition.
pub(super) enum Sum {
    /// The addition was done.
    Done {
        value: u64,
        cas: u64,
        expire_s: u32,
    },
    Absent,
    /// The item has another CAS.
    Exists,
    NonNumeric,
    NoMemory,
}

/// Operands of an addition.
pub(super) struct Delta {
    pub(super) by: u64,
    pub(super) up: bool,
    /// CAS that the item must have; 0: any.
    pub(super) if_cas: u64,
    /// CAS to give the item; `None`: a new one.
    pub(super) new_cas: Option<u64>,
    /// Whether to record accesses to the item from now on.
    pub(super) track_access: bool,
}

/// The item before the addition.
struct Before {
    number: Option<u64>,
    value_len: usize,
    flags: u32,
    expire_s: u32,
    cas: u64,
}

impl Before {
    fn of(item: ItemRef<'_>) -> Before {
        let value_len = item.value_len();
        let mut text = [0; NUMBER_BYTES_MAX];
        let text = &mut text[..value_len.min(NUMBER_BYTES_MAX)];
        item.copy_value_part(0, text);
        let number = number_in(text, value_len);
        Before {
            number,
            value_len,
            flags: item.flags(),
            expire_s: item.expire_s(),
            cas: item.cas(),
        }
    }
}

impl<C: Cpu, S: Sharing> Executor<'_, C, S> {
    pub(super) fn arithmetic(&mut self, key: Key<'_>, by: u64, up: bool, noreply: bool, output: &mut Output) {
        let delta = Delta {
            by,
            up,
            if_cas: 0,
            new_cas: None,
            track_access: false,
        };
        match self.add(key, &delta) {
            Sum::Done { value, .. } if !noreply => {
                let len = digits(value);
                let space = output.space(len + 2);
                write_number(value, &mut space[..len]);
                space[len..].copy_from_slice(b"\r\n");
            }
            Sum::Done { .. } | Sum::Exists => {}
            Sum::Absent => {
                self.count_absent(up);
                answer(output, noreply, b"NOT_FOUND\r\n");
            }
            Sum::NonNumeric => answer(output, noreply, NON_NUMERIC),
            Sum::NoMemory => answer(output, noreply, NO_MEMORY_FOR_NUMBER),
        }
    }

    pub(super) fn count_absent(&mut self, up: bool) {
        let counters = &mut self.core.counters;
        if up {
            counters.incr_misses += 1;
        } else {
            counters.decr_misses += 1;
        }
    }

    /// Adds to the number under `key`, wrapping at 64 bits, or subtracts, stopping at 0. If the new number is shorter,
    /// spaces pad the value to its old length.
    pub(super) fn add(&mut self, key: Key<'_>, delta: &Delta) -> Sum {
        // Not a GET: hit and miss counters stay as they are.
        let mut before = None;
        self.partition.mark(self.cpu, key, self.now_s, |item| {
            before = Some(Before::of(item));
            Default::default()
        });
        let Some(before) = before else { return Sum::Absent };
        if before.value_len == 0 {
            return Sum::NonNumeric;
        }
        if delta.if_cas != 0 && delta.if_cas != before.cas {
            return Sum::Exists;
        }
        let Some(number) = before.number else {
            return Sum::NonNumeric;
        };
        let value = sum(number, delta.by, delta.up);
        self.store_number(key, &before, value, delta)
    }

    fn store_number(&mut self, key: Key<'_>, before: &Before, value: u64, delta: &Delta) -> Sum {
        let text = NumberText::new(value);
        let text = text.digits();
        let blanks = before.value_len.saturating_sub(text.len());
        let outcome = match SPACES.get(..blanks) {
            Some(spaces) => self.store_text(key, before, &[text, spaces], delta),
            None => self.store_long(key, before, text, delta),
        };
        let ExtraOutcome::Stored { cas } = outcome else {
            return Sum::NoMemory;
        };
        let counters = &mut self.core.counters;
        if delta.up {
            counters.incr_hits += 1;
        } else {
            counters.decr_hits += 1;
        }
        Sum::Done {
            value,
            cas,
            expire_s: before.expire_s,
        }
    }

    /// Pads a short number to the length of a long value.
    #[cold]
    fn store_long(&mut self, key: Key<'_>, before: &Before, text: &[u8], delta: &Delta) -> ExtraOutcome {
        const PIECES: usize = VALUE_BYTES_MAX.div_ceil(SPACES.len());
        let mut pieces = [&SPACES[..0]; 1 + PIECES];
        pieces[0] = text;
        let mut blanks = before.value_len - text.len();
        for piece in &mut pieces[1..] {
            *piece = &SPACES[..blanks.min(SPACES.len())];
            blanks -= piece.len();
        }
        self.store_text(key, before, &pieces, delta)
    }

    fn store_text(&mut self, key: Key<'_>, before: &Before, value: &[&[u8]], delta: &Delta) -> ExtraOutcome {
        let put = ExtraPut {
            value,
            expire_s: before.expire_s,
            flags: before.flags,
            // An update in place keeps all marks; a longer value becomes a new item.
            keep: value[0].len() <= before.value_len,
            cas: self.server.new_cas(delta.new_cas),
            track_access: delta.track_access,
            ..ExtraPut::default()
        };
        self.partition.put_extra(self.cpu, key, &put, self.now_s)
    }
}
