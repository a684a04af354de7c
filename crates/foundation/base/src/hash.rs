//! [`KeyHash`]: the 128-bit keyed hash of a key and the disjoint bit fields cut from it.
//!
//! ```text
//! bit 127      112               64 63                16 15      0
//!     | partition |    unused      |      bucket        |  tag   |
//! ```
//! Of the bucket's bits the upper ones decide, as many as a table has buckets for; a table of buckets in a fixed number
//! that is a power of two takes bits 16-47. The fields MUST be disjoint: if partition and bucket shared bits, a partition would only ever use
//! one in `partition_count` of its buckets. *(our choice of bits; the rule is `[MICA]`'s)*

use crate::xxh3::Secret;
use std::fmt;

/// The secret that keys the hash, so that a user who does not know it cannot craft keys that flood one bucket. Clients
/// of drover receive it, because they hash keys themselves. `Debug` does not print it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashSeed {
    k0: u64,
    k1: u64,
}

impl fmt::Debug for HashSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HashSeed").finish_non_exhaustive()
    }
}

impl HashSeed {
    /// Creates a seed from its two halves, both secret.
    pub const fn new(k0: u64, k1: u64) -> HashSeed {
        HashSeed { k0, k1 }
    }

    /// The halves `(k0, k1)` given to [`new`](HashSeed::new), to send the seed to a client or to store it.
    pub const fn halves(self) -> (u64, u64) {
        (self.k0, self.k1)
    }

    /// The hash of `key`, of any length. Derives the hasher anew each time: to hash many keys, keep a
    /// [`hasher`](HashSeed::hasher).
    pub fn hash(self, key: &[u8]) -> KeyHash {
        self.hasher().hash(key)
    }

    /// Creates a hasher for this seed.
    pub fn hasher(self) -> KeyHasher {
        KeyHasher {
            secret: Secret::new(self.k0, self.k1),
        }
    }
}

/// Hashes keys under one [`HashSeed`], with XXH3-128 and a secret stretched from the seed (`docs/decisions/0008`).
/// `Debug` does not print the secret.
#[derive(Clone)]
pub struct KeyHasher {
    secret: Secret,
}

impl fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyHasher").finish_non_exhaustive()
    }
}

impl KeyHasher {
    /// The hash of `key`, of any length. A few nanoseconds for 16 bytes; about 20 ns for other short keys.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        let (low, high) = match key_words(key) {
            Some(words) => self.secret.of_words(words),
            None => self.secret.of(key),
        };
        KeyHash { low, high }
    }

    /// The hash of a key of 16 bytes, given as the result of [`key_words`]; the same as that of
    /// [`hash`](KeyHasher::hash). A few nanoseconds and no branch.
    #[inline(always)]
    pub fn hash_words(&self, key: [u64; 2]) -> KeyHash {
        let (low, high) = self.secret.of_words(key);
        KeyHash { low, high }
    }
}

/// Converts a key of 16 bytes, the usual length, to two little-endian words, which stay in registers. Returns `None`
/// for other lengths.
#[inline(always)]
pub fn key_words(key: &[u8]) -> Option<[u64; 2]> {
    let words = <&[u8; 16]>::try_from(key).ok()?.as_chunks::<8>().0;
    Some([u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1])])
}

/// The 128-bit hash of a key under one [`HashSeed`]. Equal keys have equal hashes. Items of a hash-only format store
/// this hash in place of the key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct KeyHash {
    /// Bits 0-63 of the hash: tag in bits 0-15, bucket in the others.
    pub low: u64,
    /// Bits 64-127 of the hash: partition in bits 112-127, the top 16 of this word.
    pub high: u64,
}

impl KeyHash {
    /// Index (from 0) of the partition that owns the key: bits 112-127, scaled to `partition_count`, which is 1 to
    /// 65,536 (checked only in debug builds).
    #[inline]
    pub fn partition_index(self, partition_count: usize) -> usize {
        debug_assert!(partition_count > 0 && partition_count <= 1 << 16);
        // A multiplication spreads 16 bits over any count as evenly as a remainder, without a division.
        (((self.high >> 48) as usize) * partition_count) >> 16
    }

    /// Index of the key's bucket in a table of `mask` + 1 buckets: bits 16-47 of the hash, ANDed with `mask`. The
    /// number of buckets is a power of two up to 2^32.
    #[inline]
    pub fn bucket_index(self, mask: u64) -> u64 {
        ((self.low >> 16) & 0xffff_ffff) & mask
    }

    /// The bits that choose the key's bucket in a table of any number of buckets: bits 0-63 of the hash, of which the
    /// upper ones decide. Bucket i of n is that of the i-th of n equal shares of the 2^64 values.
    #[inline]
    pub fn bucket_bits(self) -> u64 {
        self.low
    }

    /// The tag, never 0: bits 0-15 of the hash, or 1 if they are 0, because an all-zero slot word means empty.
    #[inline]
    pub fn tag(self) -> u16 {
        let tag = self.low as u16;
        if tag == 0 { 1 } else { tag }
    }

    /// The 16 bytes of the wire format: low word then high word, little-endian.
    #[inline]
    pub fn to_bytes(self) -> [u8; 16] {
        let mut out = [0; 16];
        out[..8].copy_from_slice(&self.low.to_le_bytes());
        out[8..].copy_from_slice(&self.high.to_le_bytes());
        out
    }

    /// The inverse of [`to_bytes`](KeyHash::to_bytes).
    #[inline]
    pub fn from_bytes(bytes: [u8; 16]) -> KeyHash {
        let (low, high) = bytes.split_at(8);
        KeyHash {
            low: u64::from_le_bytes(low.try_into().expect("8 bytes")),
            high: u64::from_le_bytes(high.try_into().expect("8 bytes")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hashes are sent and stored: clients, servers and saved images of every version must compute the same ones.
    #[test]
    fn the_hash_is_what_it_has_always_been() {
        let seed = HashSeed::new(0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);
        let want = KeyHash {
            low: 0x209d_8d7b_f7b2_21eb,
            high: 0x9ef1_001e_42d4_6a88,
        };
        assert_eq!(seed.hash(b"0123456789abcdef"), want);
    }

    #[test]
    fn debug_output_does_not_contain_the_secret() {
        let seed = HashSeed::new(1, 2);
        assert_eq!(format!("{seed:?}"), "HashSeed { .. }");
        assert_eq!(format!("{:?}", seed.hasher()), "KeyHasher { .. }");
    }

    #[test]
    fn fields_are_disjoint() {
        let tag = KeyHash { low: 0xffff, high: 0 };
        let bucket = KeyHash {
            low: 0xffff_ffff_0000,
            high: 0,
        };
        let partition = KeyHash {
            low: 0,
            high: 0xffff << 48,
        };
        assert_eq!(
            (tag.tag(), tag.bucket_index(u64::MAX), tag.partition_index(6)),
            (0xffff, 0, 0)
        );
        assert_eq!(
            (
                bucket.tag(),
                bucket.bucket_index(u64::MAX),
                bucket.partition_index(6)
            ),
            (1, 0xffff_ffff, 0)
        );
        assert_eq!(
            (
                partition.tag(),
                partition.bucket_index(u64::MAX),
                partition.partition_index(6)
            ),
            (1, 0, 5)
        );
    }

    #[test]
    #[cfg_attr(miri, ignore = "statistics want many keys")]
    fn partitions_are_even() {
        let seed = HashSeed::new(3, 4);
        let mut counts = [0u32; 7];
        for i in 0..70_000u32 {
            counts[seed.hash(&i.to_le_bytes()).partition_index(7)] += 1;
        }
        assert!(counts.iter().all(|&c| (9_500..10_500).contains(&c)), "{counts:?}");
    }
}
