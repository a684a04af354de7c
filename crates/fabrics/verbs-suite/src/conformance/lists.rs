//! Rules of posting: inline payloads, gather lists, lists that are partly refused, full queues.

use super::link::{HALF_BYTES, Setup, pattern, signaled, unsignaled};
use super::{Check, End, ensure, ensure_eq};
use drover_verbs::{
    Context, MemoryRegion, PostErrorKind, Provider, QpKind, QueuePair, SendList, SendOp, WcStatus,
};

/// An inline payload is copied at posting: the list's memory may be reused at once.
pub(super) async fn inline_reusable_at_once<P: Provider>(end: &mut End<P>) -> Check {
    const COUNT: u64 = 6;
    let mut link = end.link(&Setup::new()).await?;
    if !end.initiates() {
        let recvs = |link: &mut super::link::Link<P>, end: &End<P>| {
            (0..COUNT).try_for_each(|n| link.recv(end, n, n as usize * 64, 64))
        };
        if end.kind != QpKind::Rc {
            recvs(&mut link, end)?;
        }
        end.meet().await?; // all requests are posted; over RC there is no RECV yet
        if end.kind == QpKind::Rc {
            recvs(&mut link, end)?;
        } else {
            end.meet().await?;
        }
        for n in 0..COUNT {
            end.take_one(link.recv_cq).await?;
            let got = link.bytes(n as usize * 64 + end.gap(), 16);
            ensure!(
                got == pattern(n, 16),
                "inline payload {n} was changed after its posting"
            );
        }
        return end.meet().await;
    }
    if end.kind != QpKind::Rc {
        end.meet().await?;
    }
    let mut list = SendList::default();
    for pair in 0..COUNT / 2 {
        list.clear();
        for n in [pair * 2, pair * 2 + 1] {
            let payload = list.inline(&pattern(n, 16));
            let op = SendOp::Send {
                dest: link.dest,
                imm: None,
            };
            list.push(signaled(n, op, payload));
        }
        link.qp.post_send(end.ctx.cpu(), &list)?;
    }
    list.clear();
    list.inline(&[0xee; 64]);
    end.meet().await?;
    end.take(link.send_cq, COUNT as usize).await?;
    end.meet().await
}

/// The longest inline payload is accepted, a longer one refused.
pub(super) async fn inline_too_long_refused<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    if end.initiates() {
        let longest = end.ctx.caps().inline_bytes_max;
        for (len, fits) in [(longest, true), (longest + 1, false)] {
            let mut list = SendList::default();
            let payload = list.inline(&pattern(3, len));
            let op = match end.kind {
                QpKind::Ud => SendOp::Send {
                    dest: link.dest,
                    imm: None,
                },
                QpKind::Rc | QpKind::Uc => SendOp::Write {
                    remote: link.remote.at(0),
                    imm: None,
                },
            };
            list.push(signaled(len as u64, op, payload));
            match link.qp.post_send(end.ctx.cpu(), &list) {
                Ok(()) => ensure!(fits, "{len} bytes inline were taken, {longest} are offered"),
                Err(error) => {
                    ensure!(!fits, "{len} bytes inline were refused: {error}");
                    ensure_eq!(
                        (error.accepted, error.kind),
                        (0, PostErrorKind::InlineTooLong),
                        "refusal"
                    );
                }
            }
        }
        ensure_eq!(end.take_one(link.send_cq).await?.wr_id.0, longest as u64, "wr_id");
        end.quiet(link.send_cq).await?;
    }
    end.meet().await
}

/// A payload of more pieces than the fabric offers is refused.
pub(super) async fn too_many_pieces_refused<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    if end.initiates() {
        let pieces = vec![link.stage(b"piece"); end.ctx.caps().sge_max + 1];
        let mut list = SendList::default();
        let payload = list.gather(&pieces);
        let op = SendOp::Send {
            dest: link.dest,
            imm: None,
        };
        list.push(signaled(1, op, payload));
        let error = link.qp.post_send(end.ctx.cpu(), &list).err();
        let got = error.map(|error| (error.accepted, error.kind));
        ensure_eq!(got, Some((0, PostErrorKind::MessageTooLong)), "refusal");
        end.quiet(link.send_cq).await?;
        ensure_eq!(link.qp.state(), drover_verbs::QpState::ReadyToSend, "state");
    }
    end.meet().await
}

/// Pieces are gathered and (by READ) scattered in the order of the list.
pub(super) async fn gather_and_scatter<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    let bytes = pattern(1, 75);
    if end.initiates() {
        let pieces = [&bytes[..5], &bytes[5..45], &bytes[45..]].map(|piece| link.stage(piece));
        let mut list = SendList::default();
        let payload = list.gather(&pieces);
        let op = SendOp::Write {
            remote: link.remote.at(100),
            imm: None,
        };
        list.push(signaled(1, op, payload));
        link.qp.post_send(end.ctx.cpu(), &list)?;
        ensure_eq!(
            end.take_one(link.send_cq).await?.status,
            WcStatus::Success,
            "status"
        );
    } else {
        end.until("the gathered bytes", |_| {
            Ok((link.bytes(100, 75) == bytes).then_some(()))
        })
        .await?;
    }
    end.meet().await?;
    if end.initiates() && end.kind == QpKind::Rc {
        let mut list = SendList::default();
        let pieces = [(64, 30), (8, 20), (128, 25)].map(|(offset, len)| link.mr.sge(offset, len));
        let payload = list.gather(&pieces);
        let remote = link.remote.at(100);
        list.push(signaled(2, SendOp::Read { remote }, payload));
        link.qp.post_send(end.ctx.cpu(), &list)?;
        let wc = end.take_one(link.send_cq).await?;
        ensure_eq!((wc.status, wc.byte_len), (WcStatus::Success, 75), "completion");
        let got = [link.bytes(64, 30), link.bytes(8, 20), link.bytes(128, 25)].concat();
        ensure!(got == bytes, "the bytes of a READ were scattered wrongly");
    }
    end.meet().await
}

/// When one request of a list is refused, those before it are posted and those after it are not.
pub(super) async fn list_partly_accepted<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    if !end.initiates() {
        for n in 0..4 {
            link.recv(end, n, n as usize * 512, 512)?;
        }
        end.meet().await?;
        end.take(link.recv_cq, 2).await?;
        end.quiet(link.recv_cq).await?;
        return end.meet().await;
    }
    end.meet().await?;
    let mut list = SendList::default();
    let long = end.ctx.caps().inline_bytes_max + 1;
    for (n, len) in [8, 16, long, 8].into_iter().enumerate() {
        let payload = list.inline(&pattern(n as u64, len));
        let dest = link.dest;
        list.push(signaled(n as u64, SendOp::Send { dest, imm: None }, payload));
    }
    let error = link.qp.post_send(end.ctx.cpu(), &list).err();
    let got = error.map(|error| (error.accepted, error.kind));
    ensure_eq!(got, Some((2, PostErrorKind::InlineTooLong)), "refusal");
    let wcs = end.take(link.send_cq, 2).await?;
    ensure!(
        wcs.iter().map(|wc| wc.wr_id.0).eq(0..2),
        "not the accepted requests completed: {wcs:?}"
    );
    end.quiet(link.send_cq).await?;
    end.meet().await
}

/// A request posted singly executes after those of the list posted before it, however each of the two reaches the card,
/// and all of them complete.
pub(super) async fn single_post_after_a_list<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    for (round, in_list) in [2, 7, 1, 16].into_iter().enumerate() {
        let count = in_list + 1;
        if end.initiates() {
            end.meet().await?;
            let wrs: Vec<_> = (0..count)
                .map(|n| link.send(n, &pattern(n + 1, 8 + n as usize), None))
                .collect();
            let (list, single) = wrs.split_at(in_list as usize);
            link.post(end, list)?;
            link.post(end, single)?;
            let wcs = end.take(link.send_cq, wrs.len()).await?;
            ensure!(
                wcs.iter().map(|wc| wc.wr_id.0).eq(0..count),
                "{in_list} requests and one behind them completed as {wcs:?}"
            );
        } else {
            for n in 0..count {
                link.recv(end, n, n as usize * 128, 128)?;
            }
            end.meet().await?;
            end.take(link.recv_cq, count as usize).await?;
            for n in 0..count {
                let got = link.bytes(n as usize * 128 + end.gap(), 8 + n as usize);
                ensure!(
                    got == pattern(n + 1, 8 + n as usize),
                    "round {round}: message {n} of {count} is another one"
                );
            }
        }
        end.meet().await?;
    }
    end.quiet(link.send_cq).await?;
    end.quiet(link.recv_cq).await?;
    end.meet().await
}

/// A queue accepts as many requests as its depth, refuses more before twice its depth, and continues after a poll.
pub(super) async fn queue_full<P: Provider>(end: &mut End<P>) -> Check {
    const DEPTH: usize = 16;
    let setup = Setup {
        send_depth: DEPTH,
        ..Setup::new()
    };
    let mut link = end.link(&setup).await?;
    for round in 0..3 {
        if end.initiates() {
            // Completions are not polled until the queue is full: a request is outstanding until it is polled.
            let wrs: Vec<_> = (0..2 * DEPTH as u64 + 1)
                .map(|n| match end.kind {
                    QpKind::Ud => link.send(n, b"datagram", None),
                    QpKind::Rc | QpKind::Uc => link.write(n, HALF_BYTES / 2, b"8 bytes!"),
                })
                .collect();
            let Err(error) = link.post(end, &wrs) else {
                return Err(super::Stop::Broken(format!(
                    "{} requests in a queue of {DEPTH}",
                    wrs.len()
                )));
            };
            ensure_eq!(error.kind, PostErrorKind::QueueFull, "refusal");
            ensure!(
                error.accepted >= DEPTH,
                "only {} of {DEPTH} taken in round {round}",
                error.accepted
            );
            end.take(link.send_cq, error.accepted).await?;
        }
        end.meet().await?;
    }
    if end.initiates() {
        let wr = unsignaled(match end.kind {
            QpKind::Ud => link.send(1, b"datagram", None),
            QpKind::Rc | QpKind::Uc => link.write(1, 0, b"8 bytes!"),
        });
        link.post(end, &[wr])?;
    }
    end.meet().await
}

/// A receive queue accepts as many RECVs as its depth, and less than twice as many.
pub(super) async fn recv_queue_full<P: Provider>(end: &mut End<P>) -> Check {
    const DEPTH: usize = 16;
    let setup = Setup {
        recv_depth: DEPTH,
        ..Setup::new()
    };
    let mut link = end.link(&setup).await?;
    for n in 0..2 * DEPTH as u64 + 1 {
        match link.recv(end, n, 0, 64) {
            Ok(()) => ensure!(n < 2 * DEPTH as u64, "{n} RECVs in a queue of {DEPTH}"),
            Err(error) => {
                ensure_eq!(error.kind, PostErrorKind::QueueFull, "refusal");
                ensure!(n >= DEPTH as u64, "only {n} of {DEPTH} RECVs taken");
                break;
            }
        }
    }
    end.meet().await
}
