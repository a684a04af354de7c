//! Rules of remote access: rights, bounds, keys. Over RC a refusal completes with an error and breaks the queue pair;
//! over UC it is silent and has no effect.

use super::link::{HALF_BYTES, Link, Setup, signaled};
use super::{Check, End, ensure_eq};
use drover_verbs::{
    Access, Context, MemoryRegion, Payload, Provider, QpKind, QpState, QueuePair, RemoteAddr, SendOp, SendWr,
    WcStatus,
};

/// A link to a peer that grants these rights.
async fn link_giving<P: Provider>(end: &mut End<P>, access: Access) -> Result<Link<P>, super::Stop> {
    let setup = match end.initiates() {
        true => Setup::new(),
        false => Setup {
            access,
            ..Setup::new()
        },
    };
    end.link(&setup).await
}

/// Posts a request that must be refused, expects the refusal, and checks that the responder's region stays all zeros.
pub(super) async fn denied<P: Provider>(end: &mut End<P>, link: &mut Link<P>, wr: SendWr) -> Check {
    if end.initiates() {
        link.post(end, &[wr])?;
        let wc = end.take_one(link.send_cq).await?;
        let (status, state) = match end.kind {
            QpKind::Rc => (WcStatus::RemoteAccess, QpState::Error),
            QpKind::Uc | QpKind::Ud => (WcStatus::Success, QpState::ReadyToSend),
        };
        ensure_eq!((wc.status, link.qp.state()), (status, state), "status and state");
    }
    end.meet().await?;
    end.quiet(link.send_cq).await?;
    if !end.initiates() {
        let touched = link.bytes(0, HALF_BYTES).iter().position(|&byte| byte != 0);
        ensure_eq!(touched, None, "a byte changed");
    }
    end.meet().await
}

/// A WRITE to an address outside the link's own region.
fn write_to<P: Provider>(link: &mut Link<P>, remote: RemoteAddr) -> SendWr {
    let wr = link.write(1, 0, b"intruder");
    let op = SendOp::Write { remote, imm: None };
    SendWr { op, ..wr }
}

/// No WRITE without the right.
pub(super) async fn write_denied<P: Provider>(end: &mut End<P>) -> Check {
    for access in [Access::LOCAL, Access::REMOTE_READ] {
        let mut link = link_giving(end, access).await?;
        let wr = link.write(1, 64, b"intruder");
        denied(end, &mut link, wr).await?;
    }
    Ok(())
}

/// No READ without the right.
pub(super) async fn read_denied<P: Provider>(end: &mut End<P>) -> Check {
    for access in [Access::LOCAL, Access::REMOTE_WRITE] {
        let mut link = link_giving(end, access).await?;
        let wr = link.read(1, 64, 0, 64);
        denied(end, &mut link, wr).await?;
    }
    Ok(())
}

/// No atomics without the right.
pub(super) async fn atomic_denied<P: Provider>(end: &mut End<P>) -> Check {
    for swap in [true, false] {
        let readable_and_writable = Access {
            remote_read: true,
            ..Access::REMOTE_WRITE
        };
        let mut link = link_giving(end, readable_and_writable).await?;
        let remote = link.remote.at(64);
        let op = match swap {
            true => SendOp::CompareSwap {
                remote,
                compare: 0,
                swap: 1,
            },
            false => SendOp::FetchAdd { remote, add: 1 },
        };
        let wr = signaled(1, op, Payload::Region(link.mr.sge(0, 8)));
        denied(end, &mut link, wr).await?;
    }
    Ok(())
}

/// Accesses outside the region are refused: by one byte, and by address overflow.
pub(super) async fn out_of_bounds_denied<P: Provider>(end: &mut End<P>) -> Check {
    for offset in [
        2 * HALF_BYTES as u64 - 7,
        2 * HALF_BYTES as u64,
        1 << 40,
        u64::MAX - 7,
        u64::MAX,
    ] {
        let mut link = end.link(&Setup::new()).await?;
        let remote = RemoteAddr {
            offset,
            ..link.remote.at(0)
        };
        let wr = write_to(&mut link, remote);
        denied(end, &mut link, wr).await?;
    }
    Ok(())
}

/// The last byte of a region is inside.
pub(super) async fn last_byte_allowed<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    if end.initiates() {
        let wr = link.write(1, 2 * HALF_BYTES - 8, b"the end.");
        link.post(end, &[wr])?;
        let wc = end.take_one(link.send_cq).await?;
        ensure_eq!(
            (wc.status, link.qp.state()),
            (WcStatus::Success, QpState::ReadyToSend),
            "outcome"
        );
    } else {
        let last = 2 * HALF_BYTES - 8;
        end.until("the last bytes", |_| {
            Ok((link.bytes(last, 8) == b"the end.").then_some(()))
        })
        .await?;
    }
    end.meet().await
}

/// An invented key is refused.
pub(super) async fn unknown_rkey_denied<P: Provider>(end: &mut End<P>) -> Check {
    for wrong in [0x5a5a_5a5a, u32::MAX] {
        let mut link = end.link(&Setup::new()).await?;
        let remote = RemoteAddr {
            rkey: link.remote.rkey ^ wrong,
            offset: 64,
        };
        let wr = write_to(&mut link, remote);
        denied(end, &mut link, wr).await?;
    }
    Ok(())
}

/// A key that this context has released is refused.
pub(super) async fn forgotten_rkey_denied<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    if end.initiates() {
        end.ctx.forget_region(&link.remote);
    }
    let wr = link.write(1, 64, b"intruder");
    denied(end, &mut link, wr).await
}
