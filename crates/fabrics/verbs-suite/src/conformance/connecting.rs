//! Rules of creating and connecting.

use super::link::{Setup, pattern, signaled};
use super::{Check, End, Stop, ensure, ensure_eq};
use drover_mem::PageWish;
use drover_verbs::{
    ConnectError, Context, CreateError, Export, MemoryRegion, Payload, PostErrorKind, Provider, QpKind,
    QpOptions, QpState, QueuePair, RecvList, RecvWr, SendList, SendOp, WcStatus, WrId,
};

/// A queue pair is ready after it is connected; one for datagrams at once.
pub(super) async fn states_follow_connect<P: Provider>(end: &mut End<P>) -> Check {
    let (mut qp, ..) = end.queue_pair(&Setup::new(), None)?;
    let first = match end.kind {
        QpKind::Ud => QpState::ReadyToSend,
        QpKind::Rc | QpKind::Uc => QpState::Init,
    };
    ensure_eq!(qp.state(), first, "state after creation");
    end.send_export(qp.export()?)?;
    let theirs = end.receive_export().await?;
    end.join(&mut qp, &theirs)?;
    ensure_eq!(qp.state(), QpState::ReadyToSend, "state when connected");
    end.meet().await
}

/// A SEND before the connection is refused.
pub(super) async fn send_before_connect_refused<P: Provider>(end: &mut End<P>) -> Check {
    let (mut qp, cq, _) = end.queue_pair(&Setup::new(), None)?;
    let mut list = SendList::default();
    let op = SendOp::Send {
        dest: None,
        imm: None,
    };
    list.push(signaled(1, op, Payload::EMPTY));
    let error = qp.post_send(end.ctx.cpu(), &list).err();
    let got = error.map(|error| (error.accepted, error.kind));
    ensure_eq!(got, Some((0, PostErrorKind::NotReady)), "refusal");
    end.quiet(cq).await
}

/// RECVs posted before the connection are used after it.
pub(super) async fn recv_before_connect_taken<P: Provider>(end: &mut End<P>) -> Check {
    let (mut qp, send_cq, recv_cq) = end.queue_pair(&Setup::new(), None)?;
    let region = end.ctx.alloc(4096, PageWish::Small)?;
    let mr = end.ctx.register(&region, drover_verbs::Access::LOCAL)?;
    if !end.initiates() {
        let mut list = RecvList::default();
        list.push(RecvWr {
            wr_id: WrId(9),
            sge: mr.sge(0, 64),
        });
        qp.post_recv(end.ctx.cpu(), &list)?;
    }
    end.send_export(qp.export()?)?;
    let theirs = end.receive_export().await?;
    qp.connect(&theirs)?;
    end.meet().await?;
    if end.initiates() {
        region.copy_in(0, &pattern(1, 24));
        let mut list = SendList::default();
        let op = SendOp::Send {
            dest: None,
            imm: None,
        };
        list.push(signaled(1, op, Payload::Region(mr.sge(0, 24))));
        qp.post_send(end.ctx.cpu(), &list)?;
        ensure_eq!(end.take_one(send_cq).await?.status, WcStatus::Success, "status");
    } else {
        ensure_eq!(end.take_one(recv_cq).await?.wr_id.0, 9, "RECV");
        let mut got = [0; 24];
        region.copy_out(0, &mut got);
        ensure!(got[..] == pattern(1, 24), "the message is not what was sent");
    }
    end.meet().await
}

/// A connected queue pair cannot be connected again; datagram queue pairs cannot be connected.
pub(super) async fn connect_twice_refused<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    let (other, ..) = end.queue_pair(&Setup::new(), None)?;
    end.send_export(other.export()?)?;
    let theirs = end.receive_export().await?;
    match link.qp.connect(&theirs) {
        Err(ConnectError::WrongState { kind, state }) => {
            ensure_eq!(
                (kind, state),
                (end.kind, QpState::ReadyToSend),
                "the error's fields"
            );
        }
        other => return Err(Stop::Broken(format!("a second connection gave {other:?}"))),
    }
    ensure_eq!(link.qp.state(), QpState::ReadyToSend, "state");
    end.meet().await
}

/// Both ends of a connection must be of the same kind.
pub(super) async fn connect_kind_mismatch_refused<P: Provider>(end: &mut End<P>) -> Check {
    let ours = end.kind;
    let theirs = match ours {
        QpKind::Rc => QpKind::Uc,
        QpKind::Uc | QpKind::Ud => QpKind::Rc,
    };
    if !end.ctx.caps().has(theirs) {
        return Err(Stop::Skipped(format!("{theirs:?} queue pairs not offered")));
    }
    let (mut qp, ..) = end.queue_pair(&Setup::new(), None)?;
    end.kind = theirs;
    let (other, ..) = end.queue_pair(&Setup::new(), None)?;
    end.kind = ours;
    end.send_export(other.export()?)?;
    let export = end.receive_export().await?;
    match qp.connect(&export) {
        Err(ConnectError::KindMismatch { ours: a, theirs: b }) => {
            ensure_eq!((a, b), (ours, theirs), "the error's fields");
        }
        other => return Err(Stop::Broken(format!("a mismatched connection gave {other:?}"))),
    }
    ensure_eq!(qp.state(), QpState::Init, "state");
    end.meet().await
}

/// A malformed export causes an error, never a panic.
pub(super) async fn bent_exports_refused<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    let (mut qp, ..) = end.queue_pair(&Setup::new(), None)?;
    end.send_export(qp.export()?)?;
    end.send_export(link.mr.export(&[])?)?;
    let (of_qp, of_region) = (end.receive_export().await?, end.receive_export().await?);
    ensure!(
        end.ctx.import_region(&of_qp).is_err(),
        "a queue pair was imported as a region"
    );
    ensure!(
        end.join(&mut qp, &of_region).is_err(),
        "a region was taken for a queue pair"
    );
    for len in 0..of_qp.bytes.len() {
        let cut = Export {
            bytes: of_qp.bytes[..len].to_vec(),
            fds: of_qp.fds.clone(),
        };
        ensure!(
            end.join(&mut qp, &cut).is_err(),
            "{len} bytes of an export of a queue pair were enough"
        );
    }
    for len in 0..of_region.bytes.len() {
        let cut = Export {
            bytes: of_region.bytes[..len].to_vec(),
            fds: of_region.fds.clone(),
        };
        ensure!(
            end.ctx.import_region(&cut).is_err(),
            "{len} bytes of an export of a region were enough"
        );
    }
    let noise = Export {
        bytes: pattern(3, 64),
        fds: Vec::new(),
    };
    ensure!(
        end.ctx.import_region(&noise).is_err(),
        "noise was imported as a region"
    );
    ensure!(
        end.join(&mut qp, &noise).is_err(),
        "noise was taken for a queue pair"
    );
    end.meet().await?;
    // The link still works after all that.
    if end.initiates() && end.kind != QpKind::Ud {
        let wr = link.write(1, 0, b"still up");
        link.post(end, &[wr])?;
        ensure_eq!(
            end.take_one(link.send_cq).await?.status,
            WcStatus::Success,
            "status"
        );
    }
    end.meet().await
}

/// Requests beyond the capabilities are refused at creation.
pub(super) async fn limits_are_kept<P: Provider>(end: &mut End<P>) -> Check {
    let caps = end.ctx.caps().clone();
    let cq = end.add_cq()?;
    let cq = &end.cqs[cq].cq;
    let mut wishes = [(); 3].map(|()| QpOptions::<P>::new(end.kind, cq, &caps));
    wishes[0].send_depth = caps.send_depth_max + 1;
    wishes[1].recv_depth = caps.recv_depth_max + 1;
    wishes[2].inline_bytes = caps.inline_bytes_max + 1;
    for (n, wish) in wishes.iter().enumerate() {
        match end.ctx.create_qp(wish) {
            Err(CreateError::Limit { asked, limit, .. }) => ensure!(asked == limit + 1, "{asked} of {limit}"),
            Err(other) => return Err(Stop::Broken(format!("wish {n} beyond the limits gave {other}"))),
            Ok(_) => return Err(Stop::Broken(format!("wish {n} beyond the limits was granted"))),
        }
    }
    ensure!(
        end.ctx.create_qp(&QpOptions::new(end.kind, cq, &caps)).is_ok(),
        "no queue pair at all"
    );
    Ok(())
}
