//! Rules of failure: the error state, flushing, missing RECVs, peers that disappear.

use super::link::{HALF_BYTES, Link, Setup, pattern, unsignaled};
use super::{Check, End, ensure, ensure_eq};
use drover_base::Ns;
use drover_verbs::{Access, Fenced, Provider, QpKind, QpState, QueuePair, SendWr, WcStatus};

/// Expects failed completions with exactly these ids, in this order.
async fn flushed<P: Provider>(end: &mut End<P>, cq: usize, ids: std::ops::Range<u64>) -> Check {
    let wcs = end.take(cq, ids.clone().count()).await?;
    ensure!(
        wcs.iter().all(|wc| wc.status == WcStatus::Flushed),
        "not flushed: {wcs:?}"
    );
    ensure!(
        wcs.iter().map(|wc| wc.wr_id.0).eq(ids),
        "flushed in another order: {wcs:?}"
    );
    end.quiet(cq).await
}

/// On entering the error state, all outstanding requests complete as `Flushed`, in posting order.
pub(super) async fn error_flushes_in_order<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    if end.initiates() {
        for n in 0..5 {
            link.recv(end, n, 0, 64)?;
        }
        if end.kind == QpKind::Rc {
            // They wait for RECVs that are never posted; unsignaled ones also complete when they fail.
            let wrs: Vec<_> = (10..14)
                .map(|n| unsignaled(link.send(n, b"waits", None)))
                .collect();
            link.post(end, &wrs)?;
        }
        link.qp.to_error();
        ensure_eq!(link.qp.state(), QpState::Error, "state");
        flushed(end, link.recv_cq, 0..5).await?;
        if end.kind == QpKind::Rc {
            flushed(end, link.send_cq, 10..14).await?;
        }
    }
    end.meet().await
}

/// Requests posted in the error state are accepted and complete as `Flushed`.
pub(super) async fn post_after_error_flushes<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    if end.initiates() {
        link.qp.to_error();
        for n in 0..3 {
            let wr = unsignaled(link.send(n, b"too late", None));
            link.post(end, &[wr])?;
            link.recv(end, n, 0, 64)?;
        }
        flushed(end, link.send_cq, 0..3).await?;
        flushed(end, link.recv_cq, 0..3).await?;
    } else {
        link.recv(end, 1, 0, 64)?;
    }
    end.meet().await?;
    let peer_saw = end.initiates()
        || end.cqs[link.recv_cq]
            .stash
            .iter()
            .all(|wc| wc.status != WcStatus::Success);
    ensure!(peer_saw, "a request posted in the error state was executed");
    end.meet().await
}

/// After the first failure, no more requests of the queue pair are executed, and all of them complete.
pub(super) async fn failure_breaks_the_queue_pair<P: Provider>(end: &mut End<P>) -> Check {
    let setup = Setup {
        access: if end.initiates() {
            Access::ALL
        } else {
            Access::REMOTE_WRITE
        },
        ..Setup::new()
    };
    let mut link = end.link(&setup).await?;
    if end.initiates() {
        let mut wrs = vec![link.read(1, 0, 0, 8)]; // the peer grants no READ
        wrs.extend((2..5).map(|n| unsignaled(link.write(n, 0, b"too late"))));
        link.post(end, &wrs)?;
        ensure_eq!(
            end.take_one(link.send_cq).await?.status,
            WcStatus::RemoteAccess,
            "first status"
        );
        flushed(end, link.send_cq, 2..5).await?;
        ensure_eq!(link.qp.state(), QpState::Error, "state");
        let wr = link.write(5, 0, b"too late");
        link.post(end, &[wr])?;
        flushed(end, link.send_cq, 5..6).await?;
    }
    end.meet().await?;
    ensure!(
        end.initiates() || link.bytes(0, 8) == [0; 8],
        "a request behind the failed one was executed"
    );
    end.meet().await
}

/// A SEND that waits too long for a RECV fails.
pub(super) async fn rnr_timeout<P: Provider>(end: &mut End<P>) -> Check {
    let setup = Setup {
        rnr_timeout: Ns::from_ms(5),
        ..Setup::new()
    };
    let mut link = end.link(&setup).await?;
    if end.initiates() {
        let wrs: Vec<_> = (1..3).map(|n| link.send(n, b"nobody listens", None)).collect();
        link.post(end, &wrs)?;
        let wc = end.take_one(link.send_cq).await?;
        ensure_eq!(
            (wc.wr_id.0, wc.status),
            (1, WcStatus::RnrRetryExceeded),
            "completion"
        );
        flushed(end, link.send_cq, 2..3).await?;
        ensure_eq!(link.qp.state(), QpState::Error, "state");
    }
    end.meet().await
}

/// A message longer than its RECV is not delivered. Over RC both ends get an error and break.
pub(super) async fn send_longer_than_recv<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    if end.initiates() {
        end.meet().await?;
        let wr = link.send(1, &pattern(1, 100), None);
        link.post(end, &[wr])?;
        let wc = end.take_one(link.send_cq).await?;
        if end.kind == QpKind::Rc {
            ensure_eq!(wc.status, WcStatus::RemoteInvalidRequest, "status");
            ensure_eq!(link.qp.state(), QpState::Error, "state");
        }
        return end.meet().await;
    }
    link.recv(end, 7, 0, 99 + end.gap())?;
    end.meet().await?;
    if end.kind == QpKind::Rc {
        let wc = end.take_one(link.recv_cq).await?;
        ensure_eq!((wc.wr_id.0, wc.status), (7, WcStatus::LocalLength), "RECV");
        ensure_eq!(link.qp.state(), QpState::Error, "state");
    }
    end.meet().await?;
    let success = |wc: &drover_verbs::Wc| wc.status == WcStatus::Success;
    ensure!(
        !end.cqs[link.recv_cq].stash.iter().any(success),
        "a message was cut to fit"
    );
    ensure!(
        link.bytes(99 + end.gap(), 1) == [0],
        "a byte behind the RECV was written"
    );
    Ok(())
}

/// A request to a destroyed peer fails.
pub(super) async fn dead_peer_is_noticed<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    if !end.initiates() {
        drop(link);
        end.meet().await?;
        return end.meet().await;
    }
    end.meet().await?;
    let wr = link.send(1, b"anybody there?", None);
    link.post(end, &[wr])?;
    let wc = end.take_one(link.send_cq).await?;
    ensure_eq!(
        (wc.wr_id.0, wc.status),
        (1, WcStatus::RetryExceeded),
        "completion"
    );
    ensure_eq!(link.qp.state(), QpState::Error, "state");
    end.meet().await
}

/// After a queue pair is destroyed, no request takes effect through it.
pub(super) async fn qp_destroyed_no_more_landing<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    if end.initiates() {
        end.meet().await?;
        let wr = last_try(end, &mut link);
        link.post(end, &[wr])?;
        end.take_one(link.send_cq).await?;
        return end.meet().await;
    }
    link.recv(end, 1, 0, 512)?;
    let Link { qp, mr, .. } = link;
    drop(qp);
    end.meet().await?;
    end.meet().await?;
    let mut now = vec![0; HALF_BYTES];
    drover_verbs::MemoryRegion::region(&mr).copy_out(0, &mut now);
    ensure!(
        now.iter().all(|&byte| byte == 0),
        "bytes landed through a queue pair that is no more"
    );
    Ok(())
}

fn last_try<P: Provider>(end: &End<P>, link: &mut Link<P>) -> SendWr {
    match end.kind {
        QpKind::Ud => link.send(1, b"a ghost", None),
        QpKind::Rc | QpKind::Uc => link.write(1, 64, b"a ghost"),
    }
}

/// Once `fence` is done, nothing that the peer posted before or posts later changes memory.
pub(super) async fn fenced_peer_touches_nothing<P: Provider>(end: &mut End<P>) -> Check {
    const BYTES: usize = 4000;
    for round in 0..4u64 {
        let mut link = end.link(&Setup::new()).await?;
        if end.initiates() {
            for n in 0..16u64 {
                let wr = link.write(n, (n % 8) as usize * 4096, &pattern(100 * round + n + 1, BYTES));
                link.post(end, &[wr])?;
                end.turn().await;
            }
            end.meet().await?;
            let wr = link.write(99, 0, &pattern(99, BYTES));
            link.post(end, &[wr])?;
            end.meet().await?;
        } else {
            for _ in 0..3 * round {
                end.turn().await;
            }
            end.until("the fence", |_| {
                Ok((link.qp.fence() == Fenced::Done).then_some(()))
            })
            .await?;
            ensure_eq!(link.qp.state(), QpState::Error, "state of a fenced queue pair");
            let before = link.bytes(0, HALF_BYTES);
            end.meet().await?;
            end.meet().await?;
            for _ in 0..24 {
                end.turn().await;
            }
            ensure!(
                link.bytes(0, HALF_BYTES) == before,
                "a fenced peer changed memory"
            );
            ensure_eq!(link.qp.fence(), Fenced::Done, "asked again");
        }
        end.meet().await?;
    }
    Ok(())
}
