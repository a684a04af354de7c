//! *Extras*: item fields that memcached's commands need and the native protocol does not.
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | 4 | flags | the client's own 32 bits |
//! | 4 | 4 | access | last access in bits 0-28, then fetched, stale, won |
//! | 8 | 8 | cas | number compared by memcached's `cas` |
//!
//! Little-endian, between padded key and value. An item has extras if it was stored by
//! [`put_extra`](crate::Partition::put_extra), and loses them when a native PUT replaces it. An item without extras has
//! flags 0, its version as CAS number, and counts as not fetched.

use crate::item::{Body, ItemRef};
use drover_mem::MaskedRef;

/// Bytes that *extras* add to an item: flags, CAS number, time of last access and marks, for memcached's commands.
pub const EXTRAS_BYTES: usize = 16;

/// Bits of the access word below its three marks: seconds since server start, up to 17 years.
const ACCESSED_S: u32 = (1 << 29) - 1;
const FETCHED: u32 = 1 << 29;
const STALE: u32 = 1 << 30;
const WON: u32 = 1 << 31;

/// Last access of an item, and its marks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Access(u32);

impl Access {
    /// Access word of an item stored at `now_s`.
    fn new(now_s: u32) -> Access {
        Access(now_s & ACCESSED_S)
    }

    pub(crate) fn accessed_s(self) -> u32 {
        self.0 & ACCESSED_S
    }

    pub(crate) fn is_fetched(self) -> bool {
        self.0 & FETCHED != 0
    }

    pub(crate) fn is_stale(self) -> bool {
        self.0 & STALE != 0
    }

    pub(crate) fn is_won(self) -> bool {
        self.0 & WON != 0
    }

    fn with(self, bit: u32, wish: Option<bool>) -> Access {
        match wish {
            Some(true) => Access(self.0 | bit),
            Some(false) => Access(self.0 & !bit),
            None => self,
        }
    }

    fn marked(self, mark: &Mark, now_s: u32) -> Access {
        let seen = if mark.access {
            Access(now_s & ACCESSED_S | self.0 & !ACCESSED_S | FETCHED)
        } else {
            self
        };
        seen.with(STALE, mark.stale).with(WON, mark.won)
    }
}

/// Extras of an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extras {
    pub(crate) flags: u32,
    pub(crate) access: Access,
    pub(crate) cas: u64,
}

impl Extras {
    pub(crate) fn load(place: MaskedRef<'_>, at: usize) -> Extras {
        let word = place.load(at);
        Extras {
            flags: word as u32,
            access: Access((word >> 32) as u32),
            cas: place.load(at + 8),
        }
    }

    pub(crate) fn store(self, place: MaskedRef<'_>, at: usize) {
        place.store(at, u64::from(self.flags) | (u64::from(self.access.0) << 32));
        place.store(at + 8, self.cas);
    }

    /// The extras after `mark` at `now_s`; `next` is the partition's next version.
    pub(crate) fn marked(self, mark: &Mark, now_s: u32, next: u64) -> Extras {
        Extras {
            flags: self.flags,
            access: self.access.marked(mark, now_s),
            cas: match mark.cas {
                NewCas::Keep => self.cas,
                NewCas::Next => next,
                NewCas::Exactly(cas) => cas,
            },
        }
    }
}

/// A change to an existing item that keeps its value: expiry, access, marks, CAS number. The default changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Mark {
    /// Whether to record the time of access and that the item was fetched. Ignored for an item without extras, unless
    /// another field of this change adds them.
    pub access: bool,
    /// New expiry in seconds since server start; 0 = never, `None` = unchanged.
    pub expire_s: Option<u32>,
    /// `Some(true)` sets the mark that the value is out of date, `Some(false)` clears it; `None` = unchanged.
    pub stale: Option<bool>,
    /// `Some(true)` sets the mark that a client has been told to fetch a new value, `Some(false)` clears it; `None` =
    /// unchanged.
    pub won: Option<bool>,
    /// Change of the CAS number.
    pub cas: NewCas,
}

impl Mark {
    /// Whether the change requires extras.
    pub(crate) fn needs_extras(&self) -> bool {
        self.stale == Some(true) || self.won == Some(true) || matches!(self.cas, NewCas::Exactly(_))
    }
}

/// Change of the CAS number by a [`Mark`]. A new number comes with a new version.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum NewCas {
    /// Keep the item's CAS number and version.
    #[default]
    Keep,
    /// Use the partition's next version as CAS number.
    Next,
    /// Use this CAS number.
    Exactly(u64),
}

/// Value, fields and condition of a PUT with extras, for [`Partition::put_extra`](crate::Partition::put_extra).
#[derive(Clone, Copy, Debug)]
pub struct ExtraPut<'a> {
    /// Pieces of the value, in order.
    pub value: &'a [&'a [u8]],
    /// How to combine the value with the key's old one, if it exists.
    pub join: Join,
    /// Time at which the item expires, in seconds since server start; 0 = never.
    pub expire_s: u32,
    /// The client's own 32 bits, stored with the value.
    pub flags: u32,
    /// Whether a key that exists keeps its flags and expiry, so that `flags` and `expire_s` are ignored; with
    /// [`Join::Replace`] it also keeps its last access and marks.
    pub keep: bool,
    /// Condition of the PUT.
    pub condition: ExtraCondition,
    /// New CAS number of the item; `None` = the partition's next version.
    pub cas: Option<u64>,
}

impl Default for ExtraPut<'_> {
    /// An empty value that never expires.
    fn default() -> Self {
        ExtraPut {
            value: &[],
            join: Join::Replace,
            expire_s: 0,
            flags: 0,
            keep: false,
            condition: ExtraCondition::Always,
            cas: None,
        }
    }
}

/// How the value of a PUT is combined with the key's old value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Join {
    /// Replace the old value, if any.
    Replace,
    /// Append the new value to the old one, if any.
    Append,
    /// Prepend the new value to the old one, if any.
    Prepend,
}

/// Condition of a PUT with extras. An expired key does not exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExtraCondition {
    /// No condition.
    Always,
    /// The key does not exist (`add`).
    IfAbsent,
    /// The key exists (`replace`).
    IfPresent,
    /// The key exists with this CAS number (`cas`).
    IfCas(u64),
    /// The key exists with this CAS number or a larger one, so the given number is current or older. If it is older,
    /// the value is stored as stale, and the old expiry and the won mark are kept (a meta set that invalidates).
    IfCasOrOlder(u64),
}

/// Result of a PUT with extras.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExtraOutcome {
    /// The value is stored.
    Stored {
        /// New CAS number.
        cas: u64,
    },
    /// As [`PutOutcome::Full`](crate::PutOutcome::Full).
    Full,
    /// As [`PutOutcome::TooLarge`](crate::PutOutcome::TooLarge); also if only the joined value is too long.
    TooLarge,
    /// The key exists, and the condition required it to be absent or to have a CAS number that it does not have.
    Present {
        /// Current CAS number.
        cas: u64,
    },
    /// The key does not exist, and the condition required it to.
    Absent,
}

/// Fields other than the value that a PUT writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    pub(crate) extras: Extras,
    pub(crate) expire_s: u32,
}

impl ExtraPut<'_> {
    /// The fields to write when `own` is the key's live item and `next` the partition's next version; or the refusal.
    /// Copies the value to be joined to `old`.
    pub(crate) fn plan(
        &self,
        own: Option<ItemRef<'_>>,
        now_s: u32,
        next: u64,
        old: &mut Vec<u8>,
    ) -> Result<Plan, ExtraOutcome> {
        old.clear();
        let late = self.check(own.map(|item| item.cas()))?;
        let mut plan = Plan {
            extras: Extras {
                flags: self.flags,
                access: Access::new(now_s),
                cas: self.cas.unwrap_or(next),
            },
            expire_s: self.expire_s,
        };
        let Some(own) = own else {
            return Ok(plan);
        };
        if self.join != Join::Replace {
            own.read_value(old);
        }
        if late {
            let access = plan.extras.access.with(STALE, Some(true));
            plan.extras.access = access.with(WON, Some(own.is_won()));
            plan.expire_s = own.expire_s();
        }
        if self.keep {
            plan.expire_s = own.expire_s();
            plan.extras.flags = own.flags();
            if self.join == Join::Replace {
                plan.extras.access = own.extras().access;
            }
        }
        Ok(plan)
    }

    /// Checks the condition for a key that is `present` with a CAS number, or absent; `true` if the PUT is late (its
    /// value is stale).
    fn check(&self, present: Option<u64>) -> Result<bool, ExtraOutcome> {
        use ExtraCondition::{Always, IfAbsent, IfCas, IfCasOrOlder, IfPresent};
        match (self.condition, present) {
            (Always, _) | (IfAbsent, None) | (IfPresent, Some(_)) => Ok(false),
            (IfPresent | IfCas(_) | IfCasOrOlder(_), None) => Err(ExtraOutcome::Absent),
            (IfCas(want) | IfCasOrOlder(want), Some(cas)) if want == cas => Ok(false),
            (IfCasOrOlder(want), Some(cas)) if want < cas => Ok(true),
            (IfAbsent | IfCas(_) | IfCasOrOlder(_), Some(cas)) => Err(ExtraOutcome::Present { cas }),
        }
    }

    /// The whole item content; `old` is the value to be joined.
    pub(crate) fn body<'b>(&'b self, extras: Extras, old: &'b [u8]) -> WithExtras<'b> {
        let (before, after): (&[u8], &[u8]) = match self.join {
            Join::Replace => (&[], &[]),
            Join::Append => (old, &[]),
            Join::Prepend => (&[], old),
        };
        WithExtras {
            extras,
            before,
            value: self.value,
            after,
        }
    }
}

/// Extras and a value in pieces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WithExtras<'a> {
    extras: Extras,
    before: &'a [u8],
    value: &'a [&'a [u8]],
    after: &'a [u8],
}

impl<'a> WithExtras<'a> {
    /// A value in one piece.
    pub(crate) fn new(extras: Extras, value: &'a [u8]) -> WithExtras<'a> {
        WithExtras {
            extras,
            before: value,
            value: &[],
            after: &[],
        }
    }
}

impl Body for WithExtras<'_> {
    const EXTRAS_BYTES: usize = EXTRAS_BYTES;

    fn value_len(&self) -> usize {
        let value: usize = self.value.iter().map(|piece| piece.len()).sum();
        self.before.len() + value + self.after.len()
    }

    fn write(&self, place: MaskedRef<'_>, at: usize) {
        self.extras.store(place, at);
        let mut end = at + EXTRAS_BYTES;
        let ends = [self.before, self.after];
        for piece in ends[..1].iter().chain(self.value).chain(&ends[1..]) {
            place.copy_in(end, piece);
            end += piece.len();
        }
        place.copy_in(end, &[0; 8][..end.wrapping_neg() & 7]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_and_time_do_not_mix() {
        let late = Access::new(u32::MAX);
        assert_eq!(late.accessed_s(), ACCESSED_S);
        assert!(!late.is_fetched() && !late.is_stale() && !late.is_won());
        let mark = Mark {
            access: true,
            stale: Some(true),
            won: Some(true),
            ..Default::default()
        };
        let all = Access::new(7).marked(&mark, 9);
        assert!(all.is_fetched() && all.is_stale() && all.is_won());
        assert_eq!(all.accessed_s(), 9);
        let fresh = Mark {
            stale: Some(false),
            ..Default::default()
        };
        let less = all.marked(&fresh, 10);
        assert!(less.is_fetched() && !less.is_stale() && less.is_won());
        assert_eq!(less.accessed_s(), 9, "not an access");
    }

    #[test]
    fn conditions_say_who_is_there() {
        use ExtraCondition::{Always, IfAbsent, IfCas, IfCasOrOlder, IfPresent};
        let present = Err(ExtraOutcome::Present { cas: 7 });
        let absent = Err(ExtraOutcome::Absent);
        let check = |condition, present| {
            let put = ExtraPut {
                condition,
                ..Default::default()
            };
            put.check(present)
        };
        for (condition, to_none, to_seven) in [
            (Always, Ok(false), Ok(false)),
            (IfAbsent, Ok(false), present),
            (IfPresent, absent, Ok(false)),
            (IfCas(7), absent, Ok(false)),
            (IfCas(6), absent, present),
            (IfCas(8), absent, present),
            (IfCasOrOlder(7), absent, Ok(false)),
            (IfCasOrOlder(6), absent, Ok(true)),
            (IfCasOrOlder(8), absent, present),
        ] {
            assert_eq!(
                (check(condition, None), check(condition, Some(7))),
                (to_none, to_seven),
                "{condition:?}"
            );
        }
    }
}
