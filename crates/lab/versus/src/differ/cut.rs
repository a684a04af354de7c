//! [`Cuts`]: where a batch is cut into pieces. A seed decides, so that a batch sent again is cut in the same places.

use drover_base::Rng;

/// Random lengths of the pieces of a batch, in order.
#[derive(Clone, Debug)]
pub struct Cuts {
    rng: Rng,
    longest: u64,
}

/// Approximate maximum number of pieces of a long batch.
const PIECES: u64 = 400;

impl Cuts {
    /// Draws from `seed` the maximum length of the pieces of a batch of `len` bytes: 3, 60, 1,400 or, for half of the
    /// seeds, 12,000 bytes. It is raised for long batches, so that no batch has more than about 400 pieces.
    pub fn new(seed: u32, len: usize) -> Cuts {
        let mut rng = Rng::new(u64::from(seed), 0, 0x5917);
        let longest = match rng.below(6) {
            0 => 3,
            1 => 60,
            2 => 1400,
            _ => 12_000,
        };
        Cuts {
            rng,
            longest: longest.max(2 * len as u64 / PIECES),
        }
    }

    /// Draws the length of the next piece, at least 1; may exceed what is left of the batch.
    pub fn next(&mut self) -> usize {
        1 + self.rng.below(self.longest) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_cuts_at_the_same_places() {
        let pieces = |seed, len| {
            let mut cuts = Cuts::new(seed, len);
            (0..50).map(|_| cuts.next()).collect::<Vec<usize>>()
        };
        assert_eq!(pieces(5, 4000), pieces(5, 4000));
        assert_ne!(pieces(5, 4000), pieces(6, 4000));
        let most = (0..40).map(|seed| pieces(seed, 100).into_iter().max());
        let (fine, coarse): (Vec<_>, Vec<_>) = most.flatten().partition(|&most| most < 100);
        assert!(!fine.is_empty() && !coarse.is_empty());
    }
}
