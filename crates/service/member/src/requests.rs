//! What the next owner of shards asks the owner's control thread.
//!
//! | offset | size | field | |
//! |---|---|---|---|
//! | 0 | 1 | kind | `b`: begin to note what changes; `n`: what has been noted; `f`: freeze |
//! | 1 | 10 each | shard (2), tenure (8) | of the moves that are meant |
//!
//! The reply to `b` and `f` has one byte per move: 1 if the owner agrees, 0 if it knows another map. When it arrives, every core of the
//! owner does as it says. The reply to `n` is a list of cores, each once at most and none if nothing is left:
//! index (2), length in bytes (4), and the noted names as [entries](drover_memcached::handover::Entry). Numbers are little-endian.

use drover_base::KeyHash;
use drover_cluster::{Epoch, NotedKey, ShardId};
use drover_memcached::handover::Name;

/// One shard on its way to one tenure.
pub(crate) type Moving = (ShardId, Epoch);

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ask {
    Begin,
    Noted,
    Freeze,
}

/// The request about these moves.
pub(crate) fn encode(ask: Ask, moves: &[Moving]) -> Vec<u8> {
    let mut bytes = vec![match ask {
        Ask::Begin => b'b',
        Ask::Noted => b'n',
        Ask::Freeze => b'f',
    }];
    for (shard, tenure) in moves {
        bytes.extend_from_slice(&shard.0.to_le_bytes());
        bytes.extend_from_slice(&tenure.0.to_le_bytes());
    }
    bytes
}

/// The inverse of [`encode`], for a service with `shard_count` shards; `None`: malformed.
pub(crate) fn decode(bytes: &[u8], shard_count: usize) -> Option<(Ask, Vec<Moving>)> {
    let (kind, moves) = bytes.split_first()?;
    let ask = match kind {
        b'b' => Ask::Begin,
        b'n' => Ask::Noted,
        b'f' => Ask::Freeze,
        _ => return None,
    };
    let (moves, []) = moves.as_chunks::<10>() else {
        return None;
    };
    let moving = |bytes: &[u8; 10]| {
        let shard = ShardId(u16::from_le_bytes([bytes[0], bytes[1]]));
        let tenure = u64::from_le_bytes(bytes[2..].try_into().expect("8 of 10 bytes"));
        (shard.index() < shard_count).then_some((shard, Epoch(tenure)))
    };
    Some((ask, moves.iter().map(moving).collect::<Option<_>>()?))
}

/// Appends what one core has noted to the reply to [`Ask::Noted`].
pub(crate) fn push_noted(reply: &mut Vec<u8>, core: u16, keys: &[NotedKey]) {
    if keys.is_empty() {
        return;
    }
    let mut names = Vec::new();
    for key in keys {
        let name = match key {
            NotedKey::Key(key) => Name {
                hash: KeyHash::default(),
                key,
            },
            NotedKey::Hash(hash) => Name {
                hash: KeyHash::from_bytes(*hash),
                key: &[],
            },
        };
        name.put(&mut names);
    }
    reply.extend_from_slice(&core.to_le_bytes());
    reply.extend_from_slice(&(names.len() as u32).to_le_bytes());
    reply.extend_from_slice(&names);
}

/// The cores of a reply to [`Ask::Noted`], and the bytes of their names; `None`: malformed.
pub(crate) fn noted_of(reply: &[u8]) -> Option<Vec<(u16, &[u8])>> {
    let (mut rest, mut cores) = (reply, Vec::new());
    while let Some((head, names)) = rest.split_first_chunk::<6>() {
        let core = u16::from_le_bytes([head[0], head[1]]);
        let len = u32::from_le_bytes(head[2..].try_into().expect("4 of 6 bytes"));
        let (names, after) = names.split_at_checked(len as usize)?;
        cores.push((core, names));
        rest = after;
    }
    rest.is_empty().then_some(cores)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_lists_come_back_as_they_were() {
        let moves = [(ShardId(3), Epoch(9)), (ShardId(63), Epoch(1 << 40))];
        for ask in [Ask::Begin, Ask::Noted, Ask::Freeze] {
            assert_eq!(decode(&encode(ask, &moves), 64), Some((ask, moves.to_vec())));
            assert_eq!(decode(&encode(ask, &moves), 63), None, "no such shard");
        }
        for bad in [&b""[..], b"x", b"b123"] {
            assert_eq!(decode(bad, 64), None);
        }
        let mut reply = Vec::new();
        push_noted(&mut reply, 0, &[]);
        push_noted(&mut reply, 2, &[NotedKey::Key(Box::from(&b"key"[..]))]);
        let cores = noted_of(&reply).expect("a list");
        assert_eq!((cores.len(), cores[0].0), (1, 2));
        assert_eq!(noted_of(&reply[..reply.len() - 1]), None);
    }
}
