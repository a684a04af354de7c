//! Keys in base64, as in meta commands: standard alphabet with padding; other characters are skipped.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Maximum bytes of a binary key: 250 characters of base64 decoded, rounded up.
pub(crate) const BINARY_BYTES_MAX: usize = 189;

/// Maximum bytes of a key as base64.
pub(crate) const TEXT_BYTES_MAX: usize = 336;

/// Value of a character; padding is 0.
fn value(byte: u8) -> Option<u32> {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        b'=' => 0,
        _ => return None,
    };
    Some(u32::from(value))
}

/// Decodes to the start of `out`. Returns the length, or `None` if `text` is not base64 of at least one byte.
pub(crate) fn decode(text: &[u8], out: &mut [u8; BINARY_BYTES_MAX]) -> Option<usize> {
    if text.iter().filter(|&&byte| value(byte).is_some()).count() % 4 != 0 {
        return None;
    }
    let (mut len, mut block, mut in_block, mut padding) = (0, 0, 0, 0);
    for (&byte, value) in text.iter().filter_map(|byte| Some((byte, value(*byte)?))) {
        padding += usize::from(byte == b'=');
        block = block << 6 | value;
        in_block += 1;
        if in_block == 4 {
            out.get_mut(len..len + 3)?
                .copy_from_slice(&block.to_be_bytes()[1..]);
            len += 3;
            (block, in_block) = (0, 0);
            if padding > 2 {
                return None;
            }
            if padding > 0 {
                len -= padding;
                break;
            }
        }
    }
    (len > 0).then_some(len)
}

/// Encodes `bytes` to the start of `out`. Returns the length.
///
/// # Panics
/// If `bytes` is longer than a key may be.
pub(crate) fn encode(bytes: &[u8], out: &mut [u8; TEXT_BYTES_MAX]) -> usize {
    let mut len = 0;
    for chunk in bytes.chunks(3) {
        let mut block = [0; 4];
        block[1..1 + chunk.len()].copy_from_slice(chunk);
        let block = u32::from_be_bytes(block);
        for i in 0..4 {
            let six = (block >> (18 - 6 * i)) & 63;
            out[len + i] = if i <= chunk.len() {
                ALPHABET[six as usize]
            } else {
                b'='
            };
        }
        len += 4;
    }
    len
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(text: &str) -> Option<Vec<u8>> {
        let mut out = [0; BINARY_BYTES_MAX];
        decode(text.as_bytes(), &mut out).map(|len| out[..len].to_vec())
    }

    #[test]
    fn published_examples_hold() {
        // RFC 4648, section 10.
        for (plain, text) in [
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(decoded(text).as_deref(), Some(plain.as_bytes()), "{text}");
        }
    }

    #[test]
    fn what_is_no_base64_is_refused() {
        for text in ["", "====", "Zg", "Zg=", "!!!!"] {
            assert_eq!(decoded(text), None, "{text}");
        }
        assert_eq!(decoded("Z!g=="), Some(b"f".to_vec()), "strangers are passed over");
    }

    proptest! {
        #[test]
        fn decoding_undoes_encoding(bytes in prop::collection::vec(any::<u8>(), 1..=187)) {
            let mut text = [0; TEXT_BYTES_MAX];
            let len = encode(&bytes, &mut text);
            let mut back = [0; BINARY_BYTES_MAX];
            let got = decode(&text[..len], &mut back);
            prop_assert_eq!(got.map(|len| &back[..len]), Some(bytes.as_slice()));
        }

        #[test]
        fn any_text_is_taken_or_refused(text in prop::collection::vec(any::<u8>(), 0..=250)) {
            let _ = decode(&text, &mut [0; BINARY_BYTES_MAX]);
        }
    }
}
