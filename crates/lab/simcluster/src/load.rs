//! [`Load`]: the operations that clients submit, drawn at random from a stream per client.

use drover_base::{Rng, mix};
use drover_bench::workload::Zipf;

/// Distribution of the keys that operations name.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Popularity {
    /// All keys are equally likely.
    Uniform,
    /// Rank r is drawn with probability proportional to 1 / r^s. More ranks than keys keep the published skew without
    /// memory for keys that are hardly ever drawn.
    Zipf {
        /// The exponent s; 0.99 in YCSB.
        exponent: f64,
        /// Number of ranks; may exceed the number of keys.
        ranks: u64,
        /// Number of ranks, fewer than keys, that name a key of their own: the first one key 0, and so on. The others
        /// take turns with the rest of the keys.
        exact: u64,
    },
}

/// The mix of operations that every client draws from.
#[derive(Clone, PartialEq, Debug)]
pub struct Load {
    /// Share of PUTs in percent (probability of each draw); the other operations are GETs.
    pub put_percent: u64,
    /// Length of every value, bytes. Keys have 16 bytes, which do not count here.
    pub value_bytes: usize,
    /// Number of different keys, which all clients share. Must not be 0.
    pub keys: u64,
    /// How often each key is drawn.
    pub popularity: Popularity,
}

impl Load {
    /// 5 % PUTs, items of 48 bytes (key and value), keys drawn uniformly `[HERD §5.3]`; 20,000 keys.
    pub fn new() -> Load {
        Load {
            put_percent: 5,
            value_bytes: 32,
            keys: 20_000,
            popularity: Popularity::Uniform,
        }
    }

    /// Returns key number `index` (from 0), a hash of the index: consecutive keys share no prefix.
    pub fn key(index: u64) -> [u8; 16] {
        let mut key = [0; 16];
        let (low, high) = key.split_at_mut(8);
        low.copy_from_slice(&mix(index).to_le_bytes());
        high.copy_from_slice(&mix(!index).to_le_bytes());
        key
    }

    /// Returns the value of every PUT and of every initial item, the same for all keys.
    pub fn value(&self) -> Vec<u8> {
        vec![7; self.value_bytes]
    }
}

impl Default for Load {
    fn default() -> Load {
        Load::new()
    }
}

/// The random operations of one client.
pub struct Draws {
    rng: Rng,
    zipf: Option<Zipf>,
    load: Load,
}

/// One operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Draw {
    /// Number of the key, from 0.
    pub index: u64,
    /// Whether it is a PUT, else a GET.
    pub is_put: bool,
}

/// Purpose (for [`Rng::new`]) of the streams that operations are drawn from.
const OPERATIONS: u64 = 0x6f70;

impl Draws {
    /// Operations of client number `client`; they do not depend on the number of clients.
    pub fn new(load: &Load, seed: u64, client: u64) -> Draws {
        let zipf = match load.popularity {
            Popularity::Uniform => None,
            Popularity::Zipf { exponent, ranks, .. } => Some(Zipf::new(ranks, exponent)),
        };
        Draws {
            rng: Rng::new(seed, client, OPERATIONS),
            zipf,
            load: load.clone(),
        }
    }

    /// The next operation.
    #[expect(clippy::should_implement_trait, reason = "there is always another one")]
    pub fn next(&mut self) -> Draw {
        let index = match &self.zipf {
            Some(zipf) => {
                let rank = zipf.draw(&mut self.rng);
                self.key_of_rank(rank)
            }
            None => self.rng.below(self.load.keys),
        };
        Draw {
            index,
            is_put: self.rng.below(100) < self.load.put_percent,
        }
    }

    fn key_of_rank(&self, rank: u64) -> u64 {
        let Popularity::Zipf { exact, .. } = self.load.popularity else {
            return 0;
        };
        match rank - 1 {
            index if index < exact => index,
            index => exact + (index - exact) % (self.load.keys - exact),
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
            (0..100).map(|_| draws.next().index).collect::<Vec<_>>()
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
                exact: 0,
            },
            ..Load::new()
        };
        let mut draws = Draws::new(&load, 1, 0);
        let all: Vec<Draw> = (0..10_000).map(|_| draws.next()).collect();
        let puts = all.iter().filter(|draw| draw.is_put).count();
        let hottest = all.iter().filter(|draw| draw.index == 0).count();
        assert!((2_800..3_200).contains(&puts), "{puts}");
        assert!(hottest > 500, "{hottest}");
    }

    #[test]
    fn popular_keys_have_a_rank_of_their_own() {
        let load = Load {
            keys: 100,
            popularity: Popularity::Zipf {
                exponent: 0.99,
                ranks: 1_000_000,
                exact: 10,
            },
            ..Load::new()
        };
        let draws = Draws::new(&load, 1, 0);
        let keys: Vec<u64> = [1, 10, 11, 100, 101, 190, 191]
            .map(|rank| draws.key_of_rank(rank))
            .into();
        assert_eq!(keys, [0, 9, 10, 99, 10, 99, 10]);
    }
}
