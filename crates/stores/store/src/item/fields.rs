//! [`Fields`]: the fields of an item that not every item has, and the three kinds of item that follow from them.
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | 4 | expire_s | terms: absolute seconds since server start, 0 = never |
//! | 4 | 4 | flags | terms: the client's own 32 bits |
//! | 8 | 4 | access | extras: last access in bits 0-28, then fetched, stale, won |
//! | 12 | 4 | | extras: spare, 0 |
//! | 16 | 8 | cas | extras: number compared by memcached's `cas` |
//!
//! Little-endian, between padded name and value.

use crate::extras::{Mark, NewCas};
use drover_mem::MaskedRef;

/// Bytes that an item takes more if it expires or has a client's flags.
pub const TERMS_BYTES: usize = 8;

/// Bytes that an item takes more, besides [`TERMS_BYTES`], if it has *extras*: a chosen CAS number, marks, or the time
/// of its last access, for memcached's commands.
pub const EXTRAS_BYTES: usize = 16;

/// Which fields an item has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Plain,
    Terms,
    /// Terms and extras.
    Extras,
}

/// The fields of an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fields {
    /// The item does not expire and has no flags; its CAS number is its version; it has no marks, and accesses are not
    /// recorded.
    Plain,
    /// The item has only what is in the terms.
    Terms(Terms),
    /// The item has everything.
    Extras(Terms, Extras),
}

/// Expiry and flags of an item.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Terms {
    pub(crate) expire_s: u32,
    pub(crate) flags: u32,
}

/// Access, marks and CAS number of an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extras {
    pub(crate) access: Access,
    pub(crate) cas: u64,
}

impl Fields {
    /// The smallest fields that express `terms` and `extras`.
    #[inline(always)]
    pub(crate) fn new(terms: Terms, extras: Option<Extras>) -> Fields {
        match extras {
            Some(extras) => Fields::Extras(terms, extras),
            None if terms == Terms::default() => Fields::Plain,
            None => Fields::Terms(terms),
        }
    }

    /// The smallest fields of an item that expires at `expire_s`.
    #[inline(always)]
    pub(crate) fn native(expire_s: u32) -> Fields {
        Fields::new(Terms { expire_s, flags: 0 }, None)
    }

    /// The same fields, with terms even if they say nothing.
    #[inline(always)]
    pub(crate) fn with_terms(self) -> Fields {
        match self {
            Fields::Plain => Fields::Terms(Terms::default()),
            other => other,
        }
    }

    #[inline(always)]
    pub(crate) fn kind(self) -> Kind {
        match self {
            Fields::Plain => Kind::Plain,
            Fields::Terms(_) => Kind::Terms,
            Fields::Extras(..) => Kind::Extras,
        }
    }

    #[inline(always)]
    pub(crate) fn terms(self) -> Terms {
        match self {
            Fields::Plain => Terms::default(),
            Fields::Terms(terms) | Fields::Extras(terms, _) => terms,
        }
    }

    #[inline(always)]
    pub(crate) fn extras(self) -> Option<Extras> {
        match self {
            Fields::Extras(_, extras) => Some(extras),
            _ => None,
        }
    }

    /// The fields with another expiry; with terms where that needs them, never without those that are there.
    pub(crate) fn with_expiry(self, expire_s: u32) -> Fields {
        let flags = self.terms().flags;
        self.replaced(Terms { expire_s, flags }, self.extras())
    }

    /// The fields after `mark` at `now_s`, with more of them where the change needs it. `cas` is the item's CAS number
    /// and `next` the partition's next version.
    #[inline]
    pub(crate) fn marked(self, mark: &Mark, cas: u64, now_s: u32, next: u64) -> Fields {
        let terms = self.terms();
        let terms = Terms {
            expire_s: mark.expire_s.unwrap_or(terms.expire_s),
            ..terms
        };
        let none = Extras {
            access: Access::default(),
            cas,
        };
        let extras = self.extras().or(mark.needs_extras().then_some(none));
        self.replaced(terms, extras.map(|extras| extras.marked(mark, now_s, next)))
    }

    /// The smallest fields that express `terms` and `extras` and are not fewer than these.
    fn replaced(self, terms: Terms, extras: Option<Extras>) -> Fields {
        let fields = Fields::new(terms, extras);
        match self {
            Fields::Plain => fields,
            _ => fields.with_terms(),
        }
    }

    /// Loads fields of `kind`, `at` bytes into the item.
    #[inline(always)]
    pub(super) fn load(kind: Kind, place: MaskedRef<'_>, at: usize) -> Fields {
        match kind {
            Kind::Plain => Fields::Plain,
            Kind::Terms => Fields::Terms(Terms::load(place, at)),
            Kind::Extras => Fields::Extras(Terms::load(place, at), Extras::load(place, at + TERMS_BYTES)),
        }
    }

    /// Stores the fields `at` bytes into the item, and returns the offset after them.
    #[inline(always)]
    pub(crate) fn store(self, place: MaskedRef<'_>, at: usize) -> usize {
        match self {
            Fields::Plain => at,
            Fields::Terms(terms) => {
                terms.store(place, at);
                at + TERMS_BYTES
            }
            Fields::Extras(terms, extras) => {
                terms.store(place, at);
                extras.store(place, at + TERMS_BYTES);
                at + TERMS_BYTES + EXTRAS_BYTES
            }
        }
    }
}

impl Terms {
    #[inline(always)]
    fn load(place: MaskedRef<'_>, at: usize) -> Terms {
        let word = place.load(at);
        Terms {
            expire_s: word as u32,
            flags: (word >> 32) as u32,
        }
    }

    #[inline(always)]
    pub(super) fn store(self, place: MaskedRef<'_>, at: usize) {
        place.store(at, u64::from(self.expire_s) | (u64::from(self.flags) << 32));
    }
}

impl Extras {
    fn load(place: MaskedRef<'_>, at: usize) -> Extras {
        Extras {
            access: Access(place.load(at) as u32),
            cas: place.load(at + 8),
        }
    }

    pub(super) fn store(self, place: MaskedRef<'_>, at: usize) {
        place.store(at, u64::from(self.access.0));
        place.store(at + 8, self.cas);
    }

    fn marked(self, mark: &Mark, now_s: u32, next: u64) -> Extras {
        Extras {
            access: self.access.marked(mark, now_s),
            cas: match mark.cas {
                NewCas::Keep => self.cas,
                NewCas::Next => next,
                NewCas::Exactly(cas) => cas,
            },
        }
    }
}

/// Bits of the access word below its three marks: seconds since server start, up to 17 years.
const ACCESSED_S: u32 = (1 << 29) - 1;
const FETCHED: u32 = 1 << 29;
const STALE: u32 = 1 << 30;
const WON: u32 = 1 << 31;

/// Last access of an item, and its marks. The default is that of an item without extras.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Access(u32);

impl Access {
    /// Access word of an item stored at `now_s`.
    pub(crate) fn new(now_s: u32) -> Access {
        Access(now_s & ACCESSED_S)
    }

    /// Access word with these contents.
    pub(crate) fn marked_as(accessed_s: u32, fetched: bool, stale: bool, won: bool) -> Access {
        let access = Access::new(accessed_s).with(FETCHED, Some(fetched));
        access.with(STALE, Some(stale)).with(WON, Some(won))
    }

    /// The same access to a stale value.
    pub(crate) fn stale(self, won: bool) -> Access {
        self.with(STALE, Some(true)).with(WON, Some(won))
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
    fn fields_are_as_few_as_possible_and_never_become_fewer() {
        let terms = Fields::native(5);
        assert_eq!(Fields::native(0).kind(), Kind::Plain);
        assert_eq!(terms.kind(), Kind::Terms);
        assert_eq!(terms.with_expiry(0).kind(), Kind::Terms);
        assert_eq!(Fields::Plain.with_expiry(0).kind(), Kind::Plain);
        assert_eq!(Fields::Plain.with_expiry(5), terms);
        let won = Mark {
            won: Some(true),
            ..Default::default()
        };
        let extras = terms.marked(&won, 3, 9, 4);
        assert_eq!(extras.terms(), terms.terms());
        assert!(extras.extras().is_some_and(|e| e.cas == 3 && e.access.is_won()));
        let lost = Mark {
            won: Some(false),
            ..Default::default()
        };
        assert_eq!(extras.marked(&lost, 3, 9, 4).kind(), Kind::Extras);
        assert_eq!(Fields::Plain.marked(&lost, 3, 9, 4).kind(), Kind::Plain);
    }
}
