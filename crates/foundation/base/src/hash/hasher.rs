//! [`KeyHasher`]: hashes keys under one seed, by the hash of its kind.

use super::{HashKind, HashSeed, KeyHash};
use crate::xxh3::Secret;
use drover_aes::{Cmac, Instructions, Portable};
use std::fmt;

/// Hashes keys under one [`HashSeed`]. `Debug` does not print the secret.
#[derive(Clone)]
pub struct KeyHasher(Keyed);

/// What is derived from a seed. A process has few hashers, all of one kind, so that the branch on it is always predicted.
#[derive(Clone)]
enum Keyed {
    Aes(Cmac<Instructions>),
    /// The same hash where the processor has no instructions for it: a hundred times slower.
    AesPortable(Box<Cmac<Portable>>),
    Xxh3(Secret),
}

impl Keyed {
    fn new(seed: HashSeed) -> Keyed {
        let (k0, k1) = seed.halves();
        let key = u128::from(k1) << 64 | u128::from(k0);
        match (seed.kind(), Instructions::new(key)) {
            (HashKind::Xxh3, _) => Keyed::Xxh3(Secret::new(k0, k1)),
            (HashKind::Aes, Some(cipher)) => Keyed::Aes(Cmac::new(cipher)),
            (HashKind::Aes, None) => Keyed::AesPortable(Box::new(Cmac::new(Portable::new(key)))),
        }
    }
}

impl fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyHasher")
            .field("kind", &self.kind())
            .finish_non_exhaustive()
    }
}

impl KeyHasher {
    pub(super) fn new(seed: HashSeed) -> KeyHasher {
        KeyHasher(Keyed::new(seed))
    }

    /// Kind of the hash.
    pub fn kind(&self) -> HashKind {
        match self.0 {
            Keyed::Aes(_) | Keyed::AesPortable(_) => HashKind::Aes,
            Keyed::Xxh3(_) => HashKind::Xxh3,
        }
    }

    /// The hash of `key`, of any length. A few nanoseconds for up to 24 bytes; with AES, about 12 ns for 64 bytes and 100 ns
    /// for 250.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        match key_words(key) {
            Some(words) => self.hash_words(words),
            None => self.hash_bytes(key),
        }
    }

    /// The hash of a key of 16 bytes, given as the result of [`key_words`]; the same as that of
    /// [`hash`](KeyHasher::hash). A few nanoseconds.
    #[inline(always)]
    pub fn hash_words(&self, [first, last]: [u64; 2]) -> KeyHash {
        let bits = match &self.0 {
            Keyed::Aes(mac) => mac.of_block(block(first, last)),
            Keyed::Xxh3(secret) => secret.of_words([first, last]),
            Keyed::AesPortable(mac) => portable_of_words(mac, block(first, last)),
        };
        KeyHash::from_bits(bits)
    }

    fn hash_bytes(&self, key: &[u8]) -> KeyHash {
        KeyHash::from_bits(match &self.0 {
            Keyed::Aes(mac) => mac.of(key),
            Keyed::Xxh3(secret) => secret.of(key),
            Keyed::AesPortable(mac) => mac.of(key),
        })
    }
}

#[inline(always)]
fn block(first: u64, last: u64) -> u128 {
    u128::from(last) << 64 | u128::from(first)
}

/// Out of line, so that callers contain the usual ways only.
#[cold]
fn portable_of_words(mac: &Cmac<Portable>, block: u128) -> u128 {
    mac.of_block(block)
}

/// Converts a key of 16 bytes, the usual length, to two little-endian words, which stay in registers. Returns `None`
/// for other lengths.
#[inline(always)]
pub fn key_words(key: &[u8]) -> Option<[u64; 2]> {
    let words = <&[u8; 16]>::try_from(key).ok()?.as_chunks::<8>().0;
    Some([u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1])])
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALVES: (u64, u64) = (0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);

    /// Hashes are sent and stored: clients, servers and saved images of every version must compute the same ones.
    #[test]
    fn the_hashes_are_what_they_have_always_been() {
        let hashed = |kind, key: &[u8]| HashSeed::of(kind, HALVES.0, HALVES.1).hash(key);
        let xxh3 = KeyHash {
            low: 0x209d_8d7b_f7b2_21eb,
            high: 0x9ef1_001e_42d4_6a88,
        };
        assert_eq!(hashed(HashKind::Xxh3, b"0123456789abcdef"), xxh3);
        assert_eq!(HashSeed::new(HALVES.0, HALVES.1).hash(b"0123456789abcdef"), xxh3);
        // The CMAC of drover-aes, whose own tests compare it with published vectors.
        let key = u128::from(HALVES.1) << 64 | u128::from(HALVES.0);
        let mac = Cmac::new(Portable::new(key));
        for key in [&b"0123456789abcdef"[..], b"", b"user42", &[7; 250]] {
            assert_eq!(hashed(HashKind::Aes, key), KeyHash::from_bits(mac.of(key)));
        }
    }

    #[test]
    fn both_ways_to_compute_aes_give_the_same() {
        let seed = HashSeed::of(HashKind::Aes, 3, 4);
        let key = u128::from(4u64) << 64 | 3;
        let portable = KeyHasher(Keyed::AesPortable(Box::new(Cmac::new(Portable::new(key)))));
        for len in 0..if cfg!(miri) { 33 } else { 255 } {
            let key: Vec<u8> = (0..len).map(|i: u8| i.wrapping_mul(7)).collect();
            assert_eq!(seed.hash(&key), portable.hash(&key), "{len} bytes");
        }
    }

    #[test]
    fn debug_output_does_not_contain_the_secret() {
        let seed = HashSeed::new(1, 2);
        assert_eq!(format!("{seed:?}"), "HashSeed { kind: Xxh3, .. }");
        assert_eq!(format!("{:?}", seed.hasher()), "KeyHasher { kind: Xxh3, .. }");
        let seed = HashSeed::of(HashKind::Aes, 1, 2);
        assert_eq!(format!("{:?}", seed.hasher()), "KeyHasher { kind: Aes, .. }");
    }
}
