//! [`Portable`]: AES-128 by the `aes` crate.

use crate::Cipher;
use aes::Aes128Enc;
use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};

/// AES-128 by the `aes` crate, on every machine. Where the processor has no instructions for it, a block takes some 3,800
/// others, 0.4 us.
#[derive(Clone, Debug)]
pub struct Portable(Aes128Enc);

impl Portable {
    /// The cipher under `key`.
    pub fn new(key: u128) -> Portable {
        Portable(Aes128Enc::new(&Array::from(key.to_le_bytes())))
    }
}

impl Cipher for Portable {
    fn encrypt(&self, block: u128) -> u128 {
        let mut block = Array::from(block.to_le_bytes());
        self.0.encrypt_block(&mut block);
        u128::from_le_bytes(block.into())
    }
}
