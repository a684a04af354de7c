//! [`Load`]: the operations that clients submit, drawn at random from a stream per client.

use drover_base::{Rng, mix};
use drover_bench::workload::Zipf;

/// Distribution of the keys that operations name.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Popularity {
    /// All keys are equally likely.
    Uniform,
    /// Rank r is drawn with probability proportional to 1 / r^s and names key number (r - 1) modulo [`Load::keys`]:
    /// more ranks than keys keep the published skew without memory for keys that are hardly ever drawn.
    Zipf {
        /// The exponent s; 0.99 in YCSB.
        exponent: f64,
        /// Number of ranks; may exceed the number of keys.
        ranks: u64,
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

/// Purpose (for [`Rng::new`]) of the streams that operations are drawn from.
const OPERATIONS: u64 = 0x6f70;

impl Draws {
    /// Operations of client number `client`; they do not depend on the number of clients.
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
