//! [`KeyHash`]: the 128-bit keyed hash of a key and the disjoint bit fields cut from it.
//!
//! ```text
//! bit 127      112               64 63                16 15      0
//!     | partition |    unused      |      bucket        |  tag   |
//! ```
//! Of the bucket's bits the upper ones decide, as many as a table has buckets for; a table of buckets in a fixed number
//! that is a power of two takes bits 16-47. The fields MUST be disjoint: if partition and bucket shared bits, a partition would only ever use
//! one in `partition_count` of its buckets. *(our choice of bits; the rule is `[MICA]`'s)*

mod hasher;
mod seed;
#[cfg(all(test, not(loom)))]
mod statistics;

pub use hasher::{KeyHasher, key_words};
pub use seed::{HashKind, HashSeed};

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

    /// The hash whose bits are those of `bits`.
    #[inline(always)]
    const fn from_bits(bits: u128) -> KeyHash {
        KeyHash {
            low: bits as u64,
            high: (bits >> 64) as u64,
        }
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
}
