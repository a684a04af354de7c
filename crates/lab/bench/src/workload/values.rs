//! [`Values`]: generates a value's bytes from key index and version, and verifies bytes read.
//!
//! ```text
//! word 0      mix(key) ^ version          (little-endian; with the key it reveals the version)
//! word i > 0  mix(key ^ version * odd) * (2 i + 1)
//! rest        the low bytes of the next word
//! ```
//! A value of fewer than 8 bytes holds the low bytes of mix(key) only.

use drover_base::mix;

const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Makes the bytes of a value from its key's index and a version, and checks bytes that were read. One per client
/// thread.
#[derive(Clone, Debug)]
pub struct Values {
    bytes_min: usize,
    /// Number of sizes above the minimum.
    spread: u64,
    buffer: Vec<u8>,
}

impl Values {
    /// Prepares values of `bytes_min` to `bytes_max` bytes; the size of a key's value depends on the key only.
    ///
    /// # Panics
    /// If `bytes_min` is above `bytes_max`.
    pub fn new(bytes_min: usize, bytes_max: usize) -> Values {
        assert!(bytes_min <= bytes_max, "{bytes_min} > {bytes_max}");
        Values {
            bytes_min,
            spread: (bytes_max - bytes_min) as u64,
            buffer: vec![0; bytes_max],
        }
    }

    /// Maximum size of a value, bytes.
    pub fn bytes_max(&self) -> usize {
        self.buffer.len()
    }

    /// Size of the value of key `index`, bytes.
    #[inline]
    pub fn len_of(&self, index: u64) -> usize {
        if self.spread == 0 {
            return self.bytes_min;
        }
        let pick = (u128::from(mix(!index)) * u128::from(self.spread + 1)) >> 64;
        self.bytes_min + pick as usize
    }

    /// Makes the value of key `index` at `version`, valid until the next call. About 1 ns per 8 bytes. Values of fewer
    /// than 8 bytes do not depend on the version.
    #[inline]
    pub fn value(&mut self, index: u64, version: u64) -> &[u8] {
        let len = self.len_of(index);
        let out = &mut self.buffer[..len];
        let mut words = Words::new(index, version);
        let (chunks, rest) = out.as_chunks_mut();
        for chunk in chunks {
            *chunk = words.next().to_le_bytes();
        }
        if !rest.is_empty() {
            let tail = if len < 8 { mix(index) } else { words.next() }.to_le_bytes();
            rest.copy_from_slice(&tail[..rest.len()]);
        }
        out
    }

    /// Whether `bytes` is the complete value of key `index` at any version. A value of 8 bytes holds only the version,
    /// so if the key's value has that size, any 8 bytes pass.
    pub fn verify(&self, index: u64, bytes: &[u8]) -> bool {
        if bytes.len() != self.len_of(index) {
            return false;
        }
        let Some((first, _)) = bytes.split_first_chunk::<8>() else {
            return *bytes == mix(index).to_le_bytes()[..bytes.len()];
        };
        let version = u64::from_le_bytes(*first) ^ mix(index);
        let mut words = Words::new(index, version);
        bytes
            .chunks(8)
            .all(|chunk| *chunk == words.next().to_le_bytes()[..chunk.len()])
    }
}

/// Successive words: odd multiples by addition instead of multiplication.
struct Words {
    next: u64,
    after: u64,
    step: u64,
}

impl Words {
    #[inline]
    fn new(index: u64, version: u64) -> Words {
        let base = mix(index ^ version.wrapping_mul(SPREAD));
        Words {
            next: mix(index) ^ version,
            after: base.wrapping_mul(3),
            step: base.wrapping_mul(2),
        }
    }

    #[inline]
    fn next(&mut self) -> u64 {
        let word = self.next;
        self.next = self.after;
        self.after = self.after.wrapping_add(self.step);
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_value_verifies_and_a_damaged_one_does_not(
            index: u64, version in 0u64..1 << 40, len in 9usize..100, at: usize, flip in 1u8..,
        ) {
            let mut values = Values::new(len, len);
            let mut bytes = values.value(index, version).to_vec();
            prop_assert!(values.verify(index, &bytes));
            prop_assert!(!values.verify(index, &bytes[..len - 1]));
            // The bytes after the version word identify the key: 9 bytes have only one, which matches by chance once in
            // 256.
            prop_assert!(len < 16 || !values.verify(index ^ 1, &bytes));
            let at = at % len;
            bytes[at] ^= flip;
            // One damaged byte of the version word changes all the others, and vice versa.
            prop_assert!((at < 8 && len < 16) || !values.verify(index, &bytes));
        }

        #[test]
        fn short_and_ranged_sizes(index: u64, version: u64, min in 0usize..12, more in 0usize..40) {
            let mut values = Values::new(min, min + more);
            let bytes = values.value(index, version).to_vec();
            prop_assert!((min..=min + more).contains(&bytes.len()));
            prop_assert!(values.verify(index, &bytes));
        }
    }

    #[test]
    fn words_are_those_of_the_definition() {
        let (index, version) = (7, 1 << 40 | 3);
        let base = mix(index ^ SPREAD.wrapping_mul(version));
        let mut words = Words::new(index, version);
        assert_eq!(words.next(), mix(index) ^ version);
        assert!((1..20).all(|i| words.next() == base.wrapping_mul(2 * i + 1)));
    }

    #[test]
    fn a_mixture_of_two_versions_is_noticed() {
        let mut values = Values::new(32, 32);
        let mut torn = values.value(7, 1).to_vec();
        torn[16..].copy_from_slice(&values.value(7, 2).to_vec()[16..]);
        assert!(!values.verify(7, &torn));
    }

    #[test]
    fn all_sizes_of_a_range_occur() {
        let values = Values::new(10, 13);
        let mut seen = [0; 4];
        for index in 0..4000 {
            seen[values.len_of(index) - 10] += 1;
        }
        assert!(seen.iter().all(|&n| n > 800), "{seen:?}");
    }
}
