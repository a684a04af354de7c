//! [`Ranks`]: draws keys by popularity, which may move from key to key.

use drover_base::{Rng, Zipf};

/// A Zipf distribution over keys, numbered from 0.
pub struct Ranks {
    zipf: Zipf,
    /// The key of each rank, if ranks exchange their keys; else each key's number is its rank.
    keys: Vec<u32>,
}

/// One rank in this many moves at a time.
const MOVING: usize = 10;

impl Ranks {
    /// A distribution over `key_count` keys with `exponent`.
    pub fn new(key_count: u64, exponent: f64, moving: bool) -> Ranks {
        let keys = match moving {
            true => (0..key_count as u32).collect(),
            false => Vec::new(),
        };
        Ranks {
            zipf: Zipf::new(key_count, exponent),
            keys,
        }
    }

    /// Draws a key.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let rank = self.zipf.draw(rng) - 1;
        self.keys.get(rank as usize).map_or(rank, |key| u64::from(*key))
    }

    /// A tenth of the ranks, drawn at random, pass their keys on in a ring.
    pub fn move_a_tenth(&mut self, rng: &mut Rng) {
        let count = self.keys.len();
        let mut ranks: Vec<u32> = (0..count as u32).collect();
        // The first steps of a Fisher-Yates shuffle leave distinct ranks in front.
        for position in 0..count / MOVING {
            let other = position + rng.below((count - position) as u64) as usize;
            ranks.swap(position, other);
        }
        for pair in ranks[..count / MOVING].windows(2) {
            self.keys.swap(pair[0] as usize, pair[1] as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_the_ranks_moves_and_no_key_is_lost() {
        let seed = crate::seed::fresh();
        let mut ranks = Ranks::new(10_000, 0.99, true);
        ranks.move_a_tenth(&mut Rng::new(seed, 0, 0));
        let moved = (0..10_000)
            .filter(|rank| ranks.keys[*rank as usize] != *rank)
            .count();
        assert_eq!(moved, 1000, "seed {seed}");
        ranks.keys.sort_unstable();
        assert!(
            ranks.keys.iter().zip(0..).all(|(key, want)| *key == want),
            "seed {seed}"
        );
    }
}
