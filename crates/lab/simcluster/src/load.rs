//! [`Load`]: which operations a client asks for, drawn from a stream of its own.

use drover_base::{Rng, mix};
use drover_bench::workload::Zipf;

/// Which keys are asked for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Popularity {
    /// All alike.
    Uniform,
    /// Rank r of so many with probability proportional to 1 / r^s. Ranks beyond the keys there are stand for any of
    /// them: each for one, in turn, so that memory need not hold what is hardly ever asked for.
    Zipf {
        /// s; YCSB's is 0.99.
        exponent: f64,
        /// How many ranks.
        ranks: u64,
    },
}

/// What all clients ask for.
#[derive(Clone, PartialEq, Debug)]
pub struct Load {
    /// Of 100 operations, so many are PUTs; the others are GETs.
    pub put_percent: u64,
    /// Bytes of every value.
    pub value_bytes: usize,
    /// Different keys, of 16 bytes each.
    pub keys: u64,
    /// Which of them.
    pub popularity: Popularity,
}

impl Load {
    /// 5 % PUTs, items of 48 bytes, uniform `[HERD §5.3]`.
    pub fn new() -> Load {
        Load {
            put_percent: 5,
            value_bytes: 32,
            keys: 20_000,
            popularity: Popularity::Uniform,
        }
    }

    /// Key number `index`: neighbours have nothing in common.
    pub fn key(index: u64) -> [u8; 16] {
        let mut key = [0; 16];
        let (low, high) = key.split_at_mut(8);
        low.copy_from_slice(&mix(index).to_le_bytes());
        high.copy_from_slice(&mix(!index).to_le_bytes());
        key
    }

    /// The value that every key has.
    pub fn value(&self) -> Vec<u8> {
        vec![7; self.value_bytes]
    }
}

impl Default for Load {
    fn default() -> Load {
        Load::new()
    }
}

/// One client's draws.
pub(crate) struct Draws {
    rng: Rng,
    zipf: Option<Zipf>,
    load: Load,
}

/// One operation.
pub(crate) struct Draw {
    pub(crate) key: [u8; 16],
    pub(crate) is_put: bool,
}

/// Purpose of the streams that operations are drawn from.
const OPERATIONS: u64 = 0x6f70;

impl Draws {
    /// Those of client number `client`, whatever other clients there are.
    pub(crate) fn new(load: &Load, seed: u64, client: u64) -> Draws {
        let zipf = match load.popularity {
            Popularity::Uniform => None,
            Popularity::Zipf { exponent, ranks } => Some(Zipf::new(ranks, exponent)),
        };
        Draws {
            rng: Rng::new(seed, client, OPERATIONS),
            zipf,
            load: load.clone(),
        }
    }

    pub(crate) fn next(&mut self) -> Draw {
        let index = match &self.zipf {
            Some(zipf) => (zipf.draw(&mut self.rng) - 1) % self.load.keys,
            None => self.rng.below(self.load.keys),
        };
        Draw {
            key: Load::key(index),
            is_put: self.rng.below(100) < self.load.put_percent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_draw_alike_but_not_the_same() {
        let keys = |client| {
            let mut draws = Draws::new(&Load::new(), 1, client);
            (0..100).map(|_| draws.next().key).collect::<Vec<_>>()
        };
        assert_eq!(keys(3), keys(3));
        assert_ne!(keys(3), keys(4));
    }

    #[test]
    fn shares_are_as_asked_for() {
        let load = Load {
            put_percent: 30,
            popularity: Popularity::Zipf {
                exponent: 0.99,
                ranks: 20_000,
            },
            ..Load::new()
        };
        let mut draws = Draws::new(&load, 1, 0);
        let all: Vec<Draw> = (0..10_000).map(|_| draws.next()).collect();
        let puts = all.iter().filter(|draw| draw.is_put).count();
        let hottest = all.iter().filter(|draw| draw.key == Load::key(0)).count();
        assert!((2_800..3_200).contains(&puts), "{puts}");
        assert!(hottest > 500, "{hottest}");
    }
}
