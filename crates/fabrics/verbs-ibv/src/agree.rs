//! What two ends agree on when they are connected, and when they cannot: pure functions over both ends' limits.
//!
//! - **RC** takes the smaller of both MTUs: messages are cut and put together again.
//! - **UC** and **UD** promise what fits one packet to land whole, and protocols have read what that is from our
//!   capabilities before there was a peer. A peer that takes less is refused: what is longer would vanish without a
//!   word.
//! - An MTU that somebody asked for is not made smaller behind his back.
//! - READs and atomics in flight: what we ask for and the peer answers, whichever is less.
//! - Inline payloads are a matter of each end alone; the smaller length is told for those who want formats that
//!   both ends inline.

use crate::device::Opening;
use crate::wire::QpName;
use drover_verbs::QpKind;
use std::net::{IpAddr, Ipv6Addr};

/// What both ends can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Agreement {
    /// Bytes that a packet carries.
    pub mtu_bytes: usize,
    /// READs and atomics in flight from here to the peer.
    pub reads_outstanding: usize,
    /// The longest payload that both ends' devices take inline, bytes.
    pub inline_bytes: usize,
}

/// The peer's packets are too small.
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

/// Codes of the MTU and count of READs, for the two transitions, and what it means.
pub(crate) struct Agreed {
    pub(crate) mtu_code: u8,
    pub(crate) reads_max: u8,
    pub(crate) meaning: Agreement,
}

/// Ours and a peer's. Its numbers were checked when they were decoded.
pub(crate) fn agree(kind: QpKind, ours: &Opening, peer: &QpName) -> Result<Agreed, MtuMismatch> {
    let harm = match kind {
        QpKind::Rc if ours.mtu_asked => Some("the packets asked for cannot be sent"),
        QpKind::Rc => None,
        QpKind::Uc => Some("longer WRITEs may land in part"),
        QpKind::Ud => Some("longer datagrams vanish"),
    };
    if let Some(harm) = harm.filter(|_| peer.mtu < ours.mtu_code) {
        let gid = Ipv6Addr::from(peer.gid);
        return Err(MtuMismatch {
            kind,
            place: ours.place(),
            ours: mtu_bytes(ours.mtu_code),
            peer: gid.to_ipv4_mapped().map_or(IpAddr::V6(gid), IpAddr::V4),
            theirs: mtu_bytes(peer.mtu),
            harm,
        });
    }
    let mtu_code = ours.mtu_code.min(peer.mtu);
    let reads_max = ours.reads_max.min(peer.reads_max);
    let meaning = Agreement {
        mtu_bytes: mtu_bytes(mtu_code),
        reads_outstanding: reads_max.into(),
        inline_bytes: ours.inline_bytes_max.min(peer.inline_bytes_max).into(),
    };
    Ok(Agreed {
        mtu_code,
        reads_max,
        meaning,
    })
}

/// The code of an MTU that was asked for, at a port with that of code `most`.
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

/// What the code of an MTU means, bytes.
pub(crate) fn mtu_bytes(code: u8) -> usize {
    128 << code
}
