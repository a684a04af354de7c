//! [`Cmac`]: AES-CMAC, a pseudorandom function of messages of any length. `[RFC4493]`
//!
//! ```text
//!   state = 0
//!   for each block but the last:  state = AES(state ^ block)
//!   result = AES(state ^ last block ^ K1)           if the last block is whole
//!            AES(state ^ padded last block ^ K2)    if not: 0x80, then zeros
//! ```
//! K1 and K2 are derived from AES of zero. They differ from each other, so a padded message has another result than one that
//! ends with the same bytes, and from zero, so no result is a state on the way to that of a longer message.

use crate::Cipher;

/// Bytes of a block.
const BLOCK_BYTES: usize = 16;
/// Polynomial of the field with 2^128 elements by which subkeys are doubled. `[RFC4493 §2.3]`
const FIELD: u128 = 0x87;

/// AES-CMAC under the key of a cipher. Without the key its results cannot be told from random numbers, even if messages are
/// chosen by earlier results, as long as AES-128 is a pseudorandom permutation. *(proved in `[OMAC]`)*
#[derive(Clone, Debug)]
pub struct Cmac<C> {
    cipher: C,
    /// For messages that end with a whole block.
    whole: u128,
    /// For all others.
    padded: u128,
}

impl<C: Cipher> Cmac<C> {
    /// CMAC over `cipher`. Costs one encryption.
    pub fn new(cipher: C) -> Cmac<C> {
        let whole = double(cipher.encrypt(0));
        Cmac {
            whole,
            padded: double(whole),
            cipher,
        }
    }

    /// The CMAC of a message of 16 bytes, which is `block` as a little-endian number.
    #[inline(always)]
    pub fn of_block(&self, block: u128) -> u128 {
        self.cipher.encrypt(block ^ self.whole)
    }

    /// The CMAC of a message of any length: one encryption for every 16 bytes, or part of them. Its bytes are those of the
    /// number in little-endian order.
    pub fn of(&self, message: &[u8]) -> u128 {
        let (mut rest, mut state) = (message, 0);
        while rest.len() > BLOCK_BYTES
            && let Some((block, behind)) = rest.split_first_chunk()
        {
            state = self.cipher.encrypt(state ^ u128::from_le_bytes(*block));
            rest = behind;
        }
        let last = match rest.try_into() {
            Ok(block) => u128::from_le_bytes(block) ^ self.whole,
            Err(_) => padded(message, rest) ^ self.padded,
        };
        self.cipher.encrypt(state ^ last)
    }
}

/// The block of `rest`, the fewer than 16 bytes with which `message` ends, with 0x80 and zeros behind them. Assembled in
/// registers: from a copy in memory, the processor could not forward what was stored in pieces.
fn padded(message: &[u8], rest: &[u8]) -> u128 {
    let bits = 8 * rest.len();
    let bytes = match message.last_chunk() {
        Some(end) => u128::from_le_bytes(*end) >> (128 - bits),
        None => short(rest),
    };
    bytes | 0x80 << bits
}

/// Fewer than 16 bytes as a number, from two loads that may overlap.
fn short(bytes: &[u8]) -> u128 {
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let [first, last] = [first, last].map(|word| u128::from(u64::from_le_bytes(*word)));
        return first | last << (8 * (bytes.len() - 8));
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let [first, last] = [first, last].map(|word| u128::from(u32::from_le_bytes(*word)));
        return first | last << (8 * (bytes.len() - 4));
    }
    let bytes = bytes.iter().rev();
    bytes.fold(0, |number, &byte| number << 8 | u128::from(byte))
}

/// Twice the element, whose first byte has the highest powers.
fn double(element: u128) -> u128 {
    let element = element.swap_bytes();
    let carry = FIELD * (element >> 127);
    (element << 1 ^ carry).swap_bytes()
}
