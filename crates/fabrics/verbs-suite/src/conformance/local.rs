//! Rules of local memory: registered, within bounds, with the required right.

use super::link::{HALF_BYTES, Link, Setup, signaled};
use super::{Check, End, Stop, ensure, ensure_eq};
use drover_mem::PageWish;
use drover_verbs::{
    Access, Context, MemoryRegion, Payload, PostErrorKind, Provider, QpKind, QueuePair, RecvList, RecvWr,
    RegisterError, SendOp, Sge, WcStatus, WrId,
};

/// Posts a request that uses `sge` wrongly and expects a refusal, at posting or by its completion.
async fn must_be_refused<P: Provider>(end: &mut End<P>, link: &mut Link<P>, sge: Sge, read: bool) -> Check {
    let remote = link.remote.at(0);
    let op = match end.kind {
        QpKind::Ud => SendOp::Send {
            dest: link.dest,
            imm: None,
        },
        QpKind::Rc | QpKind::Uc if read => SendOp::Read { remote },
        QpKind::Rc | QpKind::Uc => SendOp::Write { remote, imm: None },
    };
    match link.post(end, &[signaled(1, op, Payload::Region(sge))]) {
        Err(error) => {
            ensure_eq!(error.kind, PostErrorKind::LocalProtection, "refusal");
        }
        Ok(()) => {
            let wc = end.take_one(link.send_cq).await?;
            ensure_eq!(wc.status, WcStatus::LocalProtection, "status");
        }
    }
    Ok(())
}

/// A local key that is invalid, or no longer valid, sends nothing.
pub(super) async fn local_memory_must_be_registered<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    if end.initiates() {
        let region = end.ctx.alloc(4096, PageWish::Small)?;
        let stale = end.ctx.register(&region, Access::LOCAL_READ)?.sge(0, 64);
        must_be_refused(end, &mut link, stale, false).await?;
    }
    end.meet().await
}

/// Bytes outside the registered region are not sent.
pub(super) async fn local_bounds_are_checked<P: Provider>(end: &mut End<P>) -> Check {
    for shape in 0..2 {
        let mut link = end.link(&Setup::new()).await?;
        if end.initiates() {
            let mut sge = link.mr.sge(2 * HALF_BYTES - 8, 8);
            match shape {
                0 => sge.len = 9,
                _ => sge.offset = u64::MAX - 3,
            }
            must_be_refused(end, &mut link, sge, false).await?;
        }
        end.meet().await?;
    }
    Ok(())
}

/// The result of a READ is written only where the provider may write.
pub(super) async fn results_need_local_write<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    if end.initiates() {
        let region = end.ctx.alloc(4096, PageWish::Small)?;
        region.copy_in(0, b"as it was");
        let mr = end.ctx.register(&region, Access::LOCAL_READ)?;
        must_be_refused(end, &mut link, mr.sge(0, 64), true).await?;
        let mut now = [0; 9];
        region.copy_out(0, &mut now);
        ensure!(&now == b"as it was", "a READ wrote where it may not");
    }
    end.meet().await
}

/// A RECV is filled only where the provider may write.
pub(super) async fn recv_needs_local_write<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    let region = end.ctx.alloc(4096, PageWish::Small)?;
    let mr = end.ctx.register(&region, Access::LOCAL_READ)?;
    if !end.initiates() {
        let mut list = RecvList::default();
        list.push(RecvWr {
            wr_id: WrId(1),
            sge: mr.sge(0, 512),
        });
        if let Err(error) = link.qp.post_recv(end.ctx.cpu(), &list) {
            ensure_eq!(error.kind, PostErrorKind::LocalProtection, "refusal");
            end.say_bytes(b"refused at once")?;
            return end.meet().await;
        }
        end.say_bytes(b"taken")?;
        end.meet().await?;
        return no_success(end, &link, &region).await;
    }
    let taken = end.receive_export().await?.bytes == b"taken";
    if taken {
        let wr = link.send(1, b"unwelcome", None);
        link.post(end, &[wr])?;
    }
    end.meet().await?;
    if taken {
        end.meet().await?;
    }
    Ok(())
}

async fn no_success<P: Provider>(end: &mut End<P>, link: &Link<P>, region: &drover_mem::Region) -> Check {
    for _ in 0..32 {
        end.turn().await;
    }
    let good = |wc: &drover_verbs::Wc| wc.status == WcStatus::Success;
    ensure!(
        !end.cqs[link.recv_cq].stash.iter().any(good),
        "a RECV without local write succeeded"
    );
    let mut now = [0; 64];
    region.copy_out(0, &mut now);
    ensure!(now == [0; 64], "a RECV wrote where it may not");
    end.meet().await
}

/// Remote write and atomics without local write are refused at registration.
pub(super) async fn inconsistent_access_refused<P: Provider>(end: &mut End<P>) -> Check {
    let region = end.ctx.alloc(4096, PageWish::Small)?;
    let remote_write = Access {
        remote_write: true,
        ..Access::LOCAL_READ
    };
    let remote_atomic = Access {
        remote_atomic: true,
        ..Access::LOCAL_READ
    };
    for access in [remote_write, remote_atomic] {
        match end.ctx.register(&region, access) {
            Err(RegisterError::InconsistentAccess) => {}
            other => return Err(Stop::Broken(format!("{access:?} gave {other:?}"))),
        }
    }
    Ok(())
}
