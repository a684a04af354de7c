//! What the reply to a message must be, by the message's kind.

use drover_memcached::each_reply;
use drover_memcached::handover::{END, Entries, Reply};
use drover_net::PendingReply;

/// Bytes of a message's head, and the place of its kind among them.
const HEAD_BYTES: usize = 21;
const KIND: usize = 16;
/// Bytes of a set of shards, before the cursor of a body.
const SET_BYTES: usize = 514;
/// Bytes of the head of replies about hand-overs and copies.
const REPLY_HEAD_BYTES: usize = 24;
/// Reply to a message that is malformed, or comes from where such messages do not come from.
const REFUSED: &[u8] = b"SERVER_ERROR malformed message between cores\r\n";
/// First byte of a reply that gives the message back, after the epoch (8 bytes).
const ELSEWHERE: u8 = 0;
/// Mark of replies to several keys.
const MANY: u64 = 1 << 63;

/// # Panics
/// If the reply is not one to this message.
pub fn check(message: &[u8], reply: &[u8]) {
    if reply == REFUSED {
        return;
    }
    let (head, body) = message
        .split_at_checked(HEAD_BYTES)
        .expect("a message without a head is refused");
    match head[KIND] & 0x7f {
        b'r' | b'v' | b'g' | b'x' if reply.first() == Some(&ELSEWHERE) => assert_eq!(&reply[9..], message),
        b'm' => each_reply(pending(MANY), reply, |_, one| check_text(one)),
        b'p' | b'z' => {
            let (cursor, reply) = (cursor(body), handed_over(reply));
            assert!(reply.number > cursor.min(END - 1), "the cursor advances");
        }
        b'k' => {
            let has_names = !body.is_empty();
            assert!(handed_over(reply).number > 0 || !has_names, "a name is answered");
        }
        b's' => {
            // Of an attempt that has ended nothing is stored, or even looked at.
            let count = Entries::all(&body[16..]).map_or(0, Iterator::count);
            assert!(handed_over(reply).number <= count as u64);
        }
        b'c' => assert!(number(reply) <= 1),
        b'i' => assert!(number(reply) >= cursor(body)),
        b'q' => assert!(number(reply) <= 2),
        _ => check_text(reply),
    }
}

fn pending(number: u64) -> PendingReply {
    PendingReply {
        connection: 1,
        number,
    }
}

/// Lines for a client, or nothing; or one key's message that comes back.
fn check_text(reply: &[u8]) {
    let is_elsewhere = reply.first() == Some(&ELSEWHERE) && reply.len() >= 9 + HEAD_BYTES;
    assert!(reply.is_empty() || reply.ends_with(b"\n") || is_elsewhere);
}

fn cursor(body: &[u8]) -> u64 {
    let bytes = body[SET_BYTES..].first_chunk().expect("others are refused");
    u64::from_le_bytes(*bytes)
}

fn handed_over(reply: &[u8]) -> Reply<'_> {
    Reply::of(reply).expect("a reply of a hand-over")
}

/// The number in a reply about copies, which may name shards.
fn number(reply: &[u8]) -> u64 {
    let (head, refused) = reply
        .split_first_chunk::<REPLY_HEAD_BYTES>()
        .expect("a reply about copies");
    assert!(refused.len().is_multiple_of(2), "shards of two bytes each");
    u64::from_le_bytes(*head.first_chunk().expect("8 of 24 bytes"))
}
