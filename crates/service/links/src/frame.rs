//! Frames, alike in both directions: a prefix and a body.
//!
//! | offset | size | field | |
//! |---|---|---|---|
//! | 0 | 4 | length | of the body, little-endian; 0xffff_ffff: a keep-alive, which has none |
//! | 4 | length | body | a message, or the reply to the oldest message without one |
//!
//! A keep-alive is answered by a keep-alive.

use std::ops::Range;

/// Bytes before each body.
pub(crate) const PREFIX_BYTES: usize = 4;
/// Prefix of a keep-alive.
pub(crate) const KEEP_ALIVE: [u8; PREFIX_BYTES] = u32::MAX.to_le_bytes();

/// The next frame of some bytes.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// A whole frame: where its body is.
    Body(Range<usize>),
    KeepAlive,
    /// The beginning of a frame, or nothing.
    Part,
}

/// A frame that is longer than the receiver takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a frame of {body_bytes} bytes; at most {max} were expected")]
pub(crate) struct TooLong {
    body_bytes: usize,
    max: usize,
}

/// The prefix of a body of `bytes` bytes.
pub(crate) fn prefix(bytes: usize) -> [u8; PREFIX_BYTES] {
    let length = u32::try_from(bytes).expect("bodies have less than 4 GiB");
    length.to_le_bytes()
}

/// Length of the frame that begins `bytes`, prefix included; `None` if its prefix is incomplete.
pub(crate) fn frame_bytes(bytes: &[u8]) -> Option<usize> {
    let prefix = *bytes.first_chunk::<PREFIX_BYTES>()?;
    Some(match prefix {
        KEEP_ALIVE => PREFIX_BYTES,
        prefix => PREFIX_BYTES + u32::from_le_bytes(prefix) as usize,
    })
}

/// The frame at `start`. Bodies have at most `max` bytes.
#[inline]
pub(crate) fn next(bytes: &[u8], start: usize, max: usize) -> Result<Next, TooLong> {
    let rest = &bytes[start..];
    let Some(total) = frame_bytes(rest) else {
        return Ok(Next::Part);
    };
    if rest.starts_with(&KEEP_ALIVE) {
        return Ok(Next::KeepAlive);
    }
    let body_bytes = total - PREFIX_BYTES;
    if body_bytes > max {
        return Err(TooLong { body_bytes, max });
    }
    Ok(match rest.len() < total {
        true => Next::Part,
        false => Next::Body(start + PREFIX_BYTES..start + total),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_follow_each_other() {
        let bytes = [&prefix(2)[..], b"ab", &KEEP_ALIVE, &prefix(0), &prefix(3), b"c"].concat();
        assert_eq!(next(&bytes, 0, 9), Ok(Next::Body(4..6)));
        assert_eq!(next(&bytes, 6, 9), Ok(Next::KeepAlive));
        assert_eq!(next(&bytes, 10, 9), Ok(Next::Body(14..14)));
        assert_eq!(next(&bytes, 14, 9), Ok(Next::Part));
        assert_eq!(next(&bytes, bytes.len(), 9), Ok(Next::Part));
        let too_long = TooLong {
            body_bytes: 3,
            max: 2,
        };
        assert_eq!(next(&bytes, 14, 2), Err(too_long));
        for short in 0..PREFIX_BYTES {
            assert_eq!(next(&bytes[..short], 0, 9), Ok(Next::Part));
        }
    }
}
