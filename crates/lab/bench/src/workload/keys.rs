//! [`KeyText`]: a unique, printable key from an index, in a few nanoseconds.
//!
//! A key is the hexadecimal text of a bijective mix of its index: 16 digits, or as many as the key has bytes if it has
//! fewer; longer keys are padded. Neighbouring indices have unrelated keys.

use drover_kv::KEY_BYTES_MAX;

/// Hexadecimal digits of a 64-bit word.
const DIGITS: usize = 16;

/// Reason why keys of the requested size cannot be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The key size is 0 or above [`KEY_BYTES_MAX`].
    #[error("a key has 1 to {KEY_BYTES_MAX} bytes, not {bytes}")]
    Size {
        /// Requested bytes per key.
        bytes: usize,
    },
    /// There are fewer different keys of this size than requested.
    #[error("there are no {count} different keys of {bytes} bytes (hexadecimal digits)")]
    TooMany {
        /// Number of requested keys.
        count: u64,
        /// Bytes per key.
        bytes: usize,
    },
}

/// Makes the text of a key from its index; all keys have one size. Cheap to clone; one per client thread.
#[derive(Clone, Debug)]
pub struct KeyText {
    /// Buffer of the size of a key.
    text: Box<[u8]>,
    salt: u64,
}

impl KeyText {
    /// Prepares keys of `bytes` bytes each. Different indices below `count` have different keys. With another `seed`
    /// the same index has another key.
    ///
    /// # Errors
    /// The size is 0 or above [`KEY_BYTES_MAX`], or too small for `count` different keys.
    pub fn new(bytes: usize, count: u64, seed: u64) -> Result<KeyText, KeyError> {
        if !(1..=KEY_BYTES_MAX).contains(&bytes) {
            return Err(KeyError::Size { bytes });
        }
        if bytes < DIGITS && count > 1 << (4 * bytes) {
            return Err(KeyError::TooMany { count, bytes });
        }
        Ok(KeyText {
            text: vec![b'.'; bytes].into(),
            salt: drover_base::mix(seed),
        })
    }

    /// Size of every key, bytes.
    pub fn key_bytes(&self) -> usize {
        self.text.len()
    }

    /// The key of `index`, valid until the next call. About 3 ns.
    #[inline(always)]
    pub fn key(&mut self, index: u64) -> &[u8] {
        match self.text.first_chunk_mut() {
            Some(digits) => *digits = hex(drover_base::mix(index ^ self.salt)),
            None => self.short_key(index),
        }
        &self.text
    }

    #[cold]
    fn short_key(&mut self, index: u64) {
        let bytes = self.text.len();
        let word = super::tape::scatter(index, 4 * bytes as u32, self.salt);
        self.text.copy_from_slice(&hex(word)[DIGITS - bytes..]);
    }
}

/// The hexadecimal digits of `word`, computed together: the hash of the key reads it by words, and would stall on
/// digits stored one by one.
#[inline(always)]
fn hex(word: u64) -> [u8; DIGITS] {
    let mut out = [0; DIGITS];
    let (high, low) = out.split_at_mut(DIGITS / 2);
    let [first, second] = drover_mem::hex_digits(word);
    high.copy_from_slice(&first.to_le_bytes());
    low.copy_from_slice(&second.to_le_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn digits_are_those_of_the_standard_formatter() {
        for word in [0, 1, 0x0123_4567_89ab_cdef, u64::MAX, 0x9a9a_0f0f_8000_0000] {
            assert_eq!(&hex(word), format!("{word:016x}").as_bytes());
        }
    }

    #[test]
    fn keys_are_unique_and_of_the_size_asked_for() {
        for bytes in [4, 7, 15, 16, 17, 30, 250] {
            let mut keys = KeyText::new(bytes, 60_000, 9).expect("size");
            let all: BTreeSet<Vec<u8>> = (0..60_000).map(|i| keys.key(i).to_vec()).collect();
            assert_eq!(all.len(), 60_000, "size {bytes}");
            assert!(
                all.iter()
                    .all(|k| k.len() == bytes && k.is_ascii() && !k.contains(&b' '))
            );
        }
    }

    #[test]
    fn the_seed_decides() {
        let key = |seed| KeyText::new(16, 10, seed).expect("size").key(3).to_vec();
        assert_eq!(key(1), key(1));
        assert_ne!(key(1), key(2));
    }

    #[test]
    fn impossible_sizes_are_refused() {
        assert_eq!(KeyText::new(0, 1, 0).err(), Some(KeyError::Size { bytes: 0 }));
        assert_eq!(KeyText::new(251, 1, 0).err(), Some(KeyError::Size { bytes: 251 }));
        let too_many = KeyError::TooMany { count: 257, bytes: 2 };
        assert_eq!(KeyText::new(2, 257, 0).err(), Some(too_many));
        assert!(KeyText::new(2, 256, 0).is_ok());
    }
}
