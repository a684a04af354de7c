//! [`Mailbox`]: the memory that a server WRITEs for one client, which the client polls.

use super::{REPLY_TRAILER_BYTES, Reply, reply_sum};
use drover_mem::Region;
use std::sync::atomic::Ordering;

/// Bytes of a client's mailbox before the first reply. The first word is the notice: the number of bytes of the ring
/// that the server has consumed since the session began. The server WRITEs it after each half ring.
pub const NOTICE_BYTES: usize = 64;

/// Where the value is that a reply is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValuePlace {
    /// Before the reply's trailer.
    Reply,
    /// In the space that the client gave.
    Space,
    /// The reply is about none, or only about its length.
    Nowhere,
}

/// A reply that no correct server sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("malformed reply")]
pub struct BadReply;

/// The replies, and the server's position in the ring.
pub struct Mailbox {
    region: Region,
    reply_bytes: usize,
    sums: bool,
}

impl Mailbox {
    /// Creates the mailbox in `region`, with `reply_bytes` bytes for each reply. `sums` says whether replies carry
    /// checksums.
    pub fn new(region: Region, reply_bytes: usize, sums: bool) -> Mailbox {
        Mailbox {
            region,
            reply_bytes,
            sums,
        }
    }

    /// Position up to which the server has consumed the ring, bytes since the session began.
    pub fn notice(&self) -> u64 {
        // Acquire: the consumed part has been zeroed and may be written.
        self.region.load_u64(0, Ordering::Acquire)
    }

    /// The reply to request `sequence` in `place`, if it is complete; its value goes to `out`. `space`: memory, offset
    /// and length where the client asked for a long value. `value_place` says where the value is by the reply's code;
    /// `None`: no server sends that code.
    ///
    /// # Errors
    /// [`BadReply`]: no correct server wrote this; the session must end.
    #[inline]
    pub fn reply(
        &self,
        place: usize,
        sequence: u64,
        space: Option<(&Region, usize, usize)>,
        out: &mut Vec<u8>,
        value_place: impl Fn(u8) -> Option<ValuePlace>,
    ) -> Result<Option<Reply>, BadReply> {
        let end = NOTICE_BYTES + (place + 1) * self.reply_bytes;
        // Acquire: where the fabric orders WRITEs, the last word becomes visible last, so everything before it is
        // visible.
        if self.region.load_u64(end - 8, Ordering::Acquire) != sequence {
            return Ok(None);
        }
        match self.open(end, space, out, value_place) {
            Some(reply) if !self.sums || reply.sum == reply_sum(&reply, out) => Ok(Some(reply)),
            // The rest has not arrived yet.
            _ if self.sums => Ok(None),
            _ => Err(BadReply),
        }
    }

    fn open(
        &self,
        end: usize,
        space: Option<(&Region, usize, usize)>,
        out: &mut Vec<u8>,
        value_place: impl Fn(u8) -> Option<ValuePlace>,
    ) -> Option<Reply> {
        let mut trailer = [0; REPLY_TRAILER_BYTES];
        let at = end - REPLY_TRAILER_BYTES;
        self.region.copy_out(at, &mut trailer);
        let reply = Reply::decode(&trailer);
        out.clear();
        match (value_place(reply.code)?, space) {
            (ValuePlace::Reply, _) if reply.value_bytes <= self.reply_bytes - REPLY_TRAILER_BYTES => {
                out.resize(reply.value_bytes, 0);
                self.region.copy_out(at - reply.value_bytes, out);
            }
            (ValuePlace::Space, Some((region, offset, bytes))) if reply.value_bytes <= bytes => {
                out.resize(reply.value_bytes, 0);
                region.copy_out(offset, out);
            }
            (ValuePlace::Reply | ValuePlace::Space, _) => return None,
            _ => {}
        }
        Some(reply)
    }
}

/// Codes of tests and fuzzers.
fn some_codes(code: u8) -> Option<ValuePlace> {
    match code {
        IN_REPLY => Some(ValuePlace::Reply),
        IN_SPACE => Some(ValuePlace::Space),
        1..12 => Some(ValuePlace::Nowhere),
        _ => None,
    }
}

const IN_REPLY: u8 = 4;
const IN_SPACE: u8 = 6;

/// Polls arbitrary bytes as a client's mailbox: a reply that is accepted fits its place or the space. Input: whether
/// replies carry checksums and whether their lengths are made to fit, then the bytes. For `cargo fuzz`.
#[doc(hidden)]
pub fn fuzz_mailbox(input: &[u8]) {
    const REPLY_BYTES: usize = 128;
    let page = || Region::private(4096, drover_mem::PageWish::Small);
    let (Some((how, input)), Ok(region), Ok(space)) = (input.split_first(), page(), page()) else {
        return;
    };
    let mut bytes = [0; NOTICE_BYTES + 2 * REPLY_BYTES];
    let count = input.len().min(bytes.len());
    bytes[..count].copy_from_slice(&input[..count]);
    let sums = how & 1 != 0;
    for place in 0..2 {
        let end = NOTICE_BYTES + (place + 1) * REPLY_BYTES;
        let trailer = bytes[end - REPLY_TRAILER_BYTES..end].first_chunk();
        let mut reply = Reply::decode(trailer.expect("a trailer's bytes"));
        let before = end - REPLY_TRAILER_BYTES;
        let start = before.saturating_sub(reply.value_bytes);
        if how & 2 != 0 {
            let value = if reply.code == IN_REPLY {
                start..before
            } else {
                0..0
            };
            reply.sum = reply_sum(&reply, &bytes[value]);
            bytes[before..end].copy_from_slice(&reply.encode());
        }
    }
    region.copy_in(0, &bytes);
    let mailbox = Mailbox::new(region, REPLY_BYTES, sums);
    let (mut out, _) = (Vec::new(), mailbox.notice());
    for place in 0..2 {
        let end = NOTICE_BYTES + (place + 1) * REPLY_BYTES;
        let sequence = u64::from_le_bytes(bytes[end - 8..end].try_into().expect("8 bytes"));
        for space in [None, Some((&space, 64, 100))] {
            if let Ok(Some(reply)) = mailbox.reply(place, sequence, space, &mut out, some_codes) {
                let most = match (some_codes(reply.code), space) {
                    (Some(ValuePlace::Reply), _) => REPLY_BYTES - REPLY_TRAILER_BYTES,
                    (Some(ValuePlace::Space), Some((_, _, bytes))) => bytes,
                    _ => 0,
                };
                assert!(out.len() <= most && reply.sequence == sequence, "{reply:?}");
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use drover_mem::PageWish;

    const REPLY_BYTES: usize = 256;

    /// A mailbox for three places with a reply in the second.
    fn with_reply(sums: bool, value: &[u8]) -> (Mailbox, Region, Vec<u8>) {
        let region = Region::private(NOTICE_BYTES + 3 * REPLY_BYTES, PageWish::Small).expect("memory");
        let mut reply = Reply {
            code: IN_REPLY,
            value_bytes: value.len(),
            sequence: 9,
            sum: 0,
        };
        if sums {
            reply.sum = reply_sum(&reply, value);
        }
        let bytes = [value, &reply.encode()].concat();
        (Mailbox::new(region.clone(), REPLY_BYTES, sums), region, bytes)
    }

    fn place(len: usize) -> usize {
        NOTICE_BYTES + 2 * REPLY_BYTES - len
    }

    #[test]
    fn a_reply_is_its_requests_alone() {
        let (mailbox, region, bytes) = with_reply(false, b"value");
        region.copy_in(place(bytes.len()), &bytes);
        let mut out = Vec::new();
        let reply = mailbox
            .reply(1, 9, None, &mut out, some_codes)
            .expect("sound")
            .expect("there");
        assert_eq!((reply.code, &out[..]), (IN_REPLY, &b"value"[..]));
        assert_eq!(mailbox.reply(1, 10, None, &mut out, some_codes), Ok(None));
        assert_eq!(mailbox.reply(0, 9, None, &mut out, some_codes), Ok(None));
    }

    /// Where WRITEs are not ordered: the sequence number is visible, the value not yet.
    #[test]
    fn farm_a_reply_that_landed_by_halves_is_waited_for() {
        let (mailbox, region, bytes) = with_reply(true, &[7; 100]);
        let at = place(bytes.len());
        let mut out = Vec::new();
        let lines: Vec<usize> = (at / 64..=(at + bytes.len() - 1) / 64).collect();
        for landed in 0..1u32 << lines.len() {
            region.zero(NOTICE_BYTES, 3 * REPLY_BYTES);
            for (bit, line) in lines.iter().enumerate() {
                if landed >> bit & 1 == 1 {
                    let (from, to) = ((line * 64).max(at), (line * 64 + 64).min(at + bytes.len()));
                    region.copy_in(from, &bytes[from - at..to - at]);
                }
            }
            let is_all = landed == (1 << lines.len()) - 1;
            let seen = mailbox
                .reply(1, 9, None, &mut out, some_codes)
                .expect("nothing hostile");
            assert_eq!(seen.is_some(), is_all, "lines {landed:b}");
        }
    }

    #[test]
    fn farm_replies_that_cannot_be_are_refused() {
        for (code, value_bytes) in [(IN_REPLY, REPLY_BYTES), (IN_SPACE, 1), (0, 0), (200, 0)] {
            let (mailbox, region, _) = with_reply(false, b"");
            let reply = Reply {
                code,
                value_bytes,
                sequence: 9,
                sum: 0,
            };
            region.copy_in(place(REPLY_TRAILER_BYTES), &reply.encode());
            assert_eq!(
                mailbox.reply(1, 9, None, &mut Vec::new(), some_codes),
                Err(BadReply)
            );
        }
    }
}
