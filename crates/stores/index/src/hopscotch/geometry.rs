//! [`Geometry`]: the assignment of slots to homes.

/// Assigns slots to keys: a key may be in the `span` consecutive slots from its home on (its *neighbourhood*), and
/// homes are `stride` slots apart. A few more slots follow the last home, so that no neighbourhood wraps and one READ
/// fetches it.
///
/// ```text
/// classic, span 6:   home of h = slot h        |h . . . . .|
/// paired, 3 + 3:     home of b = slot 3 b      |b b b|+ + +|     its bucket and the next
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Number of slots from one home to the next.
    pub stride: usize,
    /// Number of slots that a key may be in, from its home on; more than `stride`.
    pub span: usize,
}

impl Geometry {
    /// A home per slot, 6 slots in a row. *(6: stated in `[HERD §5.1]`)*
    pub const CLASSIC: Geometry = Geometry { stride: 1, span: 6 };
    /// Buckets of 3 slots, read in pairs.
    pub const PAIRED: Geometry = Geometry { stride: 3, span: 6 };

    /// Number of slots of a table with `home_count` homes, without those for overflow.
    pub const fn slot_count(self, home_count: usize) -> usize {
        home_count * self.stride + self.span - self.stride
    }

    /// Index of the first slot of `home`'s neighbourhood.
    #[inline]
    pub const fn first(self, home: u64) -> usize {
        home as usize * self.stride
    }

    /// Index of the first home whose neighbourhood contains `slot`; the last such home is `slot / stride`, or the last
    /// one of the table.
    pub const fn first_home_of(self, slot: usize) -> u64 {
        (slot + 1).saturating_sub(self.span).div_ceil(self.stride) as u64
    }

    /// Slots whose keys may move to `slot`, if their homes allow it.
    pub(super) fn movers(self, slot: usize) -> std::ops::Range<usize> {
        self.first(self.first_home_of(slot))..slot / self.stride * self.stride
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbourhoods_end_with_the_table() {
        for geometry in [
            Geometry::CLASSIC,
            Geometry::PAIRED,
            Geometry { stride: 4, span: 8 },
        ] {
            let last = geometry.first(99) + geometry.span;
            assert_eq!(last, geometry.slot_count(100), "{geometry:?}");
        }
    }

    #[test]
    fn homes_of_a_slot_are_those_whose_neighbourhood_has_it() {
        for geometry in [
            Geometry::CLASSIC,
            Geometry::PAIRED,
            Geometry { stride: 4, span: 8 },
        ] {
            for slot in 0..geometry.slot_count(20) {
                let has = |home: &u64| {
                    (geometry.first(*home)..geometry.first(*home) + geometry.span).contains(&slot)
                };
                let want = (0..20).find(has).expect("every slot is somebody's");
                assert_eq!(geometry.first_home_of(slot), want, "{geometry:?}, slot {slot}");
            }
        }
    }
}
