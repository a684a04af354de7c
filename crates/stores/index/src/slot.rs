//! [`Slot`]: one entry of a bucket.
//!
//! ```text
//! bit 63    48    47      46      45    44                    3    2       1  0
//!     |  tag  | spilled | mark | expires | offset of the item / 8 | unread | 3 - uses |    an item
//!     |   0   |    0    | mark |   tag (30-45)    |          time (0-29)            |    a ghost: of an evicted item
//!     |   0   |    0    | mark |                       0                            |    empty
//! ```
//! The tag is never 0, so a search for a tag finds items only *(a tag of 16 bits, never 0: stated in `[MICA §4.3.2]`;
//! counting uses to 3 and keeping ghosts: stated in `[S3-FIFO]`; both in slots: our choice)*. The mark is no part of the
//! entry: a [`CacheTable`](crate::CacheTable) keeps it in the first slot of a bucket for the bucket. The lowest bits count
//! down, so that the entry of an item that is read often has zeros there: a GET then changes nothing.

/// An entry of a bucket: an item, given by the tag of its key's hash and its offset, with the number of times that it was
/// used lately; or a *ghost*, the tag of an item that was evicted; or nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Slot(u64);

impl Slot {
    /// An empty slot.
    pub const EMPTY: Slot = Slot(0);
    /// Most uses that an entry counts.
    pub const USES_MAX: u64 = 3;
    /// Items are at offsets below this.
    pub const OFFSET_END: u64 = 1 << 45;

    const USES: u64 = Slot::USES_MAX;
    const UNREAD: u64 = 4;
    const FLAGS: u64 = Slot::USES | Slot::UNREAD;
    const EXPIRES: u64 = Slot::OFFSET_END;
    pub(crate) const MARK: u64 = 2 * Slot::EXPIRES;
    const SPILLED: u64 = 2 * Slot::MARK;
    /// A ghost's time, and ages of ghosts, have so many bits.
    const TIME_BITS: u32 = 30;
    const TIME_MASK: u32 = (1 << Slot::TIME_BITS) - 1;

    /// Creates an entry for the item at `offset`, a multiple of 8 below [`OFFSET_END`](Slot::OFFSET_END), unused and
    /// unread. `tag` must not be 0, or the entry may read as empty.
    ///
    /// # Panics
    /// In debug builds, if `tag` is 0 or the offset is impossible.
    #[inline(always)]
    pub fn new(tag: u16, offset: u64) -> Slot {
        debug_assert!(tag != 0, "tag 0 means empty");
        debug_assert!(offset.is_multiple_of(8) && offset < Slot::OFFSET_END);
        Slot((u64::from(tag) << 48) | offset | Slot::FLAGS)
    }

    /// Creates the ghost of an item with `tag` that was evicted at `time`. The caller has a clock for that, which may wrap;
    /// only the lower 30 bits are kept.
    #[inline(always)]
    pub fn ghost(tag: u16, time: u32) -> Slot {
        debug_assert!(tag != 0, "tag 0 means empty");
        Slot((u64::from(tag) << Slot::TIME_BITS) | u64::from(time & Slot::TIME_MASK))
    }

    /// The entry stored as `word`.
    #[inline(always)]
    pub fn from_word(word: u64) -> Slot {
        Slot(word)
    }

    /// The word that a bucket stores for this entry.
    #[inline(always)]
    pub fn word(self) -> u64 {
        self.0
    }

    /// Whether the slot is empty: no item, no ghost.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.0 & !Slot::MARK == 0
    }

    /// Whether the slot is the entry of an item.
    #[inline(always)]
    pub fn is_item(self) -> bool {
        self.0 >> 48 != 0
    }

    /// Tag of the item's key. 0 for a ghost and an empty slot.
    #[inline(always)]
    pub fn tag(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// Offset of the item.
    #[inline(always)]
    pub fn offset(self) -> u64 {
        self.0 & (Slot::OFFSET_END - 1) & !Slot::FLAGS
    }

    /// Number of uses counted, up to [`USES_MAX`](Slot::USES_MAX).
    #[inline(always)]
    pub fn uses(self) -> u64 {
        Slot::USES_MAX - (self.0 & Slot::USES)
    }

    /// Whether the item was read since it was stored.
    #[inline(always)]
    pub fn is_read(self) -> bool {
        self.0 & Slot::UNREAD == 0
    }

    /// Whether [`read`](Slot::read) would change nothing: true for items that are read often.
    #[inline(always)]
    pub fn is_saturated(self) -> bool {
        self.0 & Slot::FLAGS == 0
    }

    /// The entry after one more GET.
    #[inline(always)]
    pub fn read(self) -> Slot {
        self.used().with_read(true)
    }

    /// The entry after one more use that is not a GET.
    #[inline(always)]
    pub fn used(self) -> Slot {
        Slot(self.0 - u64::from(self.0 & Slot::USES != 0))
    }

    /// The entry with another mark of whether it was read.
    #[inline(always)]
    pub fn with_read(self, is_read: bool) -> Slot {
        Slot(self.0 & !Slot::UNREAD | if is_read { 0 } else { Slot::UNREAD })
    }

    /// The entry with `uses` uses.
    #[inline(always)]
    pub fn with_uses(self, uses: u64) -> Slot {
        debug_assert!(uses <= Slot::USES_MAX);
        Slot(self.0 & !Slot::USES | (Slot::USES_MAX - uses))
    }

    /// The same entry for an item that was copied to `offset`.
    #[inline(always)]
    pub fn moved_to(self, offset: u64) -> Slot {
        let kept = self.0 & (Slot::FLAGS | Slot::EXPIRES | Slot::SPILLED);
        Slot(Slot::new(self.tag(), offset).0 & !Slot::FLAGS | kept)
    }

    /// Whether the item may have a time at which it expires.
    #[inline(always)]
    pub fn expires(self) -> bool {
        self.0 & Slot::EXPIRES != 0
    }

    /// The entry of an item that may expire or, not `expires`, does not.
    #[inline(always)]
    pub fn with_expires(self, expires: bool) -> Slot {
        Slot(self.0 & !Slot::EXPIRES | if expires { Slot::EXPIRES } else { 0 })
    }

    /// Whether the item is in the neighbour of its own bucket, which was full.
    #[inline(always)]
    pub fn is_spilled(self) -> bool {
        self.0 & Slot::SPILLED != 0
    }

    /// The entry in the item's own bucket or, `is_spilled`, in the neighbour.
    #[inline(always)]
    pub(crate) fn with_spilled(self, is_spilled: bool) -> Slot {
        Slot(self.0 & !Slot::SPILLED | if is_spilled { Slot::SPILLED } else { 0 })
    }

    /// Time at `time` since a ghost was made, below 2^30; meaningless for an item or an empty slot.
    #[inline(always)]
    pub(crate) fn ghost_age(self, time: u32) -> u32 {
        time.wrapping_sub(self.0 as u32) & Slot::TIME_MASK
    }

    /// Tag of a ghost; `None` for an item or an empty slot.
    #[inline(always)]
    pub fn ghost_tag(self) -> Option<u16> {
        (!self.is_item() && !self.is_empty()).then_some((self.0 >> Slot::TIME_BITS) as u16)
    }
}

/// Set of slots of one bucket, as bits. It is an iterator over the slots' indexes, in ascending order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SlotMask(u32);

impl SlotMask {
    /// Creates the set that contains slot i if bit i of `bits` is set.
    #[inline(always)]
    pub fn new(bits: u32) -> SlotMask {
        SlotMask(bits)
    }

    /// The set as a number: bit i is set if slot i is in it.
    #[inline(always)]
    pub fn bits(self) -> u32 {
        self.0
    }

    /// Whether the set is empty.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the set has exactly one slot.
    #[inline(always)]
    pub fn is_single(self) -> bool {
        self.0 != 0 && self.0 & (self.0 - 1) == 0
    }

    /// Lowest index in the set; `None` if the set is empty.
    #[inline(always)]
    pub fn first(self) -> Option<usize> {
        (self.0 != 0).then(|| self.0.trailing_zeros() as usize)
    }

    /// Highest index in the set; `None` if the set is empty.
    #[inline(always)]
    pub fn last(self) -> Option<usize> {
        self.0.checked_ilog2().map(|i| i as usize)
    }

    /// Adds slot `index`, below 32, to the set.
    #[inline(always)]
    pub fn insert(&mut self, index: usize) {
        self.0 |= 1 << index;
    }
}

impl Iterator for SlotMask {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let first = self.first()?;
        self.0 &= self.0 - 1;
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_an_entry_do_not_mix() {
        let offset = Slot::OFFSET_END - 8;
        let slot = Slot::new(0xffff, offset);
        assert_eq!((slot.tag(), slot.offset(), slot.uses()), (0xffff, offset, 0));
        assert!(slot.is_item() && !slot.is_read() && slot.ghost_tag().is_none());
        let read = slot.read();
        assert_eq!((read.uses(), read.is_read(), read.offset()), (1, true, offset));
        let moved = read.moved_to(16);
        assert_eq!(
            (moved.tag(), moved.offset(), moved.uses(), moved.is_read()),
            (0xffff, 16, 1, true)
        );
        assert_eq!(moved.with_uses(0).with_read(false), Slot::new(0xffff, 16));
        let spilled = moved.with_spilled(true);
        assert!(spilled.is_spilled() && spilled.moved_to(24).is_spilled() && !moved.is_spilled());
        assert_eq!(spilled.with_spilled(false), moved);
        let expires = moved.with_expires(true);
        assert!(expires.expires() && expires.moved_to(24).expires() && !moved.expires());
        assert_eq!((expires.with_expires(false), expires.offset()), (moved, 16));
    }

    #[test]
    fn uses_stop_at_their_maximum() {
        let mut slot = Slot::new(1, 8);
        for uses in [1, 2, 3, 3] {
            assert!(!slot.is_saturated() || uses == 3);
            slot = slot.used();
            assert_eq!(slot.uses(), uses);
        }
        assert!(!slot.is_saturated() && slot.read().is_saturated());
        assert_eq!(slot.read().read(), slot.read());
    }

    #[test]
    fn a_ghost_is_neither_an_item_nor_empty() {
        for (tag, time) in [(1, 0), (0xffff, u32::MAX), (7, 5)] {
            let ghost = Slot::ghost(tag, time);
            assert_eq!(ghost.ghost_tag(), Some(tag));
            assert_eq!(ghost.ghost_age(time.wrapping_add(3)), 3);
            assert!(!ghost.is_item() && !ghost.is_empty() && ghost.tag() == 0);
        }
        assert_eq!(Slot::EMPTY.ghost_tag(), None);
        assert!(Slot::EMPTY.is_empty() && !Slot::EMPTY.is_item());
    }

    #[test]
    fn masks_iterate_upwards() {
        assert_eq!(SlotMask::new(0b1010_0001).collect::<Vec<_>>(), [0, 5, 7]);
        assert_eq!(SlotMask::default().first(), None);
        let single = |bits| SlotMask::new(bits).is_single();
        assert!(single(0b100) && !single(0) && !single(0b101));
    }
}
