//! Parameters that two ends agree on when they connect, and cases in which they cannot: pure functions over both ends'
//! limits.
//!
//! - **RC** uses the smaller of both MTUs: messages are segmented and reassembled.
//! - **UC** and **UD** guarantee that a message of one packet arrives whole, and protocols read that size from our
//!   capabilities before there is a peer. A peer with a smaller MTU is refused: longer messages would be lost silently.
//! - An MTU requested by the user is never reduced silently.
//! - READs and atomics in flight: the smaller of our request limit and the peer's answer limit.
//! - The inline limit concerns each end alone; the smaller one is reported for formats that both ends send inline.

use crate::device::Opening;
use crate::wire::QpName;
use drover_verbs::QpKind;
use std::net::{IpAddr, Ipv6Addr};

/// Parameters of an RC or UC connection: the largest that both ends support.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Agreement {
    /// Most payload bytes of a packet on this connection.
    pub mtu_bytes: usize,
    /// Most READs and atomics in flight from this end to the peer. Over UC, which has neither, it has no meaning.
    pub reads_outstanding: usize,
    /// Longest payload that both ends' devices can send inline, in bytes. A queue pair may have been created for less.
    pub inline_bytes: usize,
}

/// The peer's MTU is too small.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{kind:?} packets from {place} carry up to {ours} bytes and the peer {peer} takes {theirs}, so that {harm}; give \
     the network interfaces of both ends the same MTU (ip link set DEV mtu N)"
)]
pub(crate) struct MtuMismatch {
    kind: QpKind,
    place: String,
    ours: usize,
    peer: IpAddr,
    theirs: usize,
    harm: &'static str,
}

/// MTU code and count of READs, for the two state transitions, and their meaning.
pub(crate) struct Agreed {
    pub(crate) mtu_code: u8,
    pub(crate) reads_max: u8,
    pub(crate) meaning: Agreement,
}

/// Combines our parameters with a peer's, which were validated when they were decoded.
pub(crate) fn agree(kind: QpKind, ours: &Opening, peer: &QpName) -> Result<Agreed, MtuMismatch> {
    let harm = match kind {
        QpKind::Rc if ours.end.mtu_asked => Some("the packets asked for cannot be sent"),
        QpKind::Rc => None,
        QpKind::Uc => Some("longer WRITEs may land in part"),
        QpKind::Ud => Some("longer datagrams vanish"),
    };
    if let Some(harm) = harm.filter(|_| peer.mtu < ours.end.mtu_code) {
        let gid = Ipv6Addr::from(peer.gid);
        return Err(MtuMismatch {
            kind,
            place: ours.place(),
            ours: mtu_bytes(ours.end.mtu_code),
            peer: gid.to_ipv4_mapped().map_or(IpAddr::V6(gid), IpAddr::V4),
            theirs: mtu_bytes(peer.mtu),
            harm,
        });
    }
    let mtu_code = ours.end.mtu_code.min(peer.mtu);
    let reads_max = ours.end.reads_max.min(peer.reads_max);
    let meaning = Agreement {
        mtu_bytes: mtu_bytes(mtu_code),
        reads_outstanding: reads_max.into(),
        inline_bytes: ours.end.inline_bytes_max.min(peer.inline_bytes_max).into(),
    };
    Ok(Agreed {
        mtu_code,
        reads_max,
        meaning,
    })
}

/// Code of a requested MTU, at a port with MTU code `most`.
pub(crate) fn asked_mtu(bytes: usize, most: u8, place: &str) -> Result<u8, String> {
    let Some(code) = (1..=5).find(|code| mtu_bytes(*code) == bytes) else {
        return Err(format!(
            "packets cannot carry {bytes} bytes: verbs have 256, 512, 1024, 2048 and 4096"
        ));
    };
    match code <= most {
        true => Ok(code),
        false => Err(format!(
            "packets of {place} carry up to {} bytes, not {bytes}: raise the MTU of its network interface above that \
             (ip link set DEV mtu {}), or ask for less",
            mtu_bytes(most),
            bytes + 100
        )),
    }
}

/// Bytes of an MTU code.
pub(crate) fn mtu_bytes(code: u8) -> usize {
    128 << code
}
