//! [`Names`]: the bytes of exports of fabrics within one process. They never leave the process, but are decoded as
//! carefully as a peer's.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 4 | magic of the provider |
//! | 4 | 4 | kind of object: 1 region, 2 queue pair, 3 bell |
//! | 8 | 8 | fabric |
//! | 16 | 4 | id of the region, queue pair or context |
//! | 20 | 4 | region: number of watches; queue pair: kind |
//! | 24 | 24 each | region: watched start, end, context (8 bytes each) |
//!
//! All little-endian.

use crate::{Bell, Export, ImportError, QpKind, Watch};
use std::ops::Range;

const HEAD_BYTES: usize = 24;
const WATCH_BYTES: usize = 24;
/// Most watches that fit an export.
const WATCHES_MAX: usize = (Export::BYTES_MAX - HEAD_BYTES) / WATCH_BYTES;

/// The object that an export names.
#[derive(Clone, Debug, PartialEq)]
pub enum Name {
    /// A registered region and the contexts to wake on writes to its parts.
    Region {
        /// Id of the region.
        mr: u32,
        /// Ranges of offsets, each with the context to wake.
        watches: Vec<(Range<u64>, u32)>,
    },
    /// A queue pair, to connect to or to send datagrams to.
    Qp {
        /// Number of the queue pair.
        qpn: u32,
        /// RC, UC or UD.
        kind: QpKind,
    },
    /// The bell of a context.
    Bell {
        /// Id of the context.
        ctx: u32,
    },
}

/// Encodes and decodes the exports of one fabric, for providers whose fabrics do not leave the process: an export holds
/// only the id of its object.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// Four bytes that identify the provider.
    pub magic: [u8; 4],
    /// Id of the fabric: exports of other fabrics of the same provider are refused.
    pub fabric: u64,
}

impl Names {
    /// Encodes `name` as an export without descriptors.
    pub fn encode(&self, name: &Name) -> Export {
        let (what, id, more) = match name {
            Name::Region { mr, watches } => (1, *mr, watches.len() as u32),
            Name::Qp { qpn, kind } => (2, *qpn, u32::from(kind_code(*kind))),
            Name::Bell { ctx } => (3, *ctx, 0),
        };
        let mut bytes = Vec::with_capacity(HEAD_BYTES);
        bytes.extend(self.magic);
        bytes.extend(u32::to_le_bytes(what));
        bytes.extend(self.fabric.to_le_bytes());
        bytes.extend(id.to_le_bytes());
        bytes.extend(more.to_le_bytes());
        if let Name::Region { watches, .. } = name {
            for (range, ctx) in watches {
                bytes.extend(range.start.to_le_bytes());
                bytes.extend(range.end.to_le_bytes());
                bytes.extend(u64::from(*ctx).to_le_bytes());
            }
        }
        let fds = Vec::new();
        Export { bytes, fds }
    }

    /// Decodes the name in `export`.
    ///
    /// # Errors
    /// [`ImportError::Malformed`] if it belongs to another provider or fabric, or is damaged.
    pub fn decode(&self, export: &Export) -> Result<Name, ImportError> {
        let bytes = &export.bytes;
        if bytes.len() < HEAD_BYTES || bytes[..4] != self.magic {
            return Err(malformed("not an export of this provider"));
        }
        if word(bytes, 8) != self.fabric {
            return Err(malformed("of another fabric"));
        }
        let (what, id, more) = (half(bytes, 4), half(bytes, 16), half(bytes, 20));
        match what {
            1 => decode_region(bytes, id, more as usize),
            2 if bytes.len() == HEAD_BYTES => Ok(Name::Qp {
                qpn: id,
                kind: kind_of(u8::try_from(more).unwrap_or(u8::MAX))?,
            }),
            3 if bytes.len() == HEAD_BYTES => Ok(Name::Bell { ctx: id }),
            _ => Err(malformed("unknown kind or wrong length")),
        }
    }

    /// The bell of context `ctx`.
    pub fn bell(&self, ctx: u32) -> Bell {
        Bell(self.encode(&Name::Bell { ctx }))
    }

    /// The export of the region with id `mr` (not checked to exist) and of its watched parts: a peer that writes to
    /// such a part rings its bell.
    ///
    /// # Panics
    /// If there are more than 340 watches, which is what fits an export, or a watch has the bell of another fabric.
    pub fn region(&self, mr: u32, watches: &[Watch]) -> Export {
        assert!(watches.len() <= WATCHES_MAX, "more than {WATCHES_MAX} watches");
        let watches = watches.iter().map(|watch| {
            let Ok(Name::Bell { ctx }) = self.decode(&watch.bell.0) else {
                panic!("a watch with the bell of another fabric");
            };
            (watch.range.start as u64..watch.range.end as u64, ctx)
        });
        let watches = watches.collect();
        self.encode(&Name::Region { mr, watches })
    }

    /// Number and kind of the queue pair that `export` names.
    ///
    /// # Errors
    /// As [`decode`](Names::decode), and if it names something else.
    pub fn queue_pair(&self, export: &Export) -> Result<(u32, QpKind), ImportError> {
        match self.decode(export)? {
            Name::Qp { qpn, kind } => Ok((qpn, kind)),
            _ => Err(malformed("not a queue pair")),
        }
    }

    /// Number of the UD queue pair that `export` names.
    ///
    /// # Errors
    /// As [`decode`](Names::decode), and if it names something else.
    pub fn datagram_queue_pair(&self, export: &Export) -> Result<u32, ImportError> {
        match self.decode(export)? {
            Name::Qp {
                qpn,
                kind: QpKind::Ud,
            } => Ok(qpn),
            _ => Err(malformed("not a datagram queue pair")),
        }
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

/// The 8-byte word at `at`, which the caller has checked to be inside.
fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

/// The 4-byte word at `at`, which the caller has checked to be inside.
fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

/// Code of `kind` in exports: 0 RC, 1 UC, 2 UD.
pub fn kind_code(kind: QpKind) -> u8 {
    match kind {
        QpKind::Rc => 0,
        QpKind::Uc => 1,
        QpKind::Ud => 2,
    }
}

/// Decodes a [`kind_code`].
///
/// # Errors
/// [`ImportError::Malformed`] for an unknown code.
pub fn kind_of(code: u8) -> Result<QpKind, ImportError> {
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

    const OURS: Names = Names {
        magic: *b"TEST",
        fabric: 5,
    };

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
            let export = OURS.encode(&name);
            assert_eq!(OURS.decode(&export).expect("own export"), name);
            let (magic, fabric) = (OURS.magic, OURS.fabric + 1);
            assert!(
                Names { magic, fabric }.decode(&export).is_err(),
                "another fabric's export was taken"
            );
            let (magic, fabric) = (*b"ELSE", OURS.fabric);
            assert!(
                Names { magic, fabric }.decode(&export).is_err(),
                "another provider's export was taken"
            );
        }
    }

    proptest! {
        #[test]
        fn bent_exports_never_panic(cut in 0usize..80, at in 0usize..72, byte in any::<u8>()) {
            let mut export = OURS.encode(&Name::Region { mr: 3, watches: vec![(0..64, 9), (8..9, 1)] });
            export.bytes[at] = byte;
            export.bytes.truncate(cut);
            let _ = OURS.decode(&export);
        }
    }
}
