//! Lines, words and numbers of a command, as memcached reads them: any number of spaces separates words; a line ends
//! with `\n` or `\r\n`, and its words end at a zero byte; numbers follow C's `strtoul` family.

/// Maximum number of words read in a command, as in memcached.
pub(crate) const WORDS_MAX: usize = 23;

/// Index of the first `byte`. Reads eight bytes at a time: searching the line's end is most of the reading.
#[inline]
pub(crate) fn find(bytes: &[u8], byte: u8) -> Option<usize> {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let pattern = LOW * u64::from(byte);
    let (chunks, rest) = bytes.as_chunks::<8>();
    for (i, chunk) in chunks.iter().enumerate() {
        let differs = u64::from_le_bytes(*chunk) ^ pattern;
        // The lowest set bit is right: a borrow can only come from a lower byte that was zero itself.
        let zero = differs.wrapping_sub(LOW) & !differs & HIGH;
        if zero != 0 {
            return Some(i * 8 + zero.trailing_zeros() as usize / 8);
        }
    }
    let start = chunks.len() * 8;
    rest.iter().position(|&b| b == byte).map(|at| start + at)
}

/// The words of a line, one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words<'a> {
    line: &'a [u8],
    /// Index where the last word started.
    start: usize,
    /// Index up to which the line has been read.
    at: usize,
}

impl<'a> Words<'a> {
    /// The words of a line without its end.
    #[inline]
    pub(crate) fn new(line: &'a [u8]) -> Words<'a> {
        Words {
            line,
            start: 0,
            at: 0,
        }
    }

    /// Index in the line where the last word started.
    #[inline]
    pub(crate) fn start(&self) -> usize {
        self.start
    }

    /// The unread rest of the line.
    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.line[self.at..]
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let spaces = self.rest().iter().position(|&b| b != b' ')?;
        self.start = self.at + spaces;
        let word = &self.line[self.start..];
        let len = word
            .iter()
            .position(|&b| b == b' ' || b == 0)
            .unwrap_or(word.len());
        let ended = word.get(len) == Some(&0);
        self.at = if ended { self.line.len() } else { self.start + len };
        (len > 0).then(|| &word[..len])
    }
}

/// The first words of a line, counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    words: [&'a [u8]; 8],
    /// Number of words, at most [`WORDS_MAX`].
    pub(crate) count: usize,
    /// The last counted word.
    pub(crate) last: &'a [u8],
}

impl<'a> Line<'a> {
    /// Splits `line`, given without its end.
    #[inline]
    pub(crate) fn new(line: &'a [u8]) -> Line<'a> {
        let mut cut = Line {
            words: [&[]; 8],
            count: 0,
            last: &[],
        };
        for word in Words::new(line).take(WORDS_MAX) {
            if let Some(place) = cut.words.get_mut(cut.count) {
                *place = word;
            }
            cut.count += 1;
            cut.last = word;
        }
        cut
    }

    /// Word `i`, empty if there is none.
    #[inline]
    pub(crate) fn word(&self, i: usize) -> &'a [u8] {
        self.words.get(i).copied().unwrap_or(&[])
    }
}

/// White space as in C.
#[inline]
fn is_space(byte: u8) -> bool {
    byte == b' ' || (b'\t'..=b'\r').contains(&byte)
}

/// Sign and magnitude of the number at the start of a word; white space and any text may follow it. `None`: no number,
/// or more than 64 bits.
#[inline]
fn magnitude(word: &[u8]) -> Option<(bool, u64)> {
    let start = word.iter().position(|&b| !is_space(b))?;
    let (negative, digits) = match word[start] {
        b'-' => (true, &word[start + 1..]),
        b'+' => (false, &word[start + 1..]),
        _ => (false, &word[start..]),
    };
    let mut value = 0u64;
    let mut len = 0;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
        len += 1;
    }
    let ends = digits.get(len).is_none_or(|&byte| is_space(byte) || byte == 0);
    (len > 0 && ends).then_some((negative, value))
}

/// An unsigned 64-bit number. A minus is accepted if the wrapped result stays in the lower half.
#[inline]
pub(crate) fn number_u64(word: &[u8]) -> Option<u64> {
    let (negative, value) = magnitude(word)?;
    let value = if negative { value.wrapping_neg() } else { value };
    let signed = (value as i64) < 0 && word.contains(&b'-');
    (!signed).then_some(value)
}

/// The low 32 bits of an unsigned 64-bit number.
#[inline]
pub(crate) fn number_u32(word: &[u8]) -> Option<u32> {
    number_u64(word).map(|value| value as u32)
}

/// The low 32 bits of a signed 64-bit number.
#[inline]
pub(crate) fn number_i32(word: &[u8]) -> Option<i32> {
    match magnitude(word)? {
        (false, value) => i64::try_from(value).ok().map(|value| value as i32),
        (true, value) if value <= 1 << 63 => Some(value.wrapping_neg() as i32),
        (true, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn finds_what_a_plain_search_finds(bytes in prop::collection::vec(0u8..4, 0..70), byte in 0u8..4) {
            prop_assert_eq!(find(&bytes, byte), bytes.iter().position(|&b| b == byte));
        }

        #[test]
        fn words_are_those_of_a_split(line in "[ a-c]{0,40}") {
            let want: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
            let got: Vec<&[u8]> = Words::new(line.as_bytes()).collect();
            prop_assert_eq!(got, want.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_zero_byte_ends_a_line() {
        let words: Vec<&[u8]> = Words::new(b"get a\0b c").collect();
        assert_eq!(words, [b"get".as_slice(), b"a"]);
        assert_eq!(Words::new(b"  \0a").count(), 0);
    }

    #[test]
    fn numbers_are_those_of_c() {
        for (word, want) in [
            ("0", Some(0)),
            ("+7", Some(7)),
            ("-0", Some(0)),
            ("-1", None),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("-18446744073709551615", Some(1)),
            ("12\tabc", Some(12)),
            ("\t12", Some(12)),
            ("12abc", None),
            ("", None),
            ("+", None),
            ("abc", None),
        ] {
            assert_eq!(number_u64(word.as_bytes()), want, "{word}");
        }
    }

    #[test]
    fn longer_numbers_lose_their_upper_half() {
        assert_eq!(number_u32(b"4294967295"), Some(u32::MAX));
        assert_eq!(number_u32(b"4294967297"), Some(1));
        assert_eq!(number_i32(b"-5"), Some(-5));
        assert_eq!(number_i32(b"4294967295"), Some(-1));
        assert_eq!(number_i32(b"9223372036854775808"), None);
        assert_eq!(number_i32(b"-9223372036854775808"), Some(0));
    }
}
