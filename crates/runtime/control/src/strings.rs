//! Codecs of byte strings and texts in messages, for fields that [`fields!`](crate::fields) and its kin encode with
//! `as`. `MAX` is the longest that a reader accepts, bytes.

use super::{DecodeError, Reader, Writer};

/// Codec of a byte string: its length (`u32`), then its bytes. It sends a string longer than `MAX` whole; the reader
/// refuses it.
pub struct Bytes<const MAX: usize>;

/// Codec of a text: its length in bytes (`u32`), then its UTF-8 bytes. It sends the first `MAX` bytes. The reader makes
/// the text printable: control characters other than line feeds become `?`, malformed UTF-8 becomes U+FFFD.
pub struct Text<const MAX: usize>;

/// Codec of a byte string: its length (`u16`), then its bytes. It sends the first 65535 bytes, even if `MAX` is less;
/// the reader refuses a string longer than `MAX`.
pub struct ShortBytes<const MAX: usize>;

/// Codec of a text, as [`Text`], but the length is a `u16`.
pub struct ShortText<const MAX: usize>;

impl<const MAX: usize> Bytes<MAX> {
    /// Appends the length of `bytes`, then `bytes`, to `to`.
    pub fn encode(bytes: &[u8], to: &mut Writer) {
        to.bytes(bytes);
    }

    /// Reads a byte string. `name` names its length in errors.
    ///
    /// # Errors
    /// [`DecodeError`] if it is longer than `MAX`, or the body ends first.
    pub fn decode(from: &mut Reader<'_>, name: &'static str) -> Result<Vec<u8>, DecodeError> {
        Ok(from.bytes(name, MAX)?.to_vec())
    }
}

impl<const MAX: usize> Text<MAX> {
    /// Appends length and bytes of `text`, cut off after `MAX` bytes, to `to`.
    pub fn encode(text: &str, to: &mut Writer) {
        to.bytes(cut::<MAX>(text));
    }

    /// Reads a text. `name` names its length in errors.
    ///
    /// # Errors
    /// [`DecodeError`] if it is longer than `MAX`, or the body ends first.
    pub fn decode(from: &mut Reader<'_>, name: &'static str) -> Result<String, DecodeError> {
        Ok(printable(from.bytes(name, MAX)?))
    }
}

impl<const MAX: usize> ShortBytes<MAX> {
    /// Appends the length of `bytes`, then `bytes`, cut off after 65535, to `to`.
    pub fn encode(bytes: &[u8], to: &mut Writer) {
        let len = bytes.len().min(usize::from(u16::MAX));
        to.u16(len as u16).raw(&bytes[..len]);
    }

    /// Reads a byte string. `name` names its length in errors.
    ///
    /// # Errors
    /// [`DecodeError`] if it is longer than `MAX`, or the body ends first.
    pub fn decode(from: &mut Reader<'_>, name: &'static str) -> Result<Vec<u8>, DecodeError> {
        match usize::from(from.u16()?) {
            len if len <= MAX => Ok(from.raw(len)?.to_vec()),
            len => Err(DecodeError::Value {
                field: name,
                value: len as u64,
            }),
        }
    }
}

impl<const MAX: usize> ShortText<MAX> {
    /// Appends length and bytes of `text`, cut off after `MAX` bytes, to `to`.
    pub fn encode(text: &str, to: &mut Writer) {
        ShortBytes::<MAX>::encode(cut::<MAX>(text), to);
    }

    /// Reads a text. `name` names its length in errors.
    ///
    /// # Errors
    /// [`DecodeError`] if it is longer than `MAX`, or the body ends first.
    pub fn decode(from: &mut Reader<'_>, name: &'static str) -> Result<String, DecodeError> {
        Ok(printable(&ShortBytes::<MAX>::decode(from, name)?))
    }
}

fn cut<const MAX: usize>(text: &str) -> &[u8] {
    &text.as_bytes()[..text.len().min(MAX)]
}

fn printable(bytes: &[u8]) -> String {
    let printable = |c: char| if c.is_control() && c != '\n' { '?' } else { c };
    String::from_utf8_lossy(bytes).chars().map(printable).collect()
}
