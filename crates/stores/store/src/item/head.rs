//! [`Head`]: the first word of an item.

use super::{EXTRAS_BYTES, HEAD_BYTES, Kind, TERMS_BYTES, body_start};
use drover_mem::MaskedRef;

/// First word of an item, or of a range to be skipped (see the table of the [module](super)). An item's size follows
/// from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head(u64);

const KEY_LEN_BIT: u32 = 24;
const VERSION_BIT: u32 = 32;
const HAS_TERMS: u64 = 1 << 23;
const HAS_EXTRAS: u64 = 1 << 63;

/// Key length of a head that marks a range to be skipped. No key is that long.
const SKIP_KEY_LEN: u64 = 255;
const _: () = assert!(drover_base::KEY_BYTES_MAX < SKIP_KEY_LEN as usize);
const _: () = assert!(super::VALUE_BYTES_MAX as u64 == HAS_TERMS - 1);

/// The version that an item stores for the partition's number `counter`: its low 31 bits, which
/// [`next_version`](crate::partition::next_version) keeps from being 0.
#[inline(always)]
pub(crate) fn version_of(counter: u64) -> u32 {
    counter as u32 & Head::VERSION_MAX
}

impl Head {
    /// Largest version.
    pub(crate) const VERSION_MAX: u32 = (1 << 31) - 1;

    /// The head of an item. `version` is not 0 and at most [`VERSION_MAX`](Head::VERSION_MAX).
    #[inline(always)]
    pub(crate) fn new(kind: Kind, key_len: usize, value_len: usize, version: u32) -> Head {
        let kind = match kind {
            Kind::Plain => 0,
            Kind::Terms => HAS_TERMS,
            Kind::Extras => HAS_TERMS | HAS_EXTRAS,
        };
        let lens = value_len as u64 | ((key_len as u64) << KEY_LEN_BIT);
        Head(kind | lens | (u64::from(version) << VERSION_BIT))
    }

    /// A mark that `bytes` bytes, a multiple of 8, are to be skipped.
    #[inline]
    pub(super) fn skip(bytes: usize) -> Head {
        Head((bytes as u64 / 8) << VERSION_BIT | SKIP_KEY_LEN << KEY_LEN_BIT)
    }

    #[inline(always)]
    pub(crate) fn load(place: MaskedRef<'_>) -> Head {
        Head(place.load(0))
    }

    #[inline(always)]
    pub(super) fn store(self, place: MaskedRef<'_>) {
        place.store(0, self.0);
    }

    /// The same head with another version.
    #[inline(always)]
    pub(super) fn with_version(self, version: u32) -> Head {
        Head(self.0 & HAS_EXTRAS | self.plain_with_version(version).0)
    }

    /// The same head of an item without extras, with another version.
    #[inline(always)]
    pub(super) fn plain_with_version(self, version: u32) -> Head {
        Head(u64::from(self.0 as u32) | u64::from(version) << VERSION_BIT)
    }

    #[inline(always)]
    pub(crate) fn value_len(self) -> usize {
        self.0 as usize & (HAS_TERMS as usize - 1)
    }

    #[inline(always)]
    pub(crate) fn key_len(self) -> usize {
        (self.0 >> KEY_LEN_BIT) as usize & 0xff
    }

    #[inline(always)]
    pub(crate) fn version(self) -> u32 {
        version_of(self.0 >> VERSION_BIT)
    }

    #[inline(always)]
    pub(crate) fn has_terms(self) -> bool {
        self.0 & HAS_TERMS != 0
    }

    #[inline(always)]
    pub(crate) fn has_extras(self) -> bool {
        self.0 & HAS_EXTRAS != 0
    }

    pub(crate) fn kind(self) -> Kind {
        match (self.has_terms(), self.has_extras()) {
            (_, true) => Kind::Extras,
            (true, false) => Kind::Terms,
            (false, false) => Kind::Plain,
        }
    }

    /// Offset of the terms, if there are any, or of the value.
    #[inline(always)]
    pub(crate) fn body_start(self) -> usize {
        body_start(self.key_len())
    }

    /// Offset of the value.
    #[inline(always)]
    pub(crate) fn value_start(self) -> usize {
        // Branches, because they are predicted for plain items with keys, the usual ones.
        if !self.has_terms() {
            return match self.key_len() {
                0 => hash_only_start(),
                key_len => body_start(key_len),
            };
        }
        // The flag is shifted to the position of the length that it stands for.
        const _: () = assert!(HAS_EXTRAS >> 59 == EXTRAS_BYTES as u64);
        self.body_start() + TERMS_BYTES + ((self.0 >> 59) as usize & EXTRAS_BYTES)
    }

    /// Bytes of the whole item, a multiple of 8.
    #[inline(always)]
    pub(crate) fn bytes(self) -> usize {
        self.value_start() + ((self.value_len() + 7) & !7)
    }

    /// Whether there is no item here but a range of [`skipped`](Head::skipped) bytes.
    pub(crate) fn is_skip(self) -> bool {
        self.key_len() == SKIP_KEY_LEN as usize
    }

    /// Length of the range in bytes, this word included.
    pub(crate) fn skipped(self) -> usize {
        (self.0 >> VERSION_BIT) as usize * 8
    }

    /// Bytes to the next item or skipped range; never 0, whatever the word is.
    pub(crate) fn step(self) -> usize {
        if self.is_skip() {
            return self.skipped().max(HEAD_BYTES);
        }
        self.bytes()
    }

    /// Whether the item is plain and these are the lengths of key and value, if the key's length is in range.
    #[inline(always)]
    pub(crate) fn same_plain(self, key_len: usize, value_len: usize) -> bool {
        // The flag is inverted, and the lengths are added to it: so the carry of an absurd value length changes the
        // key's length, and cannot be taken for the flag.
        let lens = (self.0 ^ HAS_TERMS) & u64::from(u32::MAX);
        lens == value_len as u64 + ((key_len as u64) << KEY_LEN_BIT) + HAS_TERMS
    }

    /// Second at which the item expires, 0 = never.
    #[inline(always)]
    pub(crate) fn expire_s(self, place: MaskedRef<'_>) -> u32 {
        if !self.has_terms() {
            return 0;
        }
        place.load(self.body_start()) as u32
    }

    /// Whether the item at `place` is expired. Loads nothing if it has no terms.
    #[inline(always)]
    pub(crate) fn is_expired(self, place: MaskedRef<'_>, now_s: u32) -> bool {
        self.has_terms() && is_past(self.expire_s(place), now_s)
    }
}

#[cold]
fn hash_only_start() -> usize {
    body_start(0)
}

/// 0 < expire_s <= now_s, in one comparison.
#[inline(always)]
pub(crate) fn is_past(expire_s: u32, now_s: u32) -> bool {
    expire_s.wrapping_sub(1) < now_s
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VALUE_BYTES_MAX;

    #[test]
    fn fields_of_a_head_do_not_mix() {
        for (kind, bytes) in [(Kind::Plain, 0), (Kind::Terms, 8), (Kind::Extras, 24)] {
            for version in [1, Head::VERSION_MAX] {
                let head = Head::new(kind, 250, VALUE_BYTES_MAX, version);
                assert_eq!(
                    (head.kind(), head.key_len(), head.value_len(), head.version()),
                    (kind, 250, VALUE_BYTES_MAX, version)
                );
                assert_eq!(head.value_start(), 8 + 256 + bytes);
                assert_eq!(head.bytes(), 8 + 256 + bytes + VALUE_BYTES_MAX + 1);
                assert!(!head.is_skip());
                let next = head.with_version(7);
                assert_eq!(next, Head::new(kind, 250, VALUE_BYTES_MAX, 7));
            }
        }
    }

    #[test]
    fn a_skip_says_how_long_it_is() {
        for bytes in [8, 96, 1 << 30] {
            let skip = Head::skip(bytes);
            assert!(skip.is_skip());
            assert_eq!((skip.skipped(), skip.step()), (bytes, bytes));
        }
        assert_eq!(Head::skip(0).step(), 8);
        assert!(Head(0).step() > 0 && Head(u64::MAX).step() > 0);
    }

    #[test]
    fn an_absurd_value_length_is_not_the_same() {
        let head = Head::new(Kind::Plain, 3, 5, 9);
        assert!(head.same_plain(3, 5));
        for (key_len, value_len) in [
            (3, 6),
            (3, (1 << 23) + 5),
            (3, (1 << 24) + 5),
            (3, (3 << 24) + 5),
            (3, 0),
        ] {
            assert!(!head.same_plain(key_len, value_len), "{key_len} {value_len}");
        }
    }

    #[test]
    fn no_length_takes_an_item_with_terms_for_a_plain_one() {
        for kind in [Kind::Terms, Kind::Extras] {
            let head = Head::new(kind, 3, 5, 9);
            for value_len in [5, (1 << 23) + 5, (1 << 23) - 5, (1 << 24) + (1 << 23) + 5] {
                assert!(!head.same_plain(3, value_len), "{value_len}");
            }
        }
    }

    #[test]
    fn expiry_is_reached_in_its_second() {
        assert!(!is_past(0, u32::MAX) && !is_past(5, 4) && is_past(5, 5) && is_past(1, 1) && !is_past(1, 0));
    }
}
