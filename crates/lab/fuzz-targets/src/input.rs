//! [`Input`]: a fuzzer's bytes, taken piece by piece; what is missing is zero.

pub struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    pub fn new(rest: &'a [u8]) -> Input<'a> {
        Input { rest }
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `count`, or as many as there are.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let taken = self.take(N);
        bytes[..taken.len()].copy_from_slice(taken);
        bytes
    }

    pub fn byte(&mut self) -> u8 {
        self.array::<1>()[0]
    }
}
