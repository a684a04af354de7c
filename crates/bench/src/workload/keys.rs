//! [`KeyText`]: a unique, printable key from an index, in a few nanoseconds.
//!
//! A key is the hexadecimal text of a bijective mix of its index: 16 digits, or as many as the key has bytes
//! if it has fewer; longer keys are padded. Neighbouring indices have unrelated keys.

use drover_kv::KEY_BYTES_MAX;

/// Hexadecimal digits of a 64-bit word.
const DIGITS: usize = 16;

/// Why keys of a size cannot be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Not a key size.
    #[error("a key has 1 to {KEY_BYTES_MAX} bytes, not {bytes}")]
    Size {
        /// As asked for.
        bytes: usize,
    },
    /// More keys than texts of that size.
    #[error("there are no {count} different keys of {bytes} bytes (hexadecimal digits)")]
    TooMany {
        /// Keys asked for.
        count: u64,
        /// Their size.
        bytes: usize,
    },
}

/// Makes keys of one size. Cheap to clone; one per client thread.
#[derive(Clone, Debug)]
pub struct KeyText {
    text: [u8; KEY_BYTES_MAX],
    bytes: usize,
    salt: u64,
}

impl KeyText {
    /// Keys of `bytes` bytes, `count` of them different; `seed` decides which.
    pub fn new(bytes: usize, count: u64, seed: u64) -> Result<KeyText, KeyError> {
        if !(1..=KEY_BYTES_MAX).contains(&bytes) {
            return Err(KeyError::Size { bytes });
        }
        if bytes < DIGITS && count > 1 << (4 * bytes) {
            return Err(KeyError::TooMany { count, bytes });
        }
        Ok(KeyText {
            text: [b'.'; KEY_BYTES_MAX],
            bytes,
            salt: drover_base::mix(seed),
        })
    }

    /// Bytes of every key.
    pub fn key_bytes(&self) -> usize {
        self.bytes
    }

    /// The key of `index`, valid until the next call. About 4 ns.
    #[inline]
    pub fn key(&mut self, index: u64) -> &[u8] {
        if self.bytes >= DIGITS {
            let word = drover_base::mix(index ^ self.salt);
            self.text[..8].copy_from_slice(&hex8((word >> 32) as u32));
            self.text[8..DIGITS].copy_from_slice(&hex8(word as u32));
        } else {
            self.short_key(index);
        }
        &self.text[..self.bytes]
    }

    #[cold]
    fn short_key(&mut self, index: u64) {
        let word = super::tape::scatter(index, 4 * self.bytes as u32, self.salt);
        let mut digits = [0; DIGITS];
        digits[..8].copy_from_slice(&hex8((word >> 32) as u32));
        digits[8..].copy_from_slice(&hex8(word as u32));
        self.text[..self.bytes].copy_from_slice(&digits[DIGITS - self.bytes..]);
    }
}

/// The 8 hexadecimal digits of `word`, all at once: one digit per byte of a 64-bit word.
#[inline]
fn hex8(word: u32) -> [u8; 8] {
    let mut x = u64::from(word);
    x = (x | x << 16) & 0x0000_ffff_0000_ffff;
    x = (x | x << 8) & 0x00ff_00ff_00ff_00ff;
    x = (x | x << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    // Digits above 9 carry into bit 4 when 6 is added: 1 where a letter is wanted.
    let letters = ((x + 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101;
    (x + 0x3030_3030_3030_3030 + letters * 0x27).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn digits_are_those_of_the_standard_formatter() {
        for word in [0, 1, 0x1234_abcd, 0xffff_ffff, 0x9a9a_0f0f, 0x8000_0000] {
            assert_eq!(&hex8(word), format!("{word:08x}").as_bytes());
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
