//! The bytes of exports of simulated rooms. They never leave the process, but are decoded with the care due to a peer's.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | magic `SIMW` |
//! | 4 | 4 | what: 1 region, 2 queue pair, 3 bell |
//! | 8 | 8 | room |
//! | 16 | 4 | id of the region, queue pair or context |
//! | 20 | 4 | region: number of watches; queue pair: kind |
//! | 24 | 24 each | region: watched start, end, context (8 bytes each) |
//!
//! All little-endian.

use drover_verbs::{Export, ImportError, QpKind};
use std::ops::Range;

const MAGIC: u32 = u32::from_le_bytes(*b"SIMW");
const HEAD_BYTES: usize = 24;
const WATCH_BYTES: usize = 24;
/// More watches than this do not fit an export.
pub(crate) const WATCHES_MAX: usize = (Export::BYTES_MAX - HEAD_BYTES) / WATCH_BYTES;

/// What an export names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Name {
    /// A registered region and who is to be told of writes to which part of it.
    Region {
        mr: u32,
        watches: Vec<(Range<u64>, u32)>,
    },
    /// A queue pair.
    Qp { qpn: u32, kind: QpKind },
    /// A context to be woken.
    Bell { ctx: u32 },
}

pub(crate) fn encode(room: u64, name: &Name) -> Export {
    let (what, id, more) = match name {
        Name::Region { mr, watches } => (1, *mr, watches.len() as u32),
        Name::Qp { qpn, kind } => (2, *qpn, kind_code(*kind)),
        Name::Bell { ctx } => (3, *ctx, 0),
    };
    let mut bytes = Vec::with_capacity(HEAD_BYTES);
    bytes.extend(MAGIC.to_le_bytes());
    bytes.extend(u32::to_le_bytes(what));
    bytes.extend(room.to_le_bytes());
    bytes.extend(id.to_le_bytes());
    bytes.extend(more.to_le_bytes());
    if let Name::Region { watches, .. } = name {
        for (range, ctx) in watches {
            bytes.extend(range.start.to_le_bytes());
            bytes.extend(range.end.to_le_bytes());
            bytes.extend(u64::from(*ctx).to_le_bytes());
        }
    }
    Export {
        bytes,
        fds: Vec::new(),
    }
}

pub(crate) fn decode(room: u64, export: &Export) -> Result<Name, ImportError> {
    let bytes = &export.bytes;
    if bytes.len() < HEAD_BYTES || word(bytes, 0) as u32 != MAGIC {
        return Err(malformed("not an export of a simulated room"));
    }
    if word(bytes, 8) != room {
        return Err(malformed("of another room"));
    }
    let (what, id, more) = (half(bytes, 4), half(bytes, 16), half(bytes, 20));
    match what {
        1 => decode_region(bytes, id, more as usize),
        2 if bytes.len() == HEAD_BYTES => Ok(Name::Qp {
            qpn: id,
            kind: kind_of(more)?,
        }),
        3 if bytes.len() == HEAD_BYTES => Ok(Name::Bell { ctx: id }),
        _ => Err(malformed("unknown kind or wrong length")),
    }
}

fn decode_region(bytes: &[u8], mr: u32, count: usize) -> Result<Name, ImportError> {
    if count > WATCHES_MAX || bytes.len() != HEAD_BYTES + count * WATCH_BYTES {
        return Err(malformed("wrong number of watches"));
    }
    let watches = (0..count)
        .map(|i| HEAD_BYTES + i * WATCH_BYTES)
        .map(|at| (word(bytes, at)..word(bytes, at + 8), word(bytes, at + 16) as u32))
        .collect();
    Ok(Name::Region { mr, watches })
}

fn malformed(reason: &'static str) -> ImportError {
    ImportError::Malformed { reason }
}

/// The word at `at`, which is inside.
fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

/// The half word at `at`, which is inside.
fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn kind_code(kind: QpKind) -> u32 {
    match kind {
        QpKind::Rc => 0,
        QpKind::Uc => 1,
        QpKind::Ud => 2,
    }
}

fn kind_of(code: u32) -> Result<QpKind, ImportError> {
    match code {
        0 => Ok(QpKind::Rc),
        1 => Ok(QpKind::Uc),
        2 => Ok(QpKind::Ud),
        _ => Err(malformed("unknown kind of queue pair")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_come_back() {
        let names = [
            Name::Region {
                mr: 3,
                watches: vec![(0..64, 9), (128..4096, 1)],
            },
            Name::Qp {
                qpn: 77,
                kind: QpKind::Ud,
            },
            Name::Bell { ctx: 4 },
        ];
        for name in names {
            let export = encode(5, &name);
            assert_eq!(decode(5, &export).expect("own export"), name);
            assert!(decode(6, &export).is_err(), "another room's export was taken");
        }
    }

    proptest! {
        #[test]
        fn bent_exports_never_panic(cut in 0usize..80, at in 0usize..72, byte in any::<u8>()) {
            let mut export = encode(5, &Name::Region { mr: 3, watches: vec![(0..64, 9), (8..9, 1)] });
            export.bytes[at] = byte;
            export.bytes.truncate(cut);
            let _ = decode(5, &export);
        }
    }
}
