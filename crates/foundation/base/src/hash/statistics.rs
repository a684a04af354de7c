//! That the fields of hashes are as even and as independent as chance would make them, whatever the structure of the keys,
//! and that floods for one seed are none for another.

use super::{HashKind, HashSeed, KeyHash};
use crate::Rng;
use proptest::prelude::*;

/// Keys of each family.
const KEYS: u32 = if cfg!(miri) { 256 } else { 1 << 16 };
/// Values of a field among which the keys are counted; few enough for many keys each.
const CELLS: u32 = if cfg!(miri) { 8 } else { 256 };
/// Fresh seeds of each test.
const SEEDS: u32 = if cfg!(miri) { 1 } else { 4 };
/// How uneven counts may be, in standard deviations. Chance gets there once in 10^10 times; a field that depends on
/// 8 bits of the key only is at 1,000 and more.
const UNEVEN: f64 = 8.0;
/// The same for the upper bits of XXH3, of which partitions are made, where keys of 16 bytes have equal halves: it mixes the
/// exclusive or of the halves with the seed, which is then the same for all of them. Of 1,500 seeds 64 were above 5, and the most
/// was 67: partitions have a sixth more or less than their share.
const UNEVEN_HALVES: f64 = 300.0;

/// Similar keys, as users and attackers have them: the i-th one.
type Family = (&'static str, fn(u32) -> Vec<u8>);

const HALVES: &str = "16 bytes with equal halves";
const PARTITION: &str = "partition";

const FAMILIES: [Family; 6] = [
    ("numbers of 4 bytes", |i| i.to_le_bytes().to_vec()),
    ("texts of 16 bytes", |i| format!("user:{i:011}").into_bytes()),
    (HALVES, |i| [u64::from(i).to_be_bytes(); 2].concat()),
    ("16 bytes of which the last change", |i| {
        (u128::from(i) << 112).to_le_bytes().to_vec()
    }),
    ("24 bytes of which the middle changes", |i| {
        [&[0; 10], &i.to_le_bytes()[..], &[0; 10]].concat()
    }),
    ("250 bytes of which the last change", |i| {
        [&[b'x'; 246], &i.to_le_bytes()[..]].concat()
    }),
];

/// A part of a hash, as a number below [`CELLS`].
type Field = (&'static str, fn(KeyHash) -> u32);

const FIELDS: [Field; 5] = [
    ("tag", |hash| u32::from(hash.tag()) % CELLS),
    ("bucket, lower bits", |hash| {
        hash.bucket_index(u64::from(CELLS) - 1) as u32
    }),
    ("bucket, upper bits", |hash| {
        (hash.bucket_bits() >> 56) as u32 % CELLS
    }),
    (PARTITION, |hash| hash.partition_index(CELLS as usize) as u32),
    // Even only if the three do not depend on each other.
    ("sum of tag, bucket and partition", |hash| {
        let (bucket, partition) = ((hash.bucket_bits() >> 40) as u32, (hash.high >> 48) as u32);
        (u32::from(hash.tag()) ^ bucket ^ partition) % CELLS
    }),
];

/// How far counts are from even: the chi-square statistic, less its mean, in standard deviations.
fn unevenness(values: impl Iterator<Item = u32>) -> f64 {
    let mut counts = [0u32; CELLS as usize];
    values.for_each(|value| counts[value as usize] += 1);
    let mean = f64::from(counts.iter().sum::<u32>()) / f64::from(CELLS);
    let squares = counts.iter().map(|&count| (f64::from(count) - mean).powi(2));
    let freedom = f64::from(CELLS - 1);
    (squares.sum::<f64>() / mean - freedom) / (2.0 * freedom).sqrt()
}

/// Keys that an attacker who knows `seed` finds, all of bucket 0 of `buckets`.
fn flood(seed: HashSeed, buckets: u64) -> impl Iterator<Item = [u8; 16]> {
    let hasher = seed.hasher();
    let keys = (0..).map(|i: u128| i.to_le_bytes());
    keys.filter(move |key| hasher.hash(key).bucket_index(buckets - 1) == 0)
}

#[test]
fn unevenness_notices_a_number_that_does_not_occur() {
    let mut rng = Rng::new(1, 0, 0);
    let mut draws = |cells: u32| unevenness((0..KEYS).map(|_| (rng.next_u64() % u64::from(cells)) as u32));
    assert!(draws(CELLS).abs() < UNEVEN);
    assert!(draws(CELLS / 2) > UNEVEN);
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 0, ..ProptestConfig::with_cases(SEEDS) })]

    #[test]
    fn fields_are_even_for_keys_of_every_structure(k0: u64, k1: u64) {
        for kind in HashKind::ALL {
            let hasher = HashSeed::of(kind, k0, k1).hasher();
            for (family, key) in FAMILIES {
                let hashes: Vec<KeyHash> = (0..KEYS).map(|i| hasher.hash(&key(i))).collect();
                for (field, of) in FIELDS {
                    let off = unevenness(hashes.iter().map(|&hash| of(hash)));
                    let most = match (kind, family, field) {
                        (HashKind::Xxh3, HALVES, PARTITION) => UNEVEN_HALVES,
                        _ => UNEVEN,
                    };
                    prop_assert!(off.abs() < most, "{kind}, {family}: {field} is off by {off}");
                }
            }
        }
    }

    #[test]
    fn a_flood_for_one_seed_is_none_for_another(known: [u64; 2], other: [u64; 2]) {
        for kind in HashKind::ALL {
            let [known, other] = [known, other].map(|[k0, k1]| HashSeed::of(kind, k0, k1));
            let buckets = u64::from(CELLS);
            let flood: Vec<[u8; 16]> = flood(known, buckets).take(4 * CELLS as usize).collect();
            let bucket = |seed: HashSeed| {
                let hasher = seed.hasher();
                flood.iter().map(move |key| hasher.hash(key).bucket_index(buckets - 1) as u32)
            };
            prop_assert!(unevenness(bucket(known)) > UNEVEN, "{kind}: the flood is none");
            let off = unevenness(bucket(other));
            prop_assert!(off.abs() < UNEVEN, "{kind}: under another seed it is off by {off}");
        }
    }
}
