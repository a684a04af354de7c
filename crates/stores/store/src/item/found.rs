//! [`ItemRef`]: the reference to an item found.

use super::{Access, Fields, HEAD_BYTES, Head, KeyHash, hash_at, hash_of, version_of};
use crate::extras::{Mark, NewCas};
use crate::sharing::Sharing;
use drover_base::KeyHasher;
use drover_mem::{MaskedRef, Region};

/// A reference to an item, valid until the partition is written.
#[derive(Clone, Copy, Debug)]
pub struct ItemRef<'p> {
    place: MaskedRef<'p>,
    /// The item's first word, as it was found.
    head: Head,
}

impl<'p> ItemRef<'p> {
    #[inline(always)]
    pub(crate) fn new(place: MaskedRef<'p>) -> ItemRef<'p> {
        ItemRef::with_head(place, Head::load(place))
    }

    /// The item at `place`, whose first word is `head`.
    #[inline(always)]
    pub(crate) fn with_head(place: MaskedRef<'p>, head: Head) -> ItemRef<'p> {
        ItemRef { place, head }
    }

    pub(crate) fn is_expired(&self, now_s: u32) -> bool {
        self.head.is_expired(self.place, now_s)
    }

    /// A reference to the value.
    #[inline(always)]
    pub fn value(&self) -> ValueRef<'p> {
        let head = self.head;
        ValueRef {
            place: self.place,
            start: head.value_start(),
            len: head.value_len(),
        }
    }

    /// Bytes of the item before its value.
    pub(crate) fn value_start(&self) -> usize {
        self.head.value_start()
    }

    /// Length of the value in bytes.
    #[inline(always)]
    pub fn value_len(&self) -> usize {
        self.head.value_len()
    }

    /// Bytes of memory that the item needs, with padding and all fields that it has ([`item_bytes`](crate::item_bytes)
    /// is the size without optional ones). In store mode it may have up to 24 more reserved.
    pub fn bytes(&self) -> usize {
        self.head.bytes()
    }

    /// Length of the key in bytes; 0 if the hash is the key.
    #[inline(always)]
    pub fn key_len(&self) -> usize {
        self.head.key_len()
    }

    /// Version of the item: each update takes the partition's next number, so a key that was deleted and stored again
    /// has another one. Below 2^31, never 0; wraps after 2^31 updates.
    #[inline(always)]
    pub fn version(&self) -> u32 {
        self.head.version()
    }

    /// Time at which the item expires, in seconds since server start; 0 = never.
    #[inline(always)]
    pub fn expire_s(&self) -> u32 {
        self.head.expire_s(self.place)
    }

    /// Whether the item has [extras](crate::EXTRAS_BYTES), because [`put_extra`](crate::Partition::put_extra) or a
    /// [`Mark`] required them.
    #[inline(always)]
    pub fn has_extras(&self) -> bool {
        self.head.has_extras()
    }

    #[inline(always)]
    pub(crate) fn fields(&self) -> Fields {
        let head = self.head;
        Fields::load(head.kind(), self.place, head.body_start())
    }

    pub(crate) fn access(&self) -> Access {
        self.fields()
            .extras()
            .map_or(Access::default(), |extras| extras.access)
    }

    /// Flags that the client stored with the value; 0 for an item of a native PUT.
    pub fn flags(&self) -> u32 {
        self.fields().terms().flags
    }

    /// The number that memcached's `cas` compares: for an item without extras its version, otherwise the number that
    /// its last [`put_extra`](crate::Partition::put_extra) or [`Mark`] gave it.
    pub fn cas(&self) -> u64 {
        let extras = self.fields().extras();
        extras.map_or(u64::from(self.version()), |extras| extras.cas)
    }

    /// Time at which the item was stored or last read with [`Mark::access`](crate::Mark::access), in seconds since
    /// server start; 0 if not recorded, as for an item without extras.
    pub fn accessed_s(&self) -> u32 {
        self.access().accessed_s()
    }

    /// Whether the item was read with [`Mark::access`](crate::Mark::access) since it was stored; false for an item
    /// without extras.
    pub fn is_fetched(&self) -> bool {
        self.access().is_fetched()
    }

    /// Whether the value is marked as out of date ([`Mark::stale`](crate::Mark::stale)).
    pub fn is_stale(&self) -> bool {
        self.access().is_stale()
    }

    /// Whether the item carries the mark that a client has been told to fetch a new value
    /// ([`Mark::won`](crate::Mark::won)).
    pub fn is_won(&self) -> bool {
        self.access().is_won()
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
        self.place.copy_out(self.head.value_start() + start, out);
    }

    /// Copies the key to the start of `out`; returns its length, 0 if the hash is the key.
    ///
    /// # Panics
    /// If `out` is shorter than the key.
    pub fn copy_key(&self, out: &mut [u8]) -> usize {
        let len = self.key_len();
        self.place.copy_out(HEAD_BYTES, &mut out[..len]);
        len
    }

    /// Fields and version after `mark` at `now_s`; `next` is the partition's next version.
    #[inline]
    pub(crate) fn marked(&self, mark: &Mark, now_s: u32, next: u64) -> (Fields, u32) {
        let version = match mark.cas {
            NewCas::Keep => self.version(),
            NewCas::Next | NewCas::Exactly(_) => version_of(next),
        };
        (self.fields().marked(mark, self.cas(), now_s, next), version)
    }

    /// Whether `mark` would change the item at `now_s`.
    #[inline]
    pub fn would_change(&self, mark: &Mark, now_s: u32) -> bool {
        // The usual case: an access, which this item does not record.
        let only_access = Mark {
            access: mark.access,
            ..Mark::default()
        };
        if !self.has_extras() && *mark == only_access {
            return false;
        }
        let fields = self.fields();
        mark.cas != NewCas::Keep || fields.marked(mark, self.cas(), now_s, 0) != fields
    }

    /// Writes fields and version if the item has exactly these fields, else returns `false`. `bucket` is that of its key.
    #[inline]
    pub(crate) fn try_rewrite<S: Sharing>(
        &self,
        fields: Fields,
        version: u32,
        bucket: u64,
        sharing: &S,
    ) -> bool {
        let (head, old) = (self.head, self.fields());
        if fields.kind() != old.kind() {
            return false;
        }
        // Stored only if it changes: a line that is read often stays shared in the caches for a second. Otherwise only
        // access and marks change, which are one word: readers on other threads see it before or after.
        let seen = |fields: Fields, version: u32| (fields.terms(), version);
        if seen(fields, version) != seen(old, head.version()) {
            sharing.begin_write(bucket);
            head.with_version(version).store(self.place);
            fields.store(self.place, head.body_start());
            sharing.end_write(bucket);
        } else if fields != old {
            fields.store(self.place, head.body_start());
        }
        true
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
        assert!(out.len() == self.len, "space for a value");
        self.place.copy_out(self.start, out);
    }

    /// Copies the value to offset `to_offset` of `to`, without an intermediate buffer.
    ///
    /// # Panics
    /// If it does not fit there.
    pub fn copy_to(&self, to: &Region, to_offset: usize) {
        self.place.copy_to(self.start, to, to_offset, self.len);
    }
}
