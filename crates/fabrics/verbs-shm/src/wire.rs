//! The bytes of exports. They come from a peer: every field is checked, and trailing bytes are an error.
//!
//! ```text
//! all      0 4  magic "dShm"   4 2 version   6 1 kind (1 region, 2 queue pair, 3 bell)
//! region   7 8  bytes          15 1 access (1 local write, 2 read, 4 write, 8 atomic)   16 2 watch count
//!          then per watch: 8 start, 8 end (offsets), 1 index of its bell's descriptor
//!          descriptors: the region, then bells
//! queue    7 1  kind (0 RC, 1 UC, 2 UD)   8 4 number   12 4 queue key   16 1 log2 of ring lines
//! pair    17 4  RECV length slots   21 1  1: the peer must fence every post, because the exporter has no barrier
//!          descriptors: the lane, the bell
//! bell     nothing more; descriptor: the bell page
//! ```
//! Little-endian, written by the exporter.

use drover_verbs::provide::{kind_code, kind_of};
use drover_verbs::{Access, ImportError, QpKind};

const MAGIC: u32 = u32::from_le_bytes(*b"dShm");
const VERSION: u16 = 3;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct WatchExport {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) bell_fd: u8,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RegionExport {
    pub(crate) len: u64,
    pub(crate) access: Access,
    pub(crate) watches: Vec<WatchExport>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct QpExport {
    pub(crate) kind: QpKind,
    pub(crate) qpn: u32,
    pub(crate) qkey: u32,
    pub(crate) ring_shift: u8,
    pub(crate) recv_slots: u32,
    pub(crate) needs_fences: bool,
}

const KIND_REGION: u8 = 1;
const KIND_QP: u8 = 2;
const KIND_BELL: u8 = 3;

fn header(kind: u8) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    out.extend_from_slice(&MAGIC.to_le_bytes());
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.push(kind);
    out
}

pub(crate) fn encode_bell() -> Vec<u8> {
    header(KIND_BELL)
}

pub(crate) fn decode_bell(bytes: &[u8]) -> Result<(), ImportError> {
    Reader::open(bytes, KIND_BELL)?.finish()
}

pub(crate) fn encode_qp(qp: &QpExport) -> Vec<u8> {
    let mut out = header(KIND_QP);
    out.push(kind_code(qp.kind));
    out.extend_from_slice(&qp.qpn.to_le_bytes());
    out.extend_from_slice(&qp.qkey.to_le_bytes());
    out.push(qp.ring_shift);
    out.extend_from_slice(&qp.recv_slots.to_le_bytes());
    out.push(u8::from(qp.needs_fences));
    out
}

pub(crate) fn decode_qp(bytes: &[u8]) -> Result<QpExport, ImportError> {
    let mut reader = Reader::open(bytes, KIND_QP)?;
    let kind = kind_of(reader.u8()?)?;
    let qp = QpExport {
        kind,
        qpn: reader.u32()?,
        qkey: reader.u32()?,
        ring_shift: reader.u8()?,
        recv_slots: reader.u32()?,
        needs_fences: reader.u8()? != 0,
    };
    reader.finish()?;
    Ok(qp)
}

pub(crate) fn encode_region(region: &RegionExport) -> Vec<u8> {
    let mut out = header(KIND_REGION);
    out.extend_from_slice(&region.len.to_le_bytes());
    let a = region.access;
    let bits = [a.local_write, a.remote_read, a.remote_write, a.remote_atomic];
    out.push(bits.iter().enumerate().map(|(i, &bit)| u8::from(bit) << i).sum());
    out.extend_from_slice(&(region.watches.len() as u16).to_le_bytes());
    for watch in &region.watches {
        out.extend_from_slice(&watch.start.to_le_bytes());
        out.extend_from_slice(&watch.end.to_le_bytes());
        out.push(watch.bell_fd);
    }
    out
}

pub(crate) fn decode_region(bytes: &[u8], fd_count: usize) -> Result<RegionExport, ImportError> {
    let mut reader = Reader::open(bytes, KIND_REGION)?;
    let len = reader.u64()?;
    let bits = reader.u8()?;
    let access = Access {
        local_write: bits & 1 != 0,
        remote_read: bits & 2 != 0,
        remote_write: bits & 4 != 0,
        remote_atomic: bits & 8 != 0,
    };
    if bits > 15 || !access.is_consistent() {
        return Err(ImportError::Malformed {
            reason: "impossible access rights",
        });
    }
    let count = reader.u16()?;
    let mut watches = Vec::new();
    for _ in 0..count {
        let watch = WatchExport {
            start: reader.u64()?,
            end: reader.u64()?,
            bell_fd: reader.u8()?,
        };
        if watch.start > watch.end || watch.end > len {
            return Err(ImportError::Malformed {
                reason: "a watch outside its region",
            });
        }
        if usize::from(watch.bell_fd) >= fd_count || watch.bell_fd == 0 {
            return Err(ImportError::Malformed {
                reason: "a watch without its bell",
            });
        }
        watches.push(watch);
    }
    reader.finish()?;
    Ok(RegionExport { len, access, watches })
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn open(bytes: &'a [u8], kind: u8) -> Result<Reader<'a>, ImportError> {
        let mut reader = Reader { rest: bytes };
        if reader.u32()? != MAGIC {
            return Err(ImportError::Malformed {
                reason: "not an export of the shm provider",
            });
        }
        if reader.u16()? != VERSION {
            return Err(ImportError::Malformed {
                reason: "an export of another version",
            });
        }
        if reader.u8()? != kind {
            return Err(ImportError::Malformed {
                reason: "an export of another kind of object",
            });
        }
        Ok(reader)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], ImportError> {
        let (head, rest) = self
            .rest
            .split_first_chunk::<N>()
            .ok_or(ImportError::Malformed { reason: "truncated" })?;
        self.rest = rest;
        Ok(*head)
    }

    fn u8(&mut self) -> Result<u8, ImportError> {
        Ok(self.take::<1>()?[0])
    }

    fn u16(&mut self) -> Result<u16, ImportError> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, ImportError> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, ImportError> {
        self.take().map(u64::from_le_bytes)
    }

    fn finish(self) -> Result<(), ImportError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(ImportError::Malformed {
                reason: "left-over bytes",
            })
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn exports_survive_the_trip(len: u64, cut in 0u64..100, kind in 0usize..3, qpn: u32, slots: u32) {
            let region = RegionExport {
                len,
                access: Access::ALL,
                watches: vec![WatchExport { start: len.min(cut), end: len, bell_fd: 1 }],
            };
            prop_assert_eq!(decode_region(&encode_region(&region), 2).expect("valid"), region);
            let kind = [QpKind::Rc, QpKind::Uc, QpKind::Ud][kind];
            let qp = QpExport { kind, qpn, qkey: !qpn, ring_shift: 9, recv_slots: slots, needs_fences: slots & 1 == 1 };
            prop_assert_eq!(decode_qp(&encode_qp(&qp)).expect("valid"), qp);
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64), kind in 1u8..4) {
            let mut framed = header(kind);
            framed.extend_from_slice(&bytes);
            for input in [&bytes, &framed] {
                let _ = decode_region(input, 3);
                let _ = decode_qp(input);
                let _ = decode_bell(input);
            }
        }
    }
}
