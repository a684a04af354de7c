//! [`Fate`]: the fault injected into one request, drawn from the seed; and the tearing of a WRITE. Pure.

use super::FaultOptions;
use drover_base::Rng;
use drover_mem::LINE_BYTES;
use std::ops::Range;

/// Fault injected into a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    Delivered,
    Dropped,
    Torn,
    Delayed,
    Reordered,
    Duplicated,
}

impl Fate {
    /// Draws a fate. The number of draws is constant, so that changing one probability changes few other fates.
    pub(super) fn draw(options: &FaultOptions, rng: &mut Rng) -> Fate {
        let fates = [
            (options.drop, Fate::Dropped),
            (options.tear, Fate::Torn),
            (options.delay, Fate::Delayed),
            (options.reorder, Fate::Reordered),
            (options.duplicate, Fate::Duplicated),
        ];
        let draws = fates.map(|(p, fate)| (rng.unit() < p, fate));
        draws
            .iter()
            .find(|(struck, _)| *struck)
            .map_or(Fate::Delivered, |(_, fate)| *fate)
    }
}

/// The pieces in which `len` bytes for remote offset `offset` become visible, shuffled: whole cache lines, or words if
/// `words` says so or all bytes are in one line.
pub(super) fn tear(offset: u64, len: usize, words: bool, rng: &mut Rng) -> Vec<Range<usize>> {
    let one_line = offset as usize % LINE_BYTES + len <= LINE_BYTES;
    let step = if words || one_line { 8 } else { LINE_BYTES };
    let mut pieces = cut(offset, len, step);
    for i in (1..pieces.len()).rev() {
        pieces.swap(i, rng.below(i as u64 + 1) as usize);
    }
    pieces
}

/// `0..len` split where `offset` plus the position is a multiple of `step`.
pub(super) fn cut(offset: u64, len: usize, step: usize) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < len {
        let to_next = step - (offset.wrapping_add(at as u64) % step as u64) as usize;
        let end = len.min(at + to_next);
        pieces.push(at..end);
        at = end;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_base::Rng;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn torn_pieces_cover_everything_once(
            offset in 0u64..200, len in 1usize..1000, words: bool, seed in any::<u64>()
        ) {
            let mut pieces = tear(offset, len, words, &mut Rng::new(seed, 0, 0));
            prop_assert!(!words || pieces.iter().all(|piece| piece.len() <= 8));
            pieces.sort_by_key(|piece| piece.start);
            let mut at = 0;
            for piece in pieces {
                prop_assert_eq!(piece.start, at);
                prop_assert!(piece.end > piece.start);
                at = piece.end;
            }
            prop_assert_eq!(at, len);
        }
    }

    #[test]
    fn every_fate_comes_about_as_often_as_asked() {
        let options = FaultOptions::all(1, 0.1);
        let mut rng = Rng::new(1, 0, 0);
        let fates: Vec<Fate> = (0..20_000).map(|_| Fate::draw(&options, &mut rng)).collect();
        let share = |fate| fates.iter().filter(|&&f| f == fate).count() as f64 / fates.len() as f64;
        let mut want = 0.1;
        for fate in [
            Fate::Dropped,
            Fate::Torn,
            Fate::Delayed,
            Fate::Reordered,
            Fate::Duplicated,
        ] {
            assert!(
                (share(fate) - want).abs() < 0.01,
                "{fate:?}: {} instead of {want}",
                share(fate)
            );
            want *= 0.9;
        }
    }
}
