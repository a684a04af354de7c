//! The bytes of an item.
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | 8 | head | value length in bits 0-22, bit 23 set if there are terms, key length in bits 24-31, version in bits 32-62 (never 0, changes with every update), bit 63 set if there are extras, which implies terms |
//! | 8 | key length, padded to 8; 16 if that is 0 | name | the key, or the 128 bits of its hash (hash-only) |
//! | then | 8 or none | terms | expiry (32 bits) and the client's flags (32 bits) |
//! | then | 16 or none | extras | access and marks (32 bits), 32 spare bits, CAS number (64 bits) |
//! | then | value length, padded to 8 | value | |
//!
//! Little-endian, 8-byte aligned, padding zeroed, written by the partition's owner only. The file `item/fields.rs` has
//! the bytes of terms and extras. A *plain* item, the usual one, has neither. An item that expires or has flags of its
//! client has terms; one with a chosen CAS number, marks or recorded accesses has extras. In store mode every item has
//! terms, so that a change of its expiry needs no space.
//!
//! An item's size follows from its head; nothing more is reserved in a log. A head with key length 255 is no item: bits
//! 32-63 are the number of 8-byte words to skip, this one included.
//!
//! A 32-byte value under a 16-byte key or a bare hash takes 56 bytes *(the 48 of `[HERD §5.3]` plus our 8 of lengths and
//! version)*. The hash of a key is not stored: keys have to be compared anyway, and the hash can be computed from the key
//! again (`docs/decisions/0014`).

use drover_base::{Cpu, KEY_BYTES_MAX, KeyHash, KeyHasher};
use drover_mem::{LINE_BYTES, MaskedRef};

mod fields;
mod found;
mod head;

pub(crate) use fields::{Access, Extras, Fields, Kind, Terms};
pub use fields::{EXTRAS_BYTES, TERMS_BYTES};
pub use found::{ItemRef, ValueRef};
pub(crate) use head::{Head, is_past, version_of};

/// Bytes before the name.
pub(crate) const HEAD_BYTES: usize = 8;

/// Bytes of a hash that replaces its key.
const HASH_BYTES: usize = 16;

/// Length in bytes of the longest value that an item's head can express: 8 MiB minus one byte. The options set the
/// accepted maximum, by default memcached's 1 MiB.
pub const VALUE_BYTES_MAX: usize = (1 << 23) - 1;

/// The key of an operation, borrowed, and its hash.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// Hash of the key, computed by the caller under the server's secret seed.
    pub hash: KeyHash,
    /// The key, up to [`KEY_BYTES_MAX`] bytes; a PUT of a longer one is refused. Empty: the hash *is* the key, and
    /// names an item of its own, not that of a key with this hash.
    pub bytes: &'a [u8],
}

/// Bytes of memory that a plain item with a key of `key_len` and a value of `value_len` bytes takes, with head and
/// padding. An item that expires or has a client's flags takes [`TERMS_BYTES`] more, one with extras [`TERMS_BYTES`] and
/// [`EXTRAS_BYTES`] more. In store mode every item takes at least [`TERMS_BYTES`] more, and 16 for the heap's tags.
/// `key_len` 0 means that the hash is the key.
#[inline(always)]
pub const fn item_bytes(key_len: usize, value_len: usize) -> usize {
    body_start(key_len) + ((value_len + 7) & !7)
}

/// The content of an item, except for its name.
pub(crate) struct Body<V> {
    pub(crate) version: u32,
    pub(crate) fields: Fields,
    pub(crate) value: V,
}

/// A value to be stored, in one piece or several.
pub(crate) trait Value {
    fn value_len(&self) -> usize;

    /// Writes it, including padding, `at` bytes into the item.
    fn write(&self, place: MaskedRef<'_>, at: usize);
}

impl Value for &[u8] {
    #[inline(always)]
    fn value_len(&self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn write(&self, place: MaskedRef<'_>, at: usize) {
        place.copy_in_padded(at, self);
    }
}

impl<V: Value> Body<V> {
    #[inline(always)]
    fn head(&self, key_len: usize) -> Head {
        Head::new(self.fields.kind(), key_len, self.value.value_len(), self.version)
    }
}

/// Bytes of memory that an item of `key` with `body` takes.
#[inline(always)]
pub(crate) fn bytes_of<V: Value>(key: Key<'_>, body: &Body<V>) -> usize {
    body.head(key.bytes.len()).bytes()
}

/// Whether the item at `place`, whose first word is `head`, belongs to `key`.
#[inline(always)]
pub(crate) fn is_own(place: MaskedRef<'_>, head: Head, key: Key<'_>) -> bool {
    if head.key_len() != key.bytes.len() {
        return false;
    }
    // The usual length.
    match <&[u8; 16]>::try_from(key.bytes) {
        Ok(key) => place.equals(HEAD_BYTES, key),
        Err(_) => is_own_of_any_length(place, key.hash, key.bytes),
    }
}

/// As [`is_own`], for a key that is only a hash.
#[inline(always)]
pub(crate) fn is_of_hash(place: MaskedRef<'_>, head: Head, hash: KeyHash) -> bool {
    head.key_len() == 0 && hash_at(place) == hash
}

#[inline(never)]
fn is_own_of_any_length(place: MaskedRef<'_>, hash: KeyHash, key: &[u8]) -> bool {
    match key.is_empty() {
        true => hash_at(place) == hash,
        false => place.equals(HEAD_BYTES, key),
    }
}

/// [`is_own`] of an item at `place`, out of line: for loops over candidates, where it would take too many registers.
#[inline(never)]
pub(crate) fn is_own_there(place: MaskedRef<'_>, key: Key<'_>) -> bool {
    is_own(place, Head::load(place), key)
}

/// Hash of the key of the item at `place`; `None` if it has a key and there is no hasher.
#[inline]
pub(crate) fn hash_of(place: MaskedRef<'_>, hasher: Option<&KeyHasher>) -> Option<KeyHash> {
    let key_len = Head::load(place).key_len();
    if key_len == 0 {
        return Some(hash_at(place));
    }
    let hasher = hasher?;
    // The usual length.
    if key_len == 16 {
        return Some(hasher.hash_words([place.load(HEAD_BYTES), place.load(HEAD_BYTES + 8)]));
    }
    let mut key = [0; KEY_BYTES_MAX];
    place.copy_out(HEAD_BYTES, &mut key[..key_len]);
    Some(hasher.hash(&key[..key_len]))
}

/// Offset of terms or value in an item.
#[inline(always)]
pub(crate) const fn body_start(key_len: usize) -> usize {
    if key_len == 0 {
        return HEAD_BYTES + HASH_BYTES;
    }
    HEAD_BYTES + ((key_len + 7) & !7)
}

/// Writes a whole item.
#[inline(always)]
pub(crate) fn write<V: Value>(place: MaskedRef<'_>, key: Key<'_>, body: &Body<V>) {
    if key.bytes.is_empty() {
        place.store(HEAD_BYTES, key.hash.low);
        place.store(HEAD_BYTES + 8, key.hash.high);
    } else {
        place.copy_in_padded(HEAD_BYTES, key.bytes);
    }
    write_body(place, key.bytes.len(), body);
}

/// Writes all of an item except its name.
#[inline(always)]
pub(crate) fn write_body<V: Value>(place: MaskedRef<'_>, key_len: usize, body: &Body<V>) {
    body.head(key_len).store(place);
    let value_start = body.fields.store(place, body_start(key_len));
    body.value.write(place, value_start);
}

/// Writes another value of the same length to a plain item, whose first word is `head`.
#[inline(always)]
pub(crate) fn rewrite_value(place: MaskedRef<'_>, head: Head, value: &[u8], version: u32) {
    debug_assert!(head.same_plain(head.key_len(), value.len()));
    head.plain_with_version(version).store(place);
    place.copy_in_padded(head.body_start(), value);
}

/// Marks `bytes` at `place`, a multiple of 8, as skipped.
#[inline]
pub(crate) fn write_skip(place: MaskedRef<'_>, bytes: usize) {
    Head::skip(bytes).store(place);
}

/// Accounts for the first access to each line of `len` bytes.
#[inline(always)]
pub(crate) fn touch<C: Cpu>(cpu: &C, place: MaskedRef<'_>, len: usize) {
    let into_line = place.line(0).0 & (LINE_BYTES - 1);
    for i in 0..(into_line + len).div_ceil(LINE_BYTES) {
        cpu.touch(place.line(i * LINE_BYTES));
    }
}

/// Accounts for the lines after the first of an item at `place`.
#[inline(always)]
pub(crate) fn touch_rest<C: Cpu>(cpu: &C, place: MaskedRef<'_>, head: Head) {
    let len = head.bytes();
    let into_line = place.line(0).0 & (LINE_BYTES - 1);
    for i in 1..(into_line + len).div_ceil(LINE_BYTES) {
        cpu.touch(place.line(i * LINE_BYTES));
    }
}

/// The hash in place of the key of the item at `place`, which has no key.
#[inline(always)]
fn hash_at(place: MaskedRef<'_>) -> KeyHash {
    KeyHash {
        low: place.load(HEAD_BYTES),
        high: place.load(HEAD_BYTES + 8),
    }
}
