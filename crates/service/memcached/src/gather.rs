//! [`Gathered`]: the keys of a fetch that one other core owns, as one message; and the reply to it, which is those to all
//! keys.
//!
//! ```text
//! message  head, kind `m` | with_cas (1), touch (1), expiry (4) | per key: place (4), hash (16), length (1), key
//! reply    the replies to the keys | per key: place (4), length of its reply (4) | number of keys (4)
//! ```
//! Numbers are little-endian. A key's place is the number of its pending reply, counted from that of the first key. The
//! message's own pending reply is the first key's, marked by [`MANY`].

use crate::exec::fetch;
use crate::forward::{self, HEAD_BYTES, fetch_bytes, fetch_of};
use crate::member::{OnFailure, post};
use crate::request::Fetch;
use crate::{Executor, RouteFull};
use drover_base::{Cpu, KeyHash};
use drover_net::{Output, PendingReply};
use drover_store::{Hint, KEY_BYTES_MAX, Key, Sharing};
use std::mem::take;

/// Mark in the number of a pending reply: the reply is those to several keys.
const MANY: u64 = 1 << 63;
/// Most keys of a message: those of a session's batch.
pub(crate) const KEYS_MAX: usize = 32;
/// Bytes of a key's place, hash and length.
const ENTRY_BYTES: usize = 21;
/// Bytes of the longest message.
const BYTES_MAX: usize = HEAD_BYTES + 6 + KEYS_MAX * (ENTRY_BYTES + KEY_BYTES_MAX);

/// A message about several keys under construction; empty: none. The memory is kept.
#[derive(Default, Debug)]
pub(crate) struct Gathered {
    bytes: Vec<u8>,
    first: u64,
}

impl<C: Cpu, S: Sharing> Executor<'_, C, S> {
    /// Adds a key of `core` to the message to that, and leaves a pending reply. Returns whether the message will have
    /// space in the ring; if not, nothing has changed. [`send_gathered`](Executor::send_gathered) must follow before any
    /// other message is sent.
    pub(crate) fn gather(&mut self, core: usize, fetch: Fetch, key: Key<'_>, output: &mut Output) -> bool {
        let gathered = &mut self.core.gathered;
        if gathered.len() <= core {
            gathered.resize_with(self.router.core_count().max(core + 1), Gathered::default);
        }
        let message = &mut gathered[core];
        let place = output.next_hole().number;
        if message.bytes.is_empty() {
            if !self.router.has_space(core, BYTES_MAX) {
                return false;
            }
            message.first = place;
            let head = forward::head(KeyHash::default(), b'm', self.core.connection);
            message.bytes.extend_from_slice(&head);
            message.bytes.extend_from_slice(&fetch_bytes(fetch));
        }
        let place = (place - message.first) as u32;
        message.bytes.extend_from_slice(&place.to_le_bytes());
        message.bytes.extend_from_slice(&key.hash.to_bytes());
        message.bytes.push(key.bytes.len() as u8);
        message.bytes.extend_from_slice(key.bytes);
        output.pending_reply();
        if let Some(member) = &mut self.core.member {
            member.will_send_about(key.hash, core);
        }
        true
    }

    /// Sends what has been gathered of the keys of one batch.
    pub(crate) fn send_gathered(&mut self, output: &Output) {
        let connection = output.next_hole().connection;
        let (gathered, member) = (&mut self.core.gathered, &mut self.core.member);
        for (core, message) in gathered.iter_mut().enumerate() {
            if !message.bytes.is_empty() {
                let number = message.first | MANY;
                let pending = (PendingReply { connection, number }, OnFailure::Close);
                let sent = post(
                    member.as_deref_mut(),
                    self.router,
                    core,
                    pending,
                    &[&message.bytes],
                );
                debug_assert_ne!(sent, Err(RouteFull), "there was space");
                message.bytes.clear();
            }
        }
    }

    /// Answers a message about several keys; `None` if it is malformed.
    pub(crate) fn serve_many(&mut self, body: &[u8], output: &mut Output) -> Option<()> {
        let (how, entries) = fetch_of(body)?;
        let mut hints = [Hint::NONE; KEYS_MAX];
        for (_, key) in Entries::all(entries)? {
            self.partition.prefetch_bucket(self.cpu, key.hash, false);
        }
        for ((_, key), hint) in Entries(entries).zip(&mut hints) {
            *hint = self.partition.prefetch_item(self.cpu, key.hash);
        }
        let mut places = take(&mut self.core.places);
        places.clear();
        for ((place, key), hint) in Entries(entries).zip(hints) {
            let before = output.len();
            if self.admits(key.hash, false) {
                fetch(self, how, key, hint, output);
            } else {
                let head = forward::head(key.hash, b'v', self.core.connection);
                self.answer_elsewhere(&[&head, &fetch_bytes(how), key.bytes], output);
            }
            add_place(&mut places, place, output.len() - before);
        }
        end_places(&mut places);
        output.push(&places);
        self.core.places = places;
        Some(())
    }
}

impl crate::Core {
    /// Drops messages that a panic has kept from being sent.
    pub(crate) fn drop_gathered(&mut self) {
        for message in &mut self.gathered {
            message.bytes.clear();
        }
    }
}

/// Calls `each` with the messages about one key that say together what `message` says, and their pending replies.
pub(crate) fn each_single(
    pending: PendingReply,
    message: &[u8],
    mut each: impl FnMut(PendingReply, Vec<u8>),
) {
    let body = (pending.number & MANY != 0).then(|| message.split_first_chunk::<HEAD_BYTES>());
    let Some(Some((head, body))) = body else {
        return each(pending, message.to_vec());
    };
    let connection = u32::from_le_bytes(head[17..].try_into().expect("4 of 21 bytes"));
    let Some((how, entries)) = fetch_of(body).and_then(|(how, bytes)| Some((how, Entries::all(bytes)?)))
    else {
        return each(pending, message.to_vec());
    };
    for (place, key) in entries {
        let head = forward::head(key.hash, b'v', connection);
        let number = (pending.number & !MANY) + u64::from(place);
        let message = [&head[..], &fetch_bytes(how), key.bytes].concat();
        each(PendingReply { number, ..pending }, message);
    }
}

fn add_place(places: &mut Vec<u8>, place: u32, reply_bytes: usize) {
    places.extend_from_slice(&place.to_le_bytes());
    places.extend_from_slice(&(reply_bytes as u32).to_le_bytes());
}

fn end_places(places: &mut Vec<u8>) {
    let count = (places.len() / 8) as u32;
    places.extend_from_slice(&count.to_le_bytes());
}

/// Places and keys in a message.
struct Entries<'m>(&'m [u8]);

impl<'m> Entries<'m> {
    /// The entries, if all of `bytes` are entries of a message.
    fn all(bytes: &'m [u8]) -> Option<Entries<'m>> {
        let mut entries = Entries(bytes);
        let count = entries.by_ref().count();
        (entries.0.is_empty() && count <= KEYS_MAX).then_some(Entries(bytes))
    }
}

impl<'m> Iterator for Entries<'m> {
    type Item = (u32, Key<'m>);

    fn next(&mut self) -> Option<(u32, Key<'m>)> {
        let (entry, rest) = self.0.split_first_chunk::<ENTRY_BYTES>()?;
        let len = Some(usize::from(entry[20])).filter(|len| *len <= KEY_BYTES_MAX)?;
        let (bytes, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        let place = u32::from_le_bytes(entry[..4].try_into().expect("4 of 21 bytes"));
        let hash = KeyHash::from_bytes(entry[4..20].try_into().expect("16 of 21 bytes"));
        Some((place, Key { hash, bytes }))
    }
}

/// Calls `fill` with each reply in a reply from another core, and the pending reply that it is for. A reply to one key is
/// itself; one that should be to several and is not goes to the first.
pub fn each_reply(pending: PendingReply, reply: &[u8], mut fill: impl FnMut(PendingReply, &[u8])) {
    if pending.number & MANY == 0 {
        return fill(pending, reply);
    }
    let at = |place: u32| PendingReply {
        number: (pending.number & !MANY) + u64::from(place),
        ..pending
    };
    let Some((mut replies, places)) = split(reply) else {
        return fill(at(0), reply);
    };
    for place in places {
        let [place, len] = [&place[..4], &place[4..]]
            .map(|number| u32::from_le_bytes(number.try_into().expect("4 of 8 bytes")));
        let (own, rest) = replies.split_at(len as usize);
        fill(at(place), own);
        replies = rest;
    }
}

/// Replies, and place and length of each, whose sum is that of the replies.
fn split(reply: &[u8]) -> Option<(&[u8], &[[u8; 8]])> {
    let (rest, count) = reply.split_last_chunk::<4>()?;
    let bytes = 8 * u32::from_le_bytes(*count) as usize;
    let (replies, places) = rest.split_at_checked(rest.len().checked_sub(bytes)?)?;
    let places = places.as_chunks::<8>().0;
    let len = |place: &[u8; 8]| u64::from(u32::from_le_bytes(place[4..].try_into().expect("4 of 8 bytes")));
    let is_whole = places.iter().map(len).sum::<u64>() == replies.len() as u64;
    is_whole.then_some((replies, places))
}

/// The reply to `message` whose execution failed: `line`, for the first key if there are several.
pub(crate) fn failed(message: &[u8], line: &[u8]) -> Vec<u8> {
    let mut reply = line.to_vec();
    let entries = message
        .split_first_chunk::<HEAD_BYTES>()
        .filter(|(head, _)| head[16] == b'm')
        .and_then(|(_, body)| Entries::all(fetch_of(body)?.1));
    if let Some(entries) = entries {
        let mut places = Vec::new();
        for (nth, (place, _)) in entries.enumerate() {
            add_place(&mut places, place, if nth == 0 { line.len() } else { 0 });
        }
        end_places(&mut places);
        reply.extend_from_slice(&places);
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(number: u64, reply: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let mut parts = Vec::new();
        let pending = PendingReply {
            connection: 7,
            number,
        };
        each_reply(pending, reply, |pending, bytes| {
            assert_eq!(pending.connection, 7);
            parts.push((pending.number, bytes.to_vec()));
        });
        parts
    }

    #[test]
    fn a_reply_to_several_keys_is_taken_apart() {
        let mut reply = b"onetwo".to_vec();
        let mut places = Vec::new();
        for (place, len) in [(0, 3), (2, 0), (9, 3)] {
            add_place(&mut places, place, len);
        }
        end_places(&mut places);
        reply.extend_from_slice(&places);
        let want = [(40, b"one".to_vec()), (42, Vec::new()), (49, b"two".to_vec())];
        assert_eq!(parts(40 | MANY, &reply), want);
        assert_eq!(parts(40, &reply), [(40, reply.clone())], "it is to one key");
    }

    #[test]
    fn what_is_no_reply_to_several_keys_goes_to_the_first() {
        let long = [&b"abc"[..], &u32::MAX.to_le_bytes()].concat();
        let wrong_len = [&b"abc"[..], &[0, 0, 0, 0, 4, 0, 0, 0], &1u32.to_le_bytes()].concat();
        for reply in [&b""[..], b"abc", b"SERVER_ERROR\r\n", &long, &wrong_len] {
            assert_eq!(parts(5 | MANY, reply), [(5, reply.to_vec())]);
        }
    }

    #[test]
    fn a_failure_is_told_to_every_key() {
        let head = forward::head(KeyHash::default(), b'm', 0);
        let mut message = [&head[..], &[0; 6]].concat();
        for (place, key) in [(0u32, &b"a"[..]), (3, b"bc")] {
            message.extend_from_slice(&place.to_le_bytes());
            message.extend_from_slice(&[0; 16]);
            message.push(key.len() as u8);
            message.extend_from_slice(key);
        }
        let reply = failed(&message, b"ERROR\r\n");
        assert_eq!(
            parts(8 | MANY, &reply),
            [(8, b"ERROR\r\n".to_vec()), (11, Vec::new())]
        );
        assert_eq!(failed(b"too short", b"ERROR\r\n"), b"ERROR\r\n");
    }
}
