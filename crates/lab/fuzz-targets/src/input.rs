//! [`Input`]: a fuzzer's bytes, taken piece by piece.

/// The bytes of an input that have not been taken yet.
pub struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// Wraps a whole input.
    pub fn new(rest: &'a [u8]) -> Input<'a> {
        Input { rest }
    }

    /// Whether all bytes have been taken.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Takes the next `count` bytes, or fewer at the end of the input.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// Takes the next `N` bytes; zeros replace bytes beyond the end of the input.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let taken = self.take(N);
        bytes[..taken.len()].copy_from_slice(taken);
        bytes
    }

    /// Takes the next byte, or returns 0 at the end of the input.
    pub fn byte(&mut self) -> u8 {
        self.array::<1>()[0]
    }
}
