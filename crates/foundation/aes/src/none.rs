//! [`Instructions`] of a processor for which there is no code here, or of Miri, which runs no assembly.

use crate::Cipher;
use std::convert::Infallible;

/// AES-128 by the processor's own instructions: on this machine there is none.
#[derive(Clone, Debug)]
pub struct Instructions(Infallible);

impl Instructions {
    /// `None`: use [`Portable`](crate::Portable).
    pub fn new(_key: u128) -> Option<Instructions> {
        None
    }
}

impl Cipher for Instructions {
    fn encrypt(&self, _block: u128) -> u128 {
        match self.0 {}
    }
}
