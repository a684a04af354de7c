//! The bytes of an item, and the reference to an item found.
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0 | 4 | item_size | bytes reserved including this header, a multiple of 8; bit 0 set in a skip marker |
//! | 4 | 4 | kv_len | value length in bits 0-22, bit 23 set if there are no extras, key length in bits 24-31 |
//! | 8 | 4 | expire_s | absolute seconds since server start, 0 = never |
//! | 12 | 4 | version | changes with every update |
//! | 16 | key length, padded to 8; 16 if that is 0 | name | the key, or the 128 bits of its hash (hash-only) |
//! | then | 16 or none | [extras](crate::extras) | fields for memcached's commands |
//! | then | value length, padded to 8 | value | |
//!
//! Little-endian, 8-byte aligned, padding zeroed, written by the partition's owner only. A 32-byte value under a
//! 16-byte key or a bare hash takes 64 bytes *(the 48 of `[HERD §5.3]` plus our 16 of length and time)*: a cache's log
//! of only such items is read one line at a time. The hash of a key is not stored: keys have to be compared anyway, and
//! the hash can be computed from the key again (`docs/decisions/0014`).

use crate::extras::{EXTRAS_BYTES, Extras, Mark, NewCas};
use crate::sharing::Sharing;
use drover_base::{Cpu, KeyHash, KeyHasher};
use drover_mem::{LINE_BYTES, MaskedRef, Region};

/// Bytes before the name.
pub(crate) const HEADER_BYTES: usize = 16;

/// Bytes of a hash that replaces its key.
const HASH_BYTES: usize = 16;

/// Length of the longest key in bytes: memcached's limit.
pub const KEY_BYTES_MAX: usize = 250;

/// Length in bytes of the longest value that an item's header can express: 8 MiB minus one byte. The options set the
/// accepted maximum, by default memcached's 1 MiB.
pub const VALUE_BYTES_MAX: usize = (1 << 23) - 1;

/// Marks the rest of a lap that was too short for the next item.
const SKIP: u64 = 1;

/// The key of an operation, borrowed, and its hash.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// Hash of the key, computed by the caller under the server's secret seed.
    pub hash: KeyHash,
    /// The key, up to [`KEY_BYTES_MAX`] bytes; a PUT of a longer one is refused. Empty: the hash *is* the key, and
    /// names an item of its own, not that of a key with this hash.
    pub bytes: &'a [u8],
}

/// Bytes of memory that an item with a key of `key_len` and a value of `value_len` bytes takes, with header and
/// padding. An item with extras takes [`EXTRAS_BYTES`] more, and any item in store mode 16 more for the heap's tags.
/// `key_len` 0 means that the hash is the key.
#[inline(always)]
pub const fn item_bytes(key_len: usize, value_len: usize) -> usize {
    body_start(key_len) + ((value_len + 7) & !7)
}

/// The part of an item after the key: a bare value, or extras and a value.
pub(crate) trait Body {
    /// Bytes of extras.
    const EXTRAS_BYTES: usize;

    fn value_len(&self) -> usize;

    /// Writes it, including padding, `at` bytes into the item.
    fn write(&self, place: MaskedRef<'_>, at: usize);
}

impl Body for &[u8] {
    const EXTRAS_BYTES: usize = 0;

    #[inline(always)]
    fn value_len(&self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn write(&self, place: MaskedRef<'_>, at: usize) {
        place.copy_in_padded(at, self);
    }
}

/// Bytes of memory that an item of `key` with `body` takes.
#[inline(always)]
pub(crate) fn bytes_of<B: Body>(key: Key<'_>, body: &B) -> usize {
    item_bytes(key.bytes.len(), body.value_len()) + B::EXTRAS_BYTES
}

/// First word of an item: its lengths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lens(u64);

impl Lens {
    /// Flag for items without extras, which native PUTs write. Set, not clear: no length of a slice then makes
    /// [`same_plain`](Lens::same_plain) take an item with extras for one without.
    const PLAIN: u64 = 1 << 55;

    /// An item without extras.
    #[inline(always)]
    pub(crate) fn plain(item_size: usize, key_len: usize, value_len: usize) -> Lens {
        Lens(item_size as u64 | ((value_len as u64) << 32) | ((key_len as u64) << 56) | Lens::PLAIN)
    }

    /// The same lengths with extras.
    #[inline(always)]
    fn with_extras(self) -> Lens {
        Lens(self.0 & !Lens::PLAIN)
    }

    #[inline(always)]
    pub(crate) fn has_extras(self) -> bool {
        self.0 & Lens::PLAIN == 0
    }

    /// Offset of the value in the item.
    #[inline(always)]
    pub(crate) fn value_start(self) -> usize {
        // The bit is shifted to the position of value 16.
        const _: () = assert!(EXTRAS_BYTES == 1 << 4 && Lens::PLAIN == 1 << 55);
        body_start(self.key_len()) + ((!self.0 >> (55 - 4)) as usize & EXTRAS_BYTES)
    }

    /// Bytes that the item needs, at most the reserved ones.
    #[inline(always)]
    pub(crate) fn bytes(self) -> usize {
        self.value_start() + ((self.value_len() + 7) & !7)
    }

    #[inline(always)]
    pub(crate) fn load(place: MaskedRef<'_>) -> Lens {
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
        (self.0 >> 32) as usize & 0x7f_ffff
    }

    /// Whether there are no extras and these are the lengths of key and value, if the key's length is in range.
    #[inline(always)]
    pub(crate) fn same_plain(self, key_len: usize, value_len: usize) -> bool {
        // A sum, not bits: an absurd value length must not pass for a key's.
        self.0 >> 32 == value_len as u64 + ((key_len as u64) << 24) + (Lens::PLAIN >> 32)
    }

    pub(crate) fn is_skip(self) -> bool {
        self.0 & SKIP != 0
    }
}

/// Second word of an item: expiry and version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Meta(u64);

impl Meta {
    #[inline(always)]
    pub(crate) fn new(expire_s: u32, version: u32) -> Meta {
        Meta(u64::from(expire_s) | (u64::from(version) << 32))
    }

    #[inline(always)]
    pub(crate) fn load(place: MaskedRef<'_>) -> Meta {
        Meta(place.load(8))
    }

    #[inline(always)]
    pub(crate) fn store(self, place: MaskedRef<'_>) {
        place.store(8, self.0);
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

/// Whether the item at `place`, whose first word is `lens`, belongs to `key`.
#[inline(always)]
pub(crate) fn is_own(place: MaskedRef<'_>, lens: Lens, key: Key<'_>) -> bool {
    lens.key_len() == key.bytes.len()
        && match key.bytes.is_empty() {
            true => hash_at(place) == key.hash,
            false => place.equals(HEADER_BYTES, key.bytes),
        }
}

/// [`is_own`] of an item at `place`, out of line: for loops over candidates, where it would take too many registers.
#[inline(never)]
pub(crate) fn is_own_there(place: MaskedRef<'_>, key: Key<'_>) -> bool {
    is_own(place, Lens::load(place), key)
}

/// Hash of the key of the item at `place`; `None` if it has a key and there is no hasher.
#[inline]
pub(crate) fn hash_of(place: MaskedRef<'_>, hasher: Option<&KeyHasher>) -> Option<KeyHash> {
    let key_len = Lens::load(place).key_len();
    if key_len == 0 {
        return Some(hash_at(place));
    }
    let mut key = [0; KEY_BYTES_MAX];
    place.copy_out(HEADER_BYTES, &mut key[..key_len]);
    hasher.map(|hasher| hasher.hash(&key[..key_len]))
}

/// Offset of extras or value in an item.
#[inline(always)]
pub(crate) const fn body_start(key_len: usize) -> usize {
    let name_bytes = if key_len == 0 {
        HASH_BYTES
    } else {
        (key_len + 7) & !7
    };
    HEADER_BYTES + name_bytes
}

/// Writes a whole item.
#[inline(always)]
pub(crate) fn write<B: Body>(place: MaskedRef<'_>, item_size: usize, key: Key<'_>, body: &B, meta: Meta) {
    if key.bytes.is_empty() {
        place.store(HEADER_BYTES, key.hash.low);
        place.store(HEADER_BYTES + 8, key.hash.high);
    } else {
        place.copy_in_padded(HEADER_BYTES, key.bytes);
    }
    write_body(place, item_size, key.bytes.len(), body, meta);
}

/// Writes all of an item except its name.
#[inline(always)]
pub(crate) fn write_body<B: Body>(
    place: MaskedRef<'_>,
    item_size: usize,
    key_len: usize,
    body: &B,
    meta: Meta,
) {
    let plain = Lens::plain(item_size, key_len, body.value_len());
    let lens = if B::EXTRAS_BYTES == 0 {
        plain
    } else {
        plain.with_extras()
    };
    place.store(0, lens.0);
    meta.store(place);
    body.write(place, body_start(key_len));
}

/// Writes another value of the same length to an item without extras.
#[inline(always)]
pub(crate) fn rewrite_value(place: MaskedRef<'_>, lens: Lens, value: &[u8], meta: Meta) {
    debug_assert!(lens.same_plain(lens.key_len(), value.len()));
    meta.store(place);
    place.copy_in_padded(body_start(lens.key_len()), value);
}

/// Marks `bytes` at `place` as skipped.
#[inline]
pub(crate) fn write_skip(place: MaskedRef<'_>, bytes: usize) {
    place.store(0, bytes as u64 | SKIP);
}

/// Accounts for the first access to each line of `len` bytes.
#[inline(always)]
pub(crate) fn touch<C: Cpu>(cpu: &C, place: MaskedRef<'_>, len: usize) {
    let into_line = place.line(0).0 & (LINE_BYTES - 1);
    for i in 0..(into_line + len).div_ceil(LINE_BYTES) {
        cpu.touch(place.line(i * LINE_BYTES));
    }
}

/// A reference to an item, valid until the partition is written. Two words, which are passed in registers.
#[derive(Clone, Copy, Debug)]
pub struct ItemRef<'p> {
    place: MaskedRef<'p>,
}

impl<'p> ItemRef<'p> {
    #[inline(always)]
    pub(crate) fn new(place: MaskedRef<'p>) -> ItemRef<'p> {
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

    /// A reference to the value.
    #[inline(always)]
    pub fn value(&self) -> ValueRef<'p> {
        let lens = self.lens();
        ValueRef {
            place: self.place,
            start: lens.value_start(),
            len: lens.value_len(),
        }
    }

    /// Length of the value in bytes.
    #[inline(always)]
    pub fn value_len(&self) -> usize {
        self.lens().value_len()
    }

    /// Bytes of memory that the item needs, with header, padding and extras (which [`item_bytes`] does not include).
    /// The item may have more reserved, if it was longer before.
    pub fn bytes(&self) -> usize {
        self.lens().bytes()
    }

    /// Length of the key in bytes; 0 if the hash is the key.
    #[inline(always)]
    pub fn key_len(&self) -> usize {
        self.lens().key_len()
    }

    /// Version of the item: each update takes the partition's next number, so a key that was deleted and stored again
    /// has another one. Never 0; wraps after 2^32 updates.
    #[inline(always)]
    pub fn version(&self) -> u32 {
        self.meta().version()
    }

    /// Time at which the item expires, in seconds since server start; 0 = never.
    #[inline(always)]
    pub fn expire_s(&self) -> u32 {
        self.meta().expire_s()
    }

    /// Whether the item has [extras](crate::ExtraPut): those of [`put_extra`](crate::Partition::put_extra), or added by
    /// a [`Mark`].
    #[inline(always)]
    pub fn has_extras(&self) -> bool {
        self.lens().has_extras()
    }

    /// Its extras, or their defaults.
    pub(crate) fn extras(&self) -> Extras {
        let lens = self.lens();
        if lens.has_extras() {
            return Extras::load(self.place, body_start(lens.key_len()));
        }
        Extras {
            flags: 0,
            access: Default::default(),
            cas: u64::from(self.version()),
        }
    }

    /// Flags that the client stored with the value; 0 for an item without extras.
    pub fn flags(&self) -> u32 {
        self.extras().flags
    }

    /// The number that memcached's `cas` compares: for an item without extras its version, otherwise the number that
    /// its last [`put_extra`](crate::Partition::put_extra) or [`Mark`] gave it.
    pub fn cas(&self) -> u64 {
        self.extras().cas
    }

    /// Time at which the item was stored or last read with [`Mark::access`](crate::Mark::access), in seconds since
    /// server start; 0 if not recorded, as for an item without extras.
    pub fn accessed_s(&self) -> u32 {
        self.extras().access.accessed_s()
    }

    /// Whether the item was read with [`Mark::access`](crate::Mark::access) since it was stored; false for an item
    /// without extras.
    pub fn is_fetched(&self) -> bool {
        self.extras().access.is_fetched()
    }

    /// Whether the value is marked as out of date ([`Mark::stale`](crate::Mark::stale)).
    pub fn is_stale(&self) -> bool {
        self.extras().access.is_stale()
    }

    /// Whether the item carries the mark that a client has been told to fetch a new value
    /// ([`Mark::won`](crate::Mark::won)).
    pub fn is_won(&self) -> bool {
        self.extras().access.is_won()
    }

    /// The hash of its key; `None` if that is not stored and there is no hasher.
    pub(crate) fn hash(&self, hasher: Option<&KeyHasher>) -> Option<KeyHash> {
        hash_of(self.place, hasher)
    }

    /// The hash, if it is the key; `None` if the item has a key, whose hash is not stored.
    pub fn hash_key(&self) -> Option<KeyHash> {
        (self.key_len() == 0).then(|| hash_at(self.place))
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

    /// Fills `out` with the bytes of the value from byte `start` on: for values that are sent in pieces.
    ///
    /// # Panics
    /// If the part reaches beyond the value.
    pub fn copy_value_part(&self, start: usize, out: &mut [u8]) {
        assert!(start <= self.value_len() && out.len() <= self.value_len() - start);
        self.place.copy_out(self.lens().value_start() + start, out);
    }

    /// Copies the value to offset `to_offset` of `to`, without an intermediate buffer; returns its length.
    ///
    /// # Panics
    /// If it does not fit there.
    pub fn copy_value_to(&self, to: &Region, to_offset: usize) -> usize {
        let lens = self.lens();
        self.place
            .copy_to(lens.value_start(), to, to_offset, lens.value_len());
        lens.value_len()
    }

    /// Copies the key to the start of `out`; returns its length, 0 if the hash is the key.
    ///
    /// # Panics
    /// If `out` is shorter than the key.
    pub fn copy_key(&self, out: &mut [u8]) -> usize {
        let len = self.key_len();
        self.place.copy_out(HEADER_BYTES, &mut out[..len]);
        len
    }

    /// The meta word after `mark`; `next` is the partition's next version.
    pub(crate) fn marked_meta(&self, mark: &Mark, next: u64) -> Meta {
        let meta = self.meta();
        let version = match mark.cas {
            NewCas::Keep => meta.version(),
            NewCas::Next | NewCas::Exactly(_) => next as u32,
        };
        Meta::new(mark.expire_s.unwrap_or(meta.expire_s()), version)
    }

    /// Applies `mark` as far as the item has the fields for it; `bucket` is that of its key, `next` is the partition's
    /// next version.
    pub(crate) fn mark<S: Sharing>(&self, mark: &Mark, bucket: u64, now_s: u32, next: u64, sharing: &S) {
        let (meta, extras) = (self.marked_meta(mark, next), self.extras());
        let marked = extras.marked(mark, now_s, next);
        // Stored only if it changes: a line that is read often stays shared in the caches for a second. Readers on
        // other threads read only the meta word.
        if meta != self.meta() {
            sharing.begin_write(bucket);
            meta.store(self.place);
            sharing.end_write(bucket);
        }
        if self.has_extras() && marked != extras {
            marked.store(self.place, body_start(self.key_len()));
        }
    }

    /// Copies the value to `out`, which is resized to it.
    pub(crate) fn read_value(&self, out: &mut Vec<u8>) {
        out.resize(self.value_len(), 0);
        self.copy_value(out);
    }

    /// A copy of the value: for tests and slow paths.
    pub fn to_value(&self) -> Vec<u8> {
        let mut out = vec![0; self.value_len()];
        self.copy_value(&mut out);
        out
    }

    /// A copy of the key, empty if the hash is the key: for tests and slow paths.
    pub fn to_key(&self) -> Vec<u8> {
        let mut out = vec![0; self.key_len()];
        self.copy_key(&mut out);
        out
    }
}

/// A reference to the value of an item. It knows the value's length, for callers that reserve space first.
#[derive(Clone, Copy, Debug)]
pub struct ValueRef<'p> {
    place: MaskedRef<'p>,
    start: usize,
    len: usize,
}

impl ValueRef<'_> {
    /// Length of the value in bytes.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the value is empty.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies the value to `out`.
    ///
    /// # Panics
    /// If `out` has another length.
    #[inline(always)]
    pub fn copy_out(&self, out: &mut [u8]) {
        assert_eq!(out.len(), self.len, "space for a value");
        self.place.copy_out(self.start, out);
    }
}

/// Accounts for the lines after the first of an item at `place`.
#[inline(always)]
pub(crate) fn touch_rest<C: Cpu>(cpu: &C, place: MaskedRef<'_>, lens: Lens) {
    let len = lens.bytes();
    let into_line = place.line(0).0 & (LINE_BYTES - 1);
    for i in 1..(into_line + len).div_ceil(LINE_BYTES) {
        cpu.touch(place.line(i * LINE_BYTES));
    }
}

/// The hash in place of the key of the item at `place`, which has no key.
#[inline(always)]
fn hash_at(place: MaskedRef<'_>) -> KeyHash {
    KeyHash {
        low: place.load(HEADER_BYTES),
        high: place.load(HEADER_BYTES + 8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_header_do_not_mix() {
        let lens = Lens::plain(1 << 20, 250, (1 << 20) + 1);
        assert_eq!(
            (lens.item_size(), lens.key_len(), lens.value_len()),
            (1 << 20, 250, (1 << 20) + 1)
        );
        assert!(!lens.is_skip() && !lens.has_extras() && lens.with_extras().has_extras());
        assert_eq!(lens.with_extras().value_len(), lens.value_len());
        assert_eq!(
            (lens.value_start(), lens.with_extras().value_start()),
            (16 + 256, 16 + 256 + 16)
        );
        let meta = Meta::new(7, u32::MAX);
        assert_eq!((meta.expire_s(), meta.version()), (7, u32::MAX));
    }

    #[test]
    fn an_absurd_value_length_is_not_the_same() {
        let lens = Lens::plain(48, 3, 5);
        assert!(lens.same_plain(3, 5));
        for (key_len, value_len) in [
            (3, 6),
            (3, (1 << 23) + 5),
            (3, (1 << 24) + 5),
            (3, (3 << 24) + 5),
            (3, 0),
        ] {
            assert!(!lens.same_plain(key_len, value_len), "{key_len} {value_len}");
        }
    }

    #[test]
    fn no_length_takes_an_item_with_extras_for_one_without() {
        let lens = Lens::plain(64, 3, 5).with_extras();
        for value_len in [5, (1 << 23) + 5, (1 << 23) - 5, (1 << 24) + (1 << 23) + 5] {
            assert!(!lens.same_plain(3, value_len), "{value_len}");
        }
    }

    #[test]
    fn expiry_is_reached_in_its_second() {
        let expired = |expire_s, now_s| Meta::new(expire_s, 1).is_expired(now_s);
        assert!(!expired(0, u32::MAX) && !expired(5, 4) && expired(5, 5) && expired(1, 1) && !expired(1, 0));
    }
}
