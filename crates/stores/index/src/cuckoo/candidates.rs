//! [`Candidates`]: the entries that a key may be in.

use drover_base::{KeyHash, mix};

/// Maximum number of candidate entries of a key, which is stored in one of them: the 3 of 3-1 cuckoo hashing.
pub const CHOICES: usize = 3;

/// Odd constants, one per value derived from a hash: three entries and the fingerprint. *(our choice)*
const SALTS: [u64; CHOICES + 1] = [
    0x9e37_79b9_7f4a_7c15,
    0xc2b2_ae3d_27d4_eb4f,
    0x1656_67b1_9e37_79f9,
    0xd6e8_feb8_6659_fd93,
];

fn draw(hash: KeyHash, which: usize) -> u64 {
    mix(hash.low.wrapping_mul(SALTS[which]) ^ mix(hash.high ^ SALTS[which]))
}

/// The entries of a cuckoo table that a key may be in: up to three different ones, in the order in which they are tried
/// and read. The server or partition of a key comes from the same hash but is independent of its candidates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidates {
    places: [u64; CHOICES],
    count: u8,
}

impl Candidates {
    /// Computes the candidates of the key with `hash` in a table of `mask + 1` entries, a power of two.
    pub fn new(hash: KeyHash, mask: u64) -> Candidates {
        let mut found = Candidates {
            places: [0; CHOICES],
            count: 0,
        };
        for which in 0..CHOICES {
            let place = draw(hash, which) & mask;
            // Choices that coincide are one: the entry is not read, nor moved to, twice.
            if !found.as_slice().contains(&place) {
                found.places[usize::from(found.count)] = place;
                found.count += 1;
            }
        }
        found
    }

    /// Indexes of the entries, first choice first: one to three, all different.
    #[inline]
    pub fn as_slice(&self) -> &[u64] {
        &self.places[..usize::from(self.count)]
    }

    /// Position (0 to 2) of entry `index` among the candidates; `None` if it is not one.
    pub fn choice_of(&self, index: u64) -> Option<u8> {
        self.as_slice()
            .iter()
            .position(|place| *place == index)
            .map(|at| at as u8)
    }
}

/// 32 bits derived from `hash` and independent of the [`Candidates`]: an entry with another fingerprint is not the
/// key's; one with the same fingerprint may still be another key's.
#[inline]
pub fn fingerprint(hash: KeyHash) -> u32 {
    draw(hash, CHOICES) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_base::HashSeed;

    fn hashes(count: u32) -> impl Iterator<Item = KeyHash> {
        (0..count).map(|i| HashSeed::new(1, 2).hash(&i.to_le_bytes()))
    }

    /// Pilaf's released code chose the server by the hash that also chose the first place: with four servers and a
    /// table whose size is a multiple of four, a server used a quarter of its table as first places.
    #[test]
    #[cfg_attr(miri, ignore = "statistics want many keys")]
    fn pilaf_a_shard_uses_its_whole_table() {
        let (shards, entries) = (4, 256);
        for shard in 0..shards {
            let mut used = vec![0u32; entries as usize];
            for hash in hashes(40_000).filter(|hash| hash.partition_index(shards) == shard) {
                used[Candidates::new(hash, entries - 1).as_slice()[0] as usize] += 1;
            }
            let (least, most) = (
                used.iter().min().expect("entries"),
                used.iter().max().expect("entries"),
            );
            assert!(
                *least > 10 && *most < 80,
                "{least} to {most} keys a place, 39 on average"
            );
        }
    }

    /// Pilaf's released code detected only during a walk that a key's choices coincided.
    #[test]
    fn pilaf_places_that_coincide_are_one() {
        let mut counts = [0; CHOICES + 1];
        for hash in hashes(500) {
            let candidates = Candidates::new(hash, 3);
            let places = candidates.as_slice();
            counts[places.len()] += 1;
            for (at, place) in places.iter().enumerate() {
                assert!(*place <= 3 && !places[..at].contains(place));
                assert_eq!(candidates.choice_of(*place), Some(at as u8));
            }
        }
        assert!(counts[1] > 0 && counts[2] > 0 && counts[3] > 0, "{counts:?}");
    }

    /// A fingerprint that followed from the candidates could not distinguish keys of the same entry.
    #[test]
    #[cfg_attr(miri, ignore = "statistics want many keys")]
    fn fingerprints_differ_within_a_place() {
        let mut seen = std::collections::BTreeSet::new();
        let mut count = 0;
        for hash in hashes(20_000).filter(|hash| Candidates::new(*hash, 15).as_slice()[0] == 7) {
            seen.insert(fingerprint(hash));
            count += 1;
        }
        assert!(count > 1000 && seen.len() == count, "{} of {count}", seen.len());
    }
}
