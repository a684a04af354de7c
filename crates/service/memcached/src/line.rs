//! [`LineBuffer`]: a reply's first line under construction; numbers as text, without allocation.

/// Digits of the numbers 00 to 99.
const PAIRS: &[u8; 200] = b"0001020304050607080910111213141516171819\
2021222324252627282930313233343536373839\
4041424344454647484950515253545556575859\
6061626364656667686970717273747576777879\
8081828384858687888990919293949596979899";

/// Maximum number of digits of a 64-bit number.
pub(crate) const DIGITS_MAX: usize = 20;

/// Number of digits of `value`.
#[inline]
pub(crate) fn digits(value: u64) -> usize {
    value.checked_ilog10().unwrap_or(0) as usize + 1
}

/// Writes `value` to all of `out`, whose length must be its number of [`digits`].
#[inline]
pub(crate) fn write_number(mut value: u64, out: &mut [u8]) {
    let mut at = out.len();
    while at >= 2 {
        let pair = (value % 100) as usize * 2;
        value /= 100;
        at -= 2;
        out[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    if at == 1 {
        out[0] = b'0' + (value % 10) as u8;
    }
}

/// Appends a key escaped as in URIs, so that it is one word in lists and logs.
pub(crate) fn push_escaped(line: &mut LineBuffer, key: &[u8]) {
    for &byte in key {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => line.push(&[byte]),
            _ => {
                let digit = |value: u8| b"0123456789ABCDEF"[usize::from(value)];
                line.push(&[b'%', digit(byte >> 4), digit(byte & 15)])
            }
        };
    }
}

/// Maximum length of a first line: `VA`, a key of 250 bytes in base64, and every flag.
const LINE_BYTES: usize = 1024;

/// First line of a reply under construction. Each core keeps one.
#[derive(Debug)]
pub struct LineBuffer {
    bytes: Box<[u8; LINE_BYTES]>,
    len: usize,
}

impl Default for LineBuffer {
    fn default() -> LineBuffer {
        LineBuffer {
            bytes: Box::new([0; LINE_BYTES]),
            len: 0,
        }
    }
}

impl LineBuffer {
    /// Starts a new line with `bytes`.
    #[inline]
    pub(crate) fn start(&mut self, bytes: &[u8]) -> &mut LineBuffer {
        self.len = 0;
        self.push(bytes)
    }

    /// Appends bytes.
    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) -> &mut LineBuffer {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
        self
    }

    /// Appends a number.
    #[inline]
    pub(crate) fn number(&mut self, value: u64) -> &mut LineBuffer {
        let len = digits(value);
        write_number(value, &mut self.bytes[self.len..self.len + len]);
        self.len += len;
        self
    }

    /// Appends a space, the letter of a flag and its number.
    #[inline]
    pub(crate) fn flag(&mut self, letter: u8, value: u64) -> &mut LineBuffer {
        self.push(&[b' ', letter]).number(value)
    }

    /// Bytes of the line.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(value: u64) -> String {
        let mut line = LineBuffer::default();
        line.number(value);
        String::from_utf8(line.bytes().to_vec()).expect("digits")
    }

    #[test]
    fn numbers_at_the_edges_of_lengths() {
        let mut power = 1u64;
        for _ in 0..20 {
            for value in [power - 1, power, power + 1] {
                assert_eq!(text(value), value.to_string());
            }
            power = power.saturating_mul(10);
        }
        assert_eq!(text(u64::MAX).len(), DIGITS_MAX);
    }

    proptest! {
        #[test]
        fn numbers_are_written_as_always(value: u64, shift in 0u32..64) {
            prop_assert_eq!(text(value >> shift), (value >> shift).to_string());
        }
    }
}
