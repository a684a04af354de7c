//! The bytes of exports. They come from a peer: every length, kind and reserved byte is checked.
//!
//! | offset | size | region | queue pair | bell |
//! |---|---|---|---|---|
//! | 0 | 4 | magic `IBV1` | the same | the same |
//! | 4 | 1 | 1 | 2 | 3 |
//! | 5 | 1 | rights, one bit each | kind: 0 RC, 1 UC, 2 UD | 0 |
//! | 6 | 1 | 0 | path MTU, code 1 to 5 | 0 |
//! | 7 | 1 | 0 | RNR timer, code 0 to 31 | 0 |
//! | 8 | 4 | rkey | number | |
//! | 12 | 4 | 0 | first packet sequence number | |
//! | 16 | 8, 4 | length | qkey | |
//! | 20 | 2 | | LID (InfiniBand) | |
//! | 22 | 1 | | READs and atomics it answers at a time | |
//! | 23 | 1 | | 0 | |
//! | 24 | 16 | | GID | |
//! | 40 | 2 | | longest inline payload of its device, bytes | |
//! | 42 | 2 | | 0 | |
//!
//! Little-endian. A region has 24 bytes, a queue pair 44, a bell 8.

use drover_verbs::provide::{kind_code, kind_of};
use drover_verbs::{Access, Export, ImportError, QpKind};

const MAGIC: [u8; 4] = *b"IBV1";
const REGION_BYTES: usize = 24;
const QP_BYTES: usize = 44;
const BELL_BYTES: usize = 8;

/// A registered region as exported to peers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RegionName {
    pub(crate) rkey: u32,
    pub(crate) len: u64,
    pub(crate) access: Access,
}

/// A queue pair as exported to peers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct QpName {
    pub(crate) kind: QpKind,
    pub(crate) mtu: u8,
    pub(crate) rnr_timer: u8,
    pub(crate) qpn: u32,
    pub(crate) psn: u32,
    pub(crate) qkey: u32,
    pub(crate) lid: u16,
    pub(crate) reads_max: u8,
    pub(crate) gid: [u8; 16],
    pub(crate) inline_bytes_max: u16,
}

fn head(what: u8, rest: [u8; 3]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(QP_BYTES);
    bytes.extend(MAGIC);
    bytes.push(what);
    bytes.extend(rest);
    bytes
}

fn export(bytes: Vec<u8>) -> Export {
    let fds = Vec::new();
    Export { bytes, fds }
}

pub(crate) fn encode_region(region: &RegionName) -> Export {
    let mut bytes = head(1, [access_bits(region.access), 0, 0]);
    bytes.extend(region.rkey.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(region.len.to_le_bytes());
    export(bytes)
}

pub(crate) fn encode_qp(qp: &QpName) -> Export {
    let mut bytes = head(2, [kind_code(qp.kind), qp.mtu, qp.rnr_timer]);
    bytes.extend(qp.qpn.to_le_bytes());
    bytes.extend(qp.psn.to_le_bytes());
    bytes.extend(qp.qkey.to_le_bytes());
    bytes.extend(qp.lid.to_le_bytes());
    bytes.extend([qp.reads_max, 0]);
    bytes.extend(qp.gid);
    bytes.extend(qp.inline_bytes_max.to_le_bytes());
    bytes.extend([0; 2]);
    export(bytes)
}

pub(crate) fn encode_bell() -> Export {
    export(head(3, [0; 3]))
}

pub(crate) fn decode_region(export: &Export) -> Result<RegionName, ImportError> {
    let bytes = checked(export, 1, REGION_BYTES, "not a region of this provider")?;
    if bytes[5] >= 16 || bytes[6..8] != [0; 2] || bytes[12..16] != [0; 4] {
        return Err(malformed("unknown rights of a region"));
    }
    Ok(RegionName {
        rkey: half(bytes, 8),
        len: u64::from_le_bytes(bytes[16..24].try_into().expect("8 bytes")),
        access: access_of(bytes[5]),
    })
}

pub(crate) fn decode_qp(export: &Export) -> Result<QpName, ImportError> {
    let bytes = checked(export, 2, QP_BYTES, "not a queue pair of this provider")?;
    let (mtu, rnr_timer) = (bytes[6], bytes[7]);
    if !(1..=5).contains(&mtu) || rnr_timer > 31 || bytes[23] != 0 || bytes[42..44] != [0; 2] {
        return Err(malformed("a queue pair with impossible numbers"));
    }
    let (qpn, psn) = (half(bytes, 8), half(bytes, 12));
    if qpn >> 24 != 0 || psn >> 24 != 0 {
        return Err(malformed("numbers of queue pairs have 24 bits"));
    }
    Ok(QpName {
        kind: kind_of(bytes[5])?,
        mtu,
        rnr_timer,
        qpn,
        psn,
        qkey: half(bytes, 16),
        lid: quarter(bytes, 20),
        reads_max: bytes[22],
        gid: bytes[24..40].try_into().expect("16 bytes"),
        inline_bytes_max: quarter(bytes, 40),
    })
}

/// Whether the export is a bell of this provider.
pub(crate) fn is_bell(export: &Export) -> bool {
    checked(export, 3, BELL_BYTES, "").is_ok()
}

fn checked<'e>(
    export: &'e Export,
    what: u8,
    len: usize,
    reason: &'static str,
) -> Result<&'e [u8], ImportError> {
    let bytes = export.bytes.as_slice();
    match bytes.len() == len && bytes[..4] == MAGIC && bytes[4] == what && export.fds.is_empty() {
        true => Ok(bytes),
        false => Err(malformed(reason)),
    }
}

fn quarter(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn malformed(reason: &'static str) -> ImportError {
    ImportError::Malformed { reason }
}

fn access_bits(access: Access) -> u8 {
    u8::from(access.local_write)
        | u8::from(access.remote_read) << 1
        | u8::from(access.remote_write) << 2
        | u8::from(access.remote_atomic) << 3
}

fn access_of(bits: u8) -> Access {
    Access {
        local_write: bits & 1 != 0,
        remote_read: bits & 2 != 0,
        remote_write: bits & 4 != 0,
        remote_atomic: bits & 8 != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QP: QpName = QpName {
        kind: QpKind::Uc,
        mtu: 3,
        rnr_timer: 12,
        qpn: 0x123456,
        psn: 0xfedcba,
        qkey: 0x8765_4321,
        lid: 7,
        reads_max: 16,
        gid: [9; 16],
        inline_bytes_max: 220,
    };
    const REGION: RegionName = RegionName {
        rkey: 0xdead_beef,
        len: 1 << 40,
        access: Access::REMOTE_WRITE,
    };

    #[test]
    fn names_come_back() {
        assert_eq!(decode_qp(&encode_qp(&QP)).expect("our own"), QP);
        assert_eq!(decode_region(&encode_region(&REGION)).expect("our own"), REGION);
        assert!(is_bell(&encode_bell()));
        assert!(!is_bell(&encode_region(&REGION)) && decode_region(&encode_bell()).is_err());
    }

    #[test]
    fn a_bent_byte_is_refused_or_another_name_but_never_a_panic() {
        for export in [encode_qp(&QP), encode_region(&REGION)] {
            for at in 0..export.bytes.len() {
                for value in 0..=u8::MAX {
                    let mut bent = export.clone();
                    bent.bytes[at] = value;
                    for again in [
                        decode_qp(&bent).map(|name| encode_qp(&name)),
                        decode_region(&bent).map(|name| encode_region(&name)),
                    ]
                    .into_iter()
                    .flatten()
                    {
                        assert_eq!(again.bytes, bent.bytes, "what is taken is taken whole");
                    }
                }
                let mut cut = export.clone();
                cut.bytes.truncate(at);
                assert!(decode_qp(&cut).is_err() && decode_region(&cut).is_err());
            }
        }
    }
}
