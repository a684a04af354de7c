//! The bytes of an item, and what is said about one that was found.
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | 4 | item_size | bytes reserved including this header, a multiple of 8; bit 0 set in a skip marker |
//! | 4 | 4 | kv_len | value length in bits 0-23, key length in bits 24-31 |
//! | 8 | 16 | hash | all 128 bits of the key hash |
//! | 24 | 4 | expire_s | absolute seconds since server start, 0 = never |
//! | 28 | 4 | version | new with every update |
//! | 32 | key length, padded to 8 | key | absent in hash-only mode |
//! | then | value length, padded to 8 | value | |
//!
//! Little-endian, 8-byte aligned, padding zeroed, written by the partition's owner only. A 32-byte value under
//! a bare hash takes exactly one cache line *(the 48 bytes of `[HERD §5.3]` plus our 16 of length and time)*.

use drover_base::{Cpu, KeyHash};
use drover_mem::{LINE_BYTES, Place, Region};

/// Bytes before the key.
pub(crate) const HEADER_BYTES: usize = 32;

/// The longest key: memcached's limit.
pub const KEY_BYTES_MAX: usize = 250;

/// The longest value: 1 MiB, memcached's default `-I`.
pub const VALUE_BYTES_MAX: usize = 1 << 20;

/// Marks the rest of a lap that was too short for the next item.
const SKIP: u64 = 1;

/// What an operation is about.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// The keyed hash of the key.
    pub hash: KeyHash,
    /// The key, up to [`KEY_BYTES_MAX`] bytes. Empty: the hash *is* the key.
    pub bytes: &'a [u8],
}

/// Memory that an item takes, header and padding included.
#[inline(always)]
pub const fn item_bytes(key_len: usize, value_len: usize) -> usize {
    HEADER_BYTES + ((key_len + 7) & !7) + ((value_len + 7) & !7)
}

/// First word of an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lens(u64);

impl Lens {
    #[inline(always)]
    pub(crate) fn new(item_size: usize, key_len: usize, value_len: usize) -> Lens {
        Lens(item_size as u64 | ((value_len as u64) << 32) | ((key_len as u64) << 56))
    }

    #[inline(always)]
    pub(crate) fn load(place: Place<'_>) -> Lens {
        Lens(place.load(0))
    }

    #[inline(always)]
    pub(crate) fn item_size(self) -> usize {
        self.0 as usize & 0xffff_fff8
    }

    #[inline(always)]
    pub(crate) fn key_len(self) -> usize {
        (self.0 >> 56) as usize
    }

    #[inline(always)]
    pub(crate) fn value_len(self) -> usize {
        (self.0 >> 32) as usize & 0xff_ffff
    }

    /// Whether these are the lengths of key and value, given that the key's is.
    #[inline(always)]
    pub(crate) fn same_value_len(self, key_len: usize, value_len: usize) -> bool {
        // A sum, not bits: an absurd value length must not pass for a key's.
        self.0 >> 32 == value_len as u64 + ((key_len as u64) << 24)
    }

    #[cfg(test)]
    pub(crate) fn is_skip(self) -> bool {
        self.0 & SKIP != 0
    }
}

/// Fourth word of an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Meta(u64);

impl Meta {
    #[inline(always)]
    pub(crate) fn new(expire_s: u32, version: u32) -> Meta {
        Meta(u64::from(expire_s) | (u64::from(version) << 32))
    }

    #[inline(always)]
    pub(crate) fn load(place: Place<'_>) -> Meta {
        Meta(place.load(24))
    }

    #[inline(always)]
    pub(crate) fn store(self, place: Place<'_>) {
        place.store(24, self.0);
    }

    #[inline(always)]
    pub(crate) fn expire_s(self) -> u32 {
        self.0 as u32
    }

    #[inline(always)]
    pub(crate) fn version(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// 0 < expire_s <= now_s, in one comparison.
    #[inline(always)]
    pub(crate) fn is_expired(self, now_s: u32) -> bool {
        self.expire_s().wrapping_sub(1) < now_s
    }
}

/// How the item at hand relates to the key asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Match {
    /// Another hash.
    Other,
    /// The same hash but another key: two keys that cannot be told apart by 128 bits.
    Collision,
    /// The key.
    Own,
}

/// Compares the item at `place`, whose first word is `lens`, with `key`: hash first, then length, then bytes.
#[inline(always)]
pub(crate) fn compare(place: Place<'_>, lens: Lens, key: Key<'_>) -> Match {
    if place.load(8) != key.hash.low || place.load(16) != key.hash.high {
        return Match::Other;
    }
    let same = lens.key_len() == key.bytes.len() && place.equals(HEADER_BYTES, key.bytes);
    if same { Match::Own } else { Match::Collision }
}

/// Where the value of an item starts in it.
#[inline(always)]
pub(crate) fn value_start(key_len: usize) -> usize {
    HEADER_BYTES + ((key_len + 7) & !7)
}

/// Writes a whole item.
#[inline(always)]
pub(crate) fn write(place: Place<'_>, item_size: usize, key: Key<'_>, value: &[u8], meta: Meta) {
    place.store(8, key.hash.low);
    place.store(16, key.hash.high);
    place.copy_in_padded(HEADER_BYTES, key.bytes);
    write_value(place, item_size, key.bytes.len(), value, meta);
}

/// Writes all of an item but hash and key, which stay.
#[inline(always)]
pub(crate) fn write_value(place: Place<'_>, item_size: usize, key_len: usize, value: &[u8], meta: Meta) {
    place.store(0, Lens::new(item_size, key_len, value.len()).0);
    meta.store(place);
    place.copy_in_padded(value_start(key_len), value);
}

/// Writes another value of the same length.
#[inline(always)]
pub(crate) fn rewrite_value(place: Place<'_>, lens: Lens, value: &[u8], meta: Meta) {
    debug_assert_eq!(lens.value_len(), value.len());
    meta.store(place);
    place.copy_in_padded(value_start(lens.key_len()), value);
}

/// Marks `bytes` at `place` as nothing.
#[inline]
pub(crate) fn write_skip(place: Place<'_>, bytes: usize) {
    place.store(0, bytes as u64 | SKIP);
}

/// Accounts for the first access to each line of `len` bytes.
#[inline(always)]
pub(crate) fn touch<C: Cpu>(cpu: &C, place: Place<'_>, len: usize) {
    let into_line = place.line(0).0 & (LINE_BYTES - 1);
    for i in 0..(into_line + len).div_ceil(LINE_BYTES) {
        cpu.touch(place.line(i * LINE_BYTES));
    }
}

/// An item that was found, valid as long as nothing is written to the partition. Two words: it travels in registers.
#[derive(Clone, Copy, Debug)]
pub struct ItemRef<'p> {
    place: Place<'p>,
}

impl<'p> ItemRef<'p> {
    #[inline(always)]
    pub(crate) fn new(place: Place<'p>) -> ItemRef<'p> {
        ItemRef { place }
    }

    #[inline(always)]
    fn lens(&self) -> Lens {
        Lens::load(self.place)
    }

    #[inline(always)]
    fn meta(&self) -> Meta {
        Meta::load(self.place)
    }

    pub(crate) fn is_expired(&self, now_s: u32) -> bool {
        self.meta().is_expired(now_s)
    }

    /// The value as it stands there.
    #[inline(always)]
    pub fn value(&self) -> ValueRef<'p> {
        let lens = self.lens();
        ValueRef {
            place: self.place,
            start: value_start(lens.key_len()),
            len: lens.value_len(),
        }
    }

    /// Bytes of the value.
    #[inline(always)]
    pub fn value_len(&self) -> usize {
        self.lens().value_len()
    }

    /// Bytes of the key; 0 if the hash is the key.
    #[inline(always)]
    pub fn key_len(&self) -> usize {
        self.lens().key_len()
    }

    /// Changes with every update of the partition, so a key that was deleted and stored again has another
    /// one; never 0. Wraps after 2^32 updates.
    #[inline(always)]
    pub fn version(&self) -> u32 {
        self.meta().version()
    }

    /// When it expires, in seconds since server start; 0 = never.
    #[inline(always)]
    pub fn expire_s(&self) -> u32 {
        self.meta().expire_s()
    }

    /// The hash of the key.
    pub fn hash(&self) -> KeyHash {
        hash_at(self.place)
    }

    /// Copies the value to the start of `out`; returns its length.
    ///
    /// # Panics
    /// If `out` is shorter than [`value_len`](ItemRef::value_len).
    #[inline(always)]
    pub fn copy_value(&self, out: &mut [u8]) -> usize {
        let value = self.value();
        value.copy_out(&mut out[..value.len()]);
        value.len()
    }

    /// Copies a part of the value, from byte `start`: for values that travel in pieces.
    ///
    /// # Panics
    /// If the part reaches beyond the value.
    pub fn copy_value_part(&self, start: usize, out: &mut [u8]) {
        assert!(start <= self.value_len() && out.len() <= self.value_len() - start);
        self.place.copy_out(value_start(self.key_len()) + start, out);
    }

    /// Copies the value to registered memory at `to_offset`, without a stop on the way; returns its length.
    ///
    /// # Panics
    /// If it does not fit there.
    pub fn copy_value_to(&self, to: &Region, to_offset: usize) -> usize {
        self.place
            .copy_to(value_start(self.key_len()), to, to_offset, self.value_len());
        self.value_len()
    }

    /// Copies the key to the start of `out`; returns its length. Panics if `out` is shorter.
    pub fn copy_key(&self, out: &mut [u8]) -> usize {
        let len = self.key_len();
        self.place.copy_out(HEADER_BYTES, &mut out[..len]);
        len
    }

    /// The value, copied: for tests and slow paths.
    pub fn to_value(&self) -> Vec<u8> {
        let mut out = vec![0; self.value_len()];
        self.copy_value(&mut out);
        out
    }

    /// The key, copied: for tests and slow paths.
    pub fn to_key(&self) -> Vec<u8> {
        let mut out = vec![0; self.key_len()];
        self.copy_key(&mut out);
        out
    }
}

/// The value of an item, its length known: for whoever makes room for it first.
#[derive(Clone, Copy, Debug)]
pub struct ValueRef<'p> {
    place: Place<'p>,
    start: usize,
    len: usize,
}

impl ValueRef<'_> {
    /// Bytes.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// No bytes.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies it to `out`.
    ///
    /// # Panics
    /// If `out` has not exactly its length.
    #[inline(always)]
    pub fn copy_out(&self, out: &mut [u8]) {
        assert_eq!(out.len(), self.len, "room for a value");
        self.place.copy_out(self.start, out);
    }
}

/// Accounts for the lines after the first of an item at `place`.
#[inline(always)]
pub(crate) fn touch_rest<C: Cpu>(cpu: &C, place: Place<'_>, lens: Lens) {
    let len = item_bytes(lens.key_len(), lens.value_len());
    let into_line = place.line(0).0 & (LINE_BYTES - 1);
    for i in 1..(into_line + len).div_ceil(LINE_BYTES) {
        cpu.touch(place.line(i * LINE_BYTES));
    }
}

/// The hash of the item at `place`.
pub(crate) fn hash_at(place: Place<'_>) -> KeyHash {
    KeyHash {
        low: place.load(8),
        high: place.load(16),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_header_do_not_mix() {
        let lens = Lens::new(1 << 20, 250, (1 << 20) + 1);
        assert_eq!(
            (lens.item_size(), lens.key_len(), lens.value_len()),
            (1 << 20, 250, (1 << 20) + 1)
        );
        assert!(!lens.is_skip());
        let meta = Meta::new(7, u32::MAX);
        assert_eq!((meta.expire_s(), meta.version()), (7, u32::MAX));
    }

    #[test]
    fn an_absurd_value_length_is_not_the_same() {
        let lens = Lens::new(48, 3, 5);
        assert!(lens.same_value_len(3, 5));
        for (key_len, value_len) in [(3, 6), (3, (1 << 24) + 5), (3, (3 << 24) + 5), (3, 0)] {
            assert!(!lens.same_value_len(key_len, value_len), "{key_len} {value_len}");
        }
    }

    #[test]
    fn expiry_is_reached_in_its_second() {
        let expired = |expire_s, now_s| Meta::new(expire_s, 1).is_expired(now_s);
        assert!(!expired(0, u32::MAX) && !expired(5, 4) && expired(5, 5) && expired(1, 1) && !expired(1, 0));
    }
}
