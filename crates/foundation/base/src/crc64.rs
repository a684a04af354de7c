//! [`crc64`]: the checksum by which those who READ or poll memory distinguish whole bytes from torn ones.
//!
//! CRC-64 as in `[XZ]`: polynomial `0x42f0e1eba9ea3693` in its reflected form, initial value and final exclusive-or all
//! ones. It detects every burst of up to 64 bits, and the initial value makes the sum of zeros differ from zero, so
//! that unwritten memory is not taken for an entry. It is linear and has no key: it detects accidents, not forgeries.
//! *(`[Pilaf]`'s code uses the same polynomial; it builds its table for one bit order and applies it in the other,
//! which is no CRC: read in public code.)*
//!
//! It is written by hand because crate `crc` takes bytes only, whereas the copies of entries and records are words already,
//! and `crc64fast` pays off above some hundred bytes only.

/// The polynomial, bits reversed.
const POLYNOMIAL: u64 = 0xc96c_5795_d787_0f42;

/// Bytes processed at a time.
const STRIDE: usize = 8;

/// `TABLES[k][b]`: effect of byte `b` on the sum when `k` bytes follow it.
static TABLES: [[u64; 256]; STRIDE] = tables();

const fn tables() -> [[u64; 256]; STRIDE] {
    let mut tables = [[0; 256]; STRIDE];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            sum = (sum >> 1) ^ (POLYNOMIAL & (sum & 1).wrapping_neg());
            bit += 1;
        }
        tables[0][byte] = sum;
        byte += 1;
    }
    let mut after = 1;
    while after < STRIDE {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[after - 1][byte];
            tables[after][byte] = tables[0][(before & 0xff) as usize] ^ (before >> 8);
            byte += 1;
        }
        after += 1;
    }
    tables
}

/// CRC-64/XZ computed step by step, for bytes that are not contiguous: begin with `Crc64::default()`, add bytes in
/// order, read the [`sum`](Crc64::sum).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Crc64(u64);

impl Default for Crc64 {
    fn default() -> Crc64 {
        Crc64(u64::MAX)
    }
}

impl Crc64 {
    /// Continues the checksum with `bytes`. Costs about 0.7 ns per byte: eight table look-ups for eight bytes.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Crc64 {
        let (words, rest) = bytes.as_chunks::<STRIDE>();
        let whole = words
            .iter()
            .fold(self.0, |sum, word| fold(sum ^ u64::from_le_bytes(*word)));
        let byte = |sum: u64, byte: &u8| TABLES[0][((sum ^ u64::from(*byte)) & 0xff) as usize] ^ (sum >> 8);
        Crc64(rest.iter().fold(whole, byte))
    }

    /// Continues the checksum with the eight bytes of `word`, little-endian.
    #[must_use]
    pub fn word(self, word: u64) -> Crc64 {
        Crc64(fold(self.0 ^ word))
    }

    /// The checksum of all bytes so far.
    pub fn sum(self) -> u64 {
        !self.0
    }
}

/// Eight bytes, the lowest first.
#[inline]
fn fold(word: u64) -> u64 {
    let bytes = word.to_le_bytes();
    let mut sum = 0;
    for (at, byte) in bytes.into_iter().enumerate() {
        sum ^= TABLES[STRIDE - 1 - at][usize::from(byte)];
    }
    sum
}

/// CRC-64/XZ of `bytes`.
pub fn crc64(bytes: &[u8]) -> u64 {
    Crc64::default().bytes(bytes).sum()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// One bit at a time, as in the definition.
    fn plain(bytes: &[u8]) -> u64 {
        let mut sum = u64::MAX;
        for byte in bytes {
            sum ^= u64::from(*byte);
            for _ in 0..8 {
                sum = (sum >> 1) ^ if sum & 1 == 1 { POLYNOMIAL } else { 0 };
            }
        }
        !sum
    }

    #[test]
    fn the_test_vector() {
        assert_eq!(crc64(b"123456789"), 0x995d_c9bb_df19_39fa);
        assert_eq!(crc64(b""), 0);
    }

    /// Pilaf's released code avoided it with a start value of its own; a CRC that starts at zero accepts zeros.
    #[test]
    fn pilaf_zeros_do_not_sum_to_zero() {
        for len in 1..200 {
            assert_ne!(crc64(&vec![0; len]), 0, "{len} zero bytes");
        }
    }

    /// Pilaf's released code built its table for one bit order and used it in the other, and lost this guarantee.
    #[test]
    fn pilaf_every_burst_of_64_bits_is_found() {
        let (len, step) = if cfg!(miri) { (24, 37) } else { (80, 1) };
        let bytes: Vec<u8> = (0..len as u8).map(|i| i.wrapping_mul(37)).collect();
        let want = crc64(&bytes);
        for start in (0..bytes.len() * 8 - 64).step_by(step) {
            // The widest burst, and a few patterns within it; its first and last bit always flip.
            for pattern in [1, 1 | 1 << 63, u64::MAX, 0x8000_dead_beef_0001] {
                let mut torn = bytes.clone();
                for bit in (0..64).filter(|bit| pattern >> bit & 1 == 1) {
                    torn[(start + bit) / 8] ^= 1 << ((start + bit) % 8);
                }
                assert_ne!(crc64(&torn), want, "burst {pattern:#x} at bit {start}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]
        #[test]
        fn agrees_with_the_definition(bytes in proptest::collection::vec(any::<u8>(), 0..300), cut in 0usize..300) {
            let cut = cut.min(bytes.len());
            prop_assert_eq!(crc64(&bytes), plain(&bytes));
            let pieces = Crc64::default().bytes(&bytes[..cut]).bytes(&bytes[cut..]);
            prop_assert_eq!(pieces.sum(), plain(&bytes));
        }

        #[test]
        fn a_word_is_its_eight_bytes(word in any::<u64>()) {
            let sum = Crc64::default().word(word);
            prop_assert_eq!(sum, Crc64::default().bytes(&word.to_le_bytes()));
        }
    }
}
