//! [`Slot`]: one entry of a bucket.
//!
//! ```text
//! bit 63        48 47                                             0
//!     |    tag    |        virtual log offset modulo 2^BITS        |      0 = empty
//! ```
//! The tag is never 0, so no entry is 0 *(stated in `[MICA §4.3.2]`)*.

/// An entry of a bucket: the tag of the key's hash, and the offset at which the item starts. In a log the offset is
/// *virtual*: it counts all bytes ever appended, modulo 2^`BITS`. `BITS` is 48 except in tests, which make it wrap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Slot<const BITS: u32 = 48>(u64);

/// A log's size in the form that [`Slot::is_within`] compares with; created by [`Slot::span`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span<const BITS: u32 = 48>(u64);

impl<const BITS: u32> Slot<BITS> {
    /// An empty slot.
    pub const EMPTY: Slot<BITS> = Slot(0);

    /// Left shift that drops the tag and all other bits above the offset.
    const ABOVE: u32 = {
        assert!(BITS >= 8 && BITS <= 48);
        64 - BITS
    };

    /// Creates an entry for the item at virtual `offset`, of which the lower `BITS` bits are kept. `tag` must not be 0,
    /// or the entry may read as empty.
    ///
    /// # Panics
    /// In debug builds, if `tag` is 0.
    #[inline(always)]
    pub fn new(tag: u16, offset: u64) -> Slot<BITS> {
        debug_assert!(tag != 0, "tag 0 means empty");
        Slot((u64::from(tag) << 48) | ((offset << Self::ABOVE) >> Self::ABOVE))
    }

    /// The entry stored as `word`.
    #[inline(always)]
    pub fn from_word(word: u64) -> Slot<BITS> {
        Slot(word)
    }

    /// The word that a bucket stores for this entry.
    #[inline(always)]
    pub fn word(self) -> u64 {
        self.0
    }

    /// Whether the slot is empty.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Tag of the key's hash: the upper 16 bits of the word. 0 for an empty slot.
    #[inline(always)]
    pub fn tag(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// Virtual offset modulo 2^`BITS`. Masked by the log's size it is the offset in memory.
    #[inline(always)]
    pub fn offset(self) -> u64 {
        (self.0 << Self::ABOVE) >> Self::ABOVE
    }

    /// Bytes from the start of the item to `head` (the next byte to be appended), modulo 2^`BITS`.
    #[inline(always)]
    pub fn distance(self, head: u64) -> u64 {
        (head.wrapping_sub(self.0) << Self::ABOVE) >> Self::ABOVE
    }

    /// Converts a log's `size` in bytes for [`is_within`](Slot::is_within): done once, it saves a shift on the hot
    /// path.
    #[inline(always)]
    pub fn span(size: u64) -> Span<BITS> {
        Span(size << Self::ABOVE)
    }

    /// [`is_live`](Slot::is_live) for a log whose size was converted to a span.
    #[inline(always)]
    pub fn is_within(self, head: u64, span: Span<BITS>) -> bool {
        (head.wrapping_sub(self.0) << Self::ABOVE) <= span.0
    }

    /// Whether the item is still in a log of `size` bytes whose next byte is appended at `head`. A distance of exactly
    /// `size` is live. Not meaningful for an empty slot.
    #[inline(always)]
    pub fn is_live(self, head: u64, size: u64) -> bool {
        self.is_within(head, Self::span(size))
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
    fn validity_at_distance_exactly_size() {
        let slot = Slot::<48>::new(7, 1000);
        assert!(slot.is_live(1000, 4096), "just about to be appended");
        assert!(
            slot.is_live(1000 + 4096, 4096),
            "head is where the next byte goes"
        );
        assert!(!slot.is_live(1000 + 4096 + 1, 4096));
        assert!(
            !slot.is_live(999, 4096),
            "an offset in the future is 2^48 - 1 behind"
        );
    }

    #[test]
    fn offsets_wrap_at_their_width() {
        let near_end = Slot::<16>::new(0xffff, 0xfff8);
        assert_eq!((near_end.tag(), near_end.offset()), (0xffff, 0xfff8));
        assert_eq!(near_end.distance(0x1_0010), 0x18);
        assert!(near_end.is_live(0x1_0010, 0x18) && !near_end.is_live(0x1_0010, 0x10));
        let wide = Slot::<48>::new(0xffff, (1 << 48) - 8);
        assert_eq!(wide.distance((1 << 48) + 16), 24);
        assert_eq!(Slot::<48>::new(1, 1 << 48).offset(), 0);
    }

    #[test]
    fn masks_iterate_upwards() {
        assert_eq!(SlotMask::new(0b1010_0001).collect::<Vec<_>>(), [0, 5, 7]);
        assert_eq!(SlotMask::default().first(), None);
        let single = |bits| SlotMask::new(bits).is_single();
        assert!(single(0b100) && !single(0) && !single(0b101));
    }
}
