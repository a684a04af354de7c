//! [`CopyMessage`] and the other messages of copies, as bytes. The layouts stand in the [parent](super).

use crate::forward::head;
use crate::handover::{Entries, ShardSet};
use drover_base::KeyHash;
use drover_cluster::{Epoch, ShardId};

const FIXED_BYTES: usize = 30;
const SHARD_BYTES: usize = 11;
/// Bytes of the head of a reply, as in hand-overs.
const REPLY_HEAD_BYTES: usize = 24;

/// Message to a core of this member: to send what it has of `shards` to their keepers, from a cursor on.
pub fn fill_message(shards: &ShardSet, cursor: u64) -> Vec<u8> {
    with_set(b'i', shards, cursor)
}

/// Message to a core of this member that asks whether the keepers have all that it knew of `shards` when it got `mark` for the first time. A mark is
/// a number that does not come again.
pub fn drained_message(shards: &ShardSet, mark: u64) -> Vec<u8> {
    with_set(b'q', shards, mark)
}

fn with_set(kind: u8, shards: &ShardSet, number: u64) -> Vec<u8> {
    let mut message = head(KeyHash::default(), kind, 0).to_vec();
    shards.put(&mut message);
    message.extend_from_slice(&number.to_le_bytes());
    message
}

/// Set and number of the body of such a message.
pub(super) fn set_of(body: &[u8]) -> Option<(ShardSet, u64)> {
    let (shards, number) = ShardSet::take(body)?;
    Some((shards, u64::from_le_bytes(number.try_into().ok()?)))
}

/// Who sends a copy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct CopySource {
    /// Random number of its process.
    pub(crate) life: u64,
    pub(crate) core: u16,
    pub(crate) core_count: u16,
}

/// The copy of a shard that a message is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ListedShard {
    pub(crate) shard: ShardId,
    pub(crate) tenure: Epoch,
    /// Its items of the sender are to be deleted first.
    pub(crate) is_flushed: bool,
}

/// A message with the state of keys, taken apart.
#[derive(Clone, Debug)]
pub(crate) struct CopyMessage<'m> {
    pub(crate) source: CopySource,
    pub(crate) number: u64,
    pub(crate) version: u64,
    pub(crate) shards: Vec<ListedShard>,
    pub(crate) entries: Entries<'m>,
}

impl<'m> CopyMessage<'m> {
    /// Appends all of the message, head included, but its entries.
    pub(super) fn put_head(
        source: CopySource,
        number: u64,
        version: u64,
        shards: &[ListedShard],
        to: &mut Vec<u8>,
    ) {
        to.extend_from_slice(&head(KeyHash::default(), b'c', 0));
        to.extend_from_slice(&source.life.to_le_bytes());
        to.extend_from_slice(&source.core.to_le_bytes());
        to.extend_from_slice(&source.core_count.to_le_bytes());
        to.extend_from_slice(&number.to_le_bytes());
        to.extend_from_slice(&version.to_le_bytes());
        to.extend_from_slice(&(shards.len() as u16).to_le_bytes());
        for it in shards {
            to.extend_from_slice(&it.shard.0.to_le_bytes());
            to.extend_from_slice(&it.tenure.0.to_le_bytes());
            to.push(u8::from(it.is_flushed));
        }
    }

    /// Takes the body of a message apart; `None`: it is malformed.
    pub(super) fn of(body: &'m [u8]) -> Option<CopyMessage<'m>> {
        let (fixed, rest) = body.split_first_chunk::<FIXED_BYTES>()?;
        let short = |at: usize| u16::from_le_bytes([fixed[at], fixed[at + 1]]);
        let long = |at: usize| u64::from_le_bytes(fixed[at..at + 8].try_into().expect("8 of 30 bytes"));
        let (list, entries) = rest.split_at_checked(usize::from(short(28)) * SHARD_BYTES)?;
        let listed = |it: &[u8; SHARD_BYTES]| ListedShard {
            shard: ShardId(u16::from_le_bytes([it[0], it[1]])),
            tenure: Epoch(u64::from_le_bytes(it[2..10].try_into().expect("8 of 11 bytes"))),
            is_flushed: it[10] != 0,
        };
        let source = CopySource {
            life: long(0),
            core: short(8),
            core_count: short(10),
        };
        (source.core < source.core_count).then_some(())?;
        Some(CopyMessage {
            source,
            number: long(12),
            version: long(20),
            shards: list.as_chunks().0.iter().map(listed).collect(),
            entries: Entries::all(entries)?,
        })
    }
}

/// What a reply to a copy says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum CopyReply {
    /// All was taken but what belongs to these shards.
    Taken { refused: Vec<ShardId> },
    /// Nothing was taken: a later message had come before.
    Late,
}

impl CopyReply {
    /// Takes a reply apart; `None`: it is malformed.
    pub(super) fn of(reply: &[u8]) -> Option<CopyReply> {
        let (head, refused) = reply.split_first_chunk::<REPLY_HEAD_BYTES>()?;
        let (refused, []) = refused.as_chunks::<2>() else {
            return None;
        };
        match u64::from_le_bytes(head[..8].try_into().expect("8 of 24 bytes")) {
            0 if refused.is_empty() => Some(CopyReply::Late),
            1 => Some(CopyReply::Taken {
                refused: refused
                    .iter()
                    .map(|it| ShardId(u16::from_le_bytes(*it)))
                    .collect(),
            }),
            _ => None,
        }
    }
}

/// Whether a message is one about copies.
pub(crate) fn is_of_copies(message: &[u8]) -> bool {
    matches!(message.get(16), Some(b'c' | b'i' | b'q'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::HEAD_BYTES;
    use crate::handover::Name;

    fn listed(shard: u16, is_flushed: bool) -> ListedShard {
        ListedShard {
            shard: ShardId(shard),
            tenure: Epoch(7),
            is_flushed,
        }
    }

    #[test]
    fn a_copy_is_read_as_it_was_written() {
        let source = CopySource {
            life: 5,
            core: 2,
            core_count: 3,
        };
        let shards = [listed(1, false), listed(4000, true)];
        let mut message = Vec::new();
        CopyMessage::put_head(source, 9, 1 << 40, &shards, &mut message);
        let head_bytes = message.len();
        let (hash, key) = (KeyHash::default(), &b"key"[..]);
        Name { hash, key }.put(&mut message);
        assert!(is_of_copies(&message));
        let read = CopyMessage::of(&message[HEAD_BYTES..]).expect("it is whole");
        assert_eq!((read.source, read.number, read.version), (source, 9, 1 << 40));
        assert_eq!((&read.shards[..], read.entries.count()), (&shards[..], 1));
        for len in HEAD_BYTES..message.len() {
            // Without entries it is whole.
            let is_read = CopyMessage::of(&message[HEAD_BYTES..len]).is_some();
            assert_eq!(is_read, len == head_bytes, "{len} bytes");
        }
    }

    #[test]
    fn replies_name_what_was_refused() {
        let reply = |number: u8, refused: &[u8]| {
            let mut reply = [0; REPLY_HEAD_BYTES];
            reply[0] = number;
            CopyReply::of(&[&reply[..], refused].concat())
        };
        let refused = vec![ShardId(258)];
        assert_eq!(reply(1, &[2, 1]), Some(CopyReply::Taken { refused }));
        assert_eq!(reply(0, &[]), Some(CopyReply::Late));
        for malformed in [reply(1, &[2]), reply(0, &[2, 1]), reply(2, &[])] {
            assert_eq!(malformed, None);
        }
        assert_eq!(CopyReply::of(b"SERVER_ERROR internal error\r\n"), None);
    }

    #[test]
    fn questions_have_a_set_and_a_number() {
        let mut set = ShardSet::new(8);
        set.insert(ShardId(3));
        for message in [fill_message(&set, 77), drained_message(&set, 77)] {
            let body = &message[HEAD_BYTES..];
            assert_eq!(set_of(body), Some((set.clone(), 77)));
            assert!((0..body.len()).all(|len| set_of(&body[..len]).is_none()));
        }
    }
}
