//! [`Tape`]: the operations of one client thread, drawn before the clock starts.

use super::{Mix, Zipf};
use drover_base::{Rng, mix};
use serde::{Deserialize, Serialize};

/// Distribution from which operations on existing keys draw their keys.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub enum Popularity {
    /// All loaded keys are equally likely; inserted keys are never drawn.
    Uniform,
    /// Zipf with this exponent (above 0; YCSB: 0.99). The popular keys are scattered over the loaded keys; they are the
    /// same in all tapes of a seed. Inserted keys are never drawn.
    Zipf(f64),
    /// Zipf with this exponent (above 0): rank 1 is the key that this tape inserted last, the next ranks its earlier
    /// inserts, then the loaded keys from the last one back.
    Latest(f64),
}

impl Popularity {
    /// Name in options and reports: `uniform`, `zipf` or `latest`.
    pub fn name(self) -> &'static str {
        match self {
            Popularity::Uniform => "uniform",
            Popularity::Zipf(_) => "zipf",
            Popularity::Latest(_) => "latest",
        }
    }
}

/// Kind of an operation of a tape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// GET of the key.
    Get,
    /// PUT of the key, an existing or a new one.
    Put,
    /// GET of the key, then a PUT of it, counted as one operation.
    Modify,
}

/// One operation of a tape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Draw {
    /// What to do with the key.
    pub verb: Verb,
    /// Index of the key, for [`KeyText`](super::KeyText); below [`Tape::index_count`].
    pub index: u32,
}

/// Options of a tape.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TapeOptions {
    /// Shares of the operations.
    pub mix: Mix,
    /// Distribution of the keys.
    pub popularity: Popularity,
    /// Number of keys loaded before the run: 1 to [`Tape::KEYS_MAX`].
    pub key_count: u32,
    /// Number of operations until the tape repeats, rounded up to a power of two (0 counts as 1). Each takes 4 bytes.
    pub entry_count: usize,
    /// Seed of the run, the same for all clients.
    pub seed: u64,
    /// Index of this tape's client thread, below `client_count`.
    pub client_index: u32,
    /// Number of client threads; each inserts different keys.
    pub client_count: u32,
}

/// A seeded random sequence of operations that starts again at its end: each pass is a lap. An entry is 2 bits of verb
/// and 30 bits of key index.
///
/// With uniform popularity and no inserts every lap shifts the indices by another distance, so that later laps use
/// other keys. Otherwise all laps are the same: inserts of later laps overwrite the keys of the first.
#[derive(Clone, Debug)]
pub struct Tape {
    entries: Box<[u32]>,
    at: usize,
    shift: u32,
    key_count: u32,
    uniform: bool,
    index_count: u32,
    rng: Rng,
}

/// Indexed by the two bits of an entry: a match compiled to an unpredictable jump.
const VERBS: [Verb; 4] = [Verb::Get, Verb::Put, Verb::Modify, Verb::Modify];

const INDEX_BITS: u32 = 30;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;

impl Tape {
    /// Maximum number of different keys that a tape can name.
    pub const KEYS_MAX: u32 = 1 << INDEX_BITS;

    /// Draws all operations of the tape: takes about 10 ns each if uniform, 60 ns with Zipf.
    ///
    /// # Panics
    /// If there are no keys, inserts exceed [`Tape::KEYS_MAX`] together with the keys, or a Zipf exponent is not
    /// positive.
    pub fn new(options: &TapeOptions) -> Tape {
        assert!(options.key_count > 0, "a tape needs keys");
        let mut drawing = Drawing::new(options);
        let entries = (0..options.entry_count.max(1).next_power_of_two())
            .map(|_| drawing.entry())
            .collect();
        Tape {
            entries,
            at: 0,
            shift: 0,
            key_count: options.key_count,
            uniform: options.popularity == Popularity::Uniform && options.mix.insert_share == 0.0,
            index_count: drawing.index_count(),
            rng: drawing.rng,
        }
    }

    /// Number that the key indices of all clients' tapes stay below. Without inserts: the number of loaded keys. With
    /// inserts: an estimate, the loaded keys plus for each client 1.25 times this tape's inserts and 64.
    pub fn index_count(&self) -> u32 {
        self.index_count
    }

    /// Returns and consumes the next operation. About 1 ns.
    #[inline(always)]
    pub fn draw(&mut self) -> Draw {
        let draw = self.peek();
        self.advance();
        draw
    }

    /// The next operation, which stays the next until [`advance`](Tape::advance).
    #[inline(always)]
    pub fn peek(&mut self) -> Draw {
        // This bounds check is also the check for the end of the lap.
        let entry = match self.entries.get(self.at) {
            Some(&entry) => entry,
            None => self.next_lap(),
        };
        let shifted = (entry & INDEX_MASK) + self.shift;
        // An index below the count wraps to a huge number.
        let index = shifted.min(shifted.wrapping_sub(self.index_count));
        let verb = VERBS[(entry >> INDEX_BITS) as usize];
        Draw { verb, index }
    }

    /// Consumes the operation that [`peek`](Tape::peek) returned.
    #[inline(always)]
    pub fn advance(&mut self) {
        self.at += 1;
    }

    /// Restarts the tape; returns its first entry.
    #[cold]
    fn next_lap(&mut self) -> u32 {
        self.at = 0;
        if self.uniform {
            self.shift = self.rng.below(u64::from(self.key_count)) as u32;
        }
        self.entries[0]
    }
}

struct Drawing<'a> {
    options: &'a TapeOptions,
    zipf: Option<Zipf>,
    rng: Rng,
    inserted: u32,
}

impl<'a> Drawing<'a> {
    fn new(options: &'a TapeOptions) -> Drawing<'a> {
        let zipf = match options.popularity {
            Popularity::Uniform => None,
            Popularity::Zipf(s) | Popularity::Latest(s) => Some(Zipf::new(u64::from(options.key_count), s)),
        };
        Drawing {
            options,
            zipf,
            rng: Rng::new(options.seed, u64::from(options.client_index), 0x7a9e),
            inserted: 0,
        }
    }

    fn entry(&mut self) -> u32 {
        let mix = &self.options.mix;
        let dice = self.rng.unit();
        if dice < mix.insert_share {
            return 1 << INDEX_BITS | self.insert();
        }
        let verb = match dice - mix.insert_share {
            d if d < mix.put_share => 1,
            d if d < mix.put_share + mix.modify_share => 2,
            _ => 0,
        };
        verb << INDEX_BITS | self.existing()
    }

    /// Index of the `nth` insert of this client.
    fn inserted_index(&self, nth: u32) -> u32 {
        let index = u64::from(self.options.key_count)
            + u64::from(nth) * u64::from(self.options.client_count)
            + u64::from(self.options.client_index);
        assert!(
            index < u64::from(Tape::KEYS_MAX),
            "{index} keys are too many for a tape"
        );
        index as u32
    }

    fn insert(&mut self) -> u32 {
        self.inserted += 1;
        self.inserted_index(self.inserted - 1)
    }

    fn existing(&mut self) -> u32 {
        let keys = u64::from(self.options.key_count);
        match (self.options.popularity, &self.zipf) {
            (Popularity::Latest(_), Some(zipf)) => {
                let age = (zipf.draw(&mut self.rng) - 1) as u32;
                match self.inserted.checked_sub(age + 1) {
                    Some(nth) => self.inserted_index(nth),
                    None => self.options.key_count - 1 - (age - self.inserted),
                }
            }
            (_, Some(zipf)) => {
                let rank = zipf.draw(&mut self.rng) - 1;
                scatter_below(rank, keys, self.options.seed) as u32
            }
            _ => self.rng.below(keys) as u32,
        }
    }

    fn index_count(&self) -> u32 {
        if self.inserted == 0 {
            return self.options.key_count;
        }
        // The clients' numbers of inserts vary: leave a margin.
        let space = u64::from(self.inserted) * 5 / 4 + 64;
        let all = u64::from(self.options.key_count) + space * u64::from(self.options.client_count);
        all.min(u64::from(Tape::KEYS_MAX)) as u32
    }
}

/// A bijection of the words of `bits` bits (4 to 64).
pub(super) fn scatter(word: u64, bits: u32, salt: u64) -> u64 {
    let mask = u64::MAX >> (64 - bits);
    let mut x = (word ^ salt) & mask;
    for round in 0..3 {
        x = x.wrapping_mul(mix(salt ^ round) | 1) & mask;
        x ^= x >> bits.div_ceil(2);
    }
    x
}

/// A bijection of the numbers below `bound`: scatters until the result is below it (at most two tries on average).
pub(crate) fn scatter_below(number: u64, bound: u64, salt: u64) -> u64 {
    let bits = (64 - (bound - 1).leading_zeros()).max(4);
    let mut x = number;
    loop {
        x = scatter(x, bits, salt);
        if x < bound {
            return x;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn options(mix: &str, popularity: Popularity) -> TapeOptions {
        TapeOptions {
            mix: Mix::parse(mix).expect("a mix"),
            popularity,
            key_count: 10_000,
            entry_count: 1 << 17,
            seed: 11,
            client_index: 0,
            client_count: 1,
        }
    }

    fn share(tape: &mut Tape, verb: Verb) -> f64 {
        let draws = 1 << 17;
        (0..draws).filter(|_| tape.draw().verb == verb).count() as f64 / f64::from(draws)
    }

    #[test]
    fn shares_are_those_of_the_mix() {
        for (mix, verb, want) in [
            ("a", Verb::Put, 0.5),
            ("b", Verb::Put, 0.05),
            ("c", Verb::Get, 1.0),
            ("d", Verb::Put, 0.05),
            ("f", Verb::Modify, 0.5),
            ("put=0.2", Verb::Put, 0.2),
        ] {
            let got = share(&mut Tape::new(&options(mix, Popularity::Uniform)), verb);
            assert!((got - want).abs() < 0.005, "{mix}: {got}, not {want}");
        }
    }

    #[test]
    fn scattering_is_a_bijection() {
        for bound in [1u64, 2, 15, 1000, 4096] {
            let all: BTreeSet<u64> = (0..bound).map(|i| scatter_below(i, bound, 3)).collect();
            assert_eq!(all.len() as u64, bound);
            assert!(all.iter().all(|&i| i < bound));
        }
    }

    #[test]
    fn zipf_tapes_have_the_hottest_keys_far_apart() {
        let mut counts = vec![0u32; 10_000];
        let mut tape = Tape::new(&options("c", Popularity::Zipf(0.99)));
        for _ in 0..1 << 17 {
            counts[tape.draw().index as usize] += 1;
        }
        let hottest = (0..10_000).max_by_key(|&i| counts[i]).expect("keys");
        let p1 = Zipf::new(10_000, 0.99).probability(1);
        let got = f64::from(counts[hottest]) / f64::from(1 << 17);
        assert!((got - p1).abs() < 0.005, "{got}, not {p1}");
        assert_eq!(hottest as u64, scatter_below(0, 10_000, 11));
        assert_ne!(scatter_below(1, 10_000, 11).abs_diff(hottest as u64), 1);
    }

    #[test]
    fn latest_reads_follow_the_inserts() {
        let mut tape = Tape::new(&options("d", Popularity::Latest(0.99)));
        let (mut newest, mut recent, mut reads) = (9_999, 0, 0);
        for _ in 0..1 << 17 {
            let draw = tape.draw();
            if draw.verb == Verb::Put {
                assert_eq!(draw.index, newest + 1, "inserts are new keys in a row");
                newest = draw.index;
            } else {
                assert!(draw.index <= newest, "a read before its insert");
                reads += 1;
                recent += u32::from(newest - draw.index < 100);
            }
        }
        assert!(newest < tape.index_count());
        let share = f64::from(recent) / f64::from(reads);
        assert!(
            (0.45..0.65).contains(&share),
            "{share} of the reads are of the 100 newest"
        );
    }

    #[test]
    fn same_seed_same_tape_other_client_other_tape() {
        let draws = |client_index| {
            let mut tape = Tape::new(&TapeOptions {
                client_index,
                client_count: 2,
                ..options("a", Popularity::Uniform)
            });
            (0..1000).map(|_| tape.draw()).collect::<Vec<_>>()
        };
        assert_eq!(draws(0), draws(0));
        assert_ne!(draws(0), draws(1));
    }

    #[test]
    fn uniform_laps_differ_and_stay_inside() {
        let mut tape = Tape::new(&TapeOptions {
            entry_count: 64,
            ..options("c", Popularity::Uniform)
        });
        let seen: BTreeSet<u32> = (0..64 * 50).map(|_| tape.draw().index).collect();
        assert!(seen.len() > 64 * 40, "{}", seen.len());
        assert!(seen.iter().all(|&i| i < 10_000));
    }
}
