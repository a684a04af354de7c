//! XXH3 with 128 bits of output under a secret derived from our seed.
//!
//! Keys of 16 bytes, the usual length, are hashed here, from two words in registers. The `twox-hash` crate hashes all
//! other lengths and is the oracle of the test.
//! Source: Y. Collet, "XXH3", the specification and reference code of xxHash (BSD-2-Clause; nothing copied).

use crate::mix;
use twox_hash::XxHash3_128;

/// Bytes of a secret: the algorithm's default size.
const SECRET_BYTES: usize = 192;

const PRIME32_2: u64 = 0x85eb_ca77;
const PRIME64_1: u64 = 0x9e37_79b1_85eb_ca87;
const PRIME64_2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const PRIME_MX1: u64 = 0x1656_6791_9e37_79f9;

/// Secret of the keyed hash: as many bytes as the algorithm mixes in.
#[derive(Clone, Debug)]
pub(crate) struct Secret {
    bytes: [u8; SECRET_BYTES],
    /// XORed into the low word of inputs of 9 to 16 bytes.
    flip_low: u64,
    flip_high: u64,
}

impl Secret {
    /// Stretches two words into a secret.
    pub(crate) fn new(k0: u64, k1: u64) -> Secret {
        let mut bytes = [0; SECRET_BYTES];
        let (mut a, mut b) = (k0, k1);
        for word in bytes.as_chunks_mut::<8>().0 {
            (a, b) = (mix(a ^ PRIME64_1), mix(b.wrapping_add(PRIME64_2)));
            *word = (a ^ b.rotate_left(32)).to_le_bytes();
        }
        let words = bytes.as_chunks::<8>().0;
        let [low_a, low_b, high_a, high_b] = [4, 5, 6, 7].map(|i| u64::from_le_bytes(words[i]));
        Secret {
            bytes,
            flip_low: low_a ^ low_b,
            flip_high: high_a ^ high_b,
        }
    }

    /// The hash of 16 bytes, given as two little-endian words.
    #[inline(always)]
    pub(crate) fn of_words(&self, [first, last]: [u64; 2]) -> u128 {
        let product = u128::from(first ^ last ^ self.flip_low) * u128::from(PRIME64_1);
        let last = last ^ self.flip_high;
        let high = ((product >> 64) as u64)
            .wrapping_add(last)
            .wrapping_add((last & 0xffff_ffff) * (PRIME32_2 - 1));
        let low = (product as u64).wrapping_add(15 << 54) ^ high.swap_bytes();
        let product = u128::from(low) * u128::from(PRIME64_2);
        let high = ((product >> 64) as u64).wrapping_add(high.wrapping_mul(PRIME64_2));
        u128::from(avalanche(high)) << 64 | u128::from(avalanche(product as u64))
    }

    /// The hash of any bytes.
    pub(crate) fn of(&self, bytes: &[u8]) -> u128 {
        XxHash3_128::oneshot_with_secret(&self.bytes, bytes).expect("a secret of the usual size")
    }
}

#[inline(always)]
fn avalanche(mut word: u64) -> u64 {
    word ^= word >> 37;
    word = word.wrapping_mul(PRIME_MX1);
    word ^ word >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_hash_as_the_bytes_they_stand_for() {
        let mut rng = crate::Rng::new(3, 0, 0);
        for _ in 0..if cfg!(miri) { 20 } else { 2000 } {
            let secret = Secret::new(rng.next_u64(), rng.next_u64());
            let words = [rng.next_u64(), rng.next_u64()];
            let bytes = [words[0].to_le_bytes(), words[1].to_le_bytes()].concat();
            assert_eq!(secret.of_words(words), secret.of(&bytes));
        }
    }

    #[test]
    fn secrets_differ_in_every_word() {
        let secrets = [
            Secret::new(1, 2),
            Secret::new(1, 3),
            Secret::new(2, 2),
            Secret::new(2, 1),
        ];
        for (i, a) in secrets.iter().enumerate() {
            for b in &secrets[..i] {
                let same = |(x, y): (&[u8; 8], &[u8; 8])| x == y;
                let (a, b) = (a.bytes.as_chunks().0, b.bytes.as_chunks().0);
                assert_eq!(a.iter().zip(b).filter(|&pair| same(pair)).count(), 0);
            }
        }
    }

    #[test]
    fn all_lengths_and_bits_matter() {
        let secret = Secret::new(7, 8);
        let longest = if cfg!(miri) { 40 } else { 255 };
        let mut seen = std::collections::BTreeSet::new();
        for len in 0..=longest {
            let mut bytes = vec![0; len];
            assert!(seen.insert(secret.of(&bytes)));
            for bit in 0..len * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert!(seen.insert(secret.of(&bytes)), "length {len}, bit {bit}");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }
}
