//! Rules of UD (and of UC, the other unreliable kind).

use super::link::{HALF_BYTES, Setup, pattern, signaled};
use super::{Check, End, ensure, ensure_eq};
use drover_verbs::{
    Context, GRH_BYTES, MemoryRegion, Payload, PostErrorKind, Provider, QueuePair, SendList, SendOp, UdDest,
    WcStatus,
};

/// A datagram is placed 40 bytes after the start of its RECV, and its length includes them.
pub(super) async fn ud_gap_of_40<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    if end.initiates() {
        end.meet().await?;
        let wr = link.send(1, &pattern(4, 77), None);
        link.post(end, &[wr])?;
        end.take_one(link.send_cq).await?;
        return end.meet().await;
    }
    link.recv(end, 7, 64, GRH_BYTES + 77)?; // exactly long enough
    end.meet().await?;
    let wc = end.take_one(link.recv_cq).await?;
    ensure_eq!(
        (wc.status, wc.byte_len as usize),
        (WcStatus::Success, GRH_BYTES + 77),
        "RECV"
    );
    ensure!(
        link.bytes(64 + GRH_BYTES, 77) == pattern(4, 77),
        "the payload is not behind the 40 bytes"
    );
    ensure!(link.bytes(0, 64) == [0; 64], "bytes before the RECV changed");
    ensure!(
        link.bytes(64 + GRH_BYTES + 77, 64) == [0; 64],
        "bytes behind the RECV changed"
    );
    end.meet().await
}

/// A datagram without a RECV is dropped; its sender sees success; the next datagram is unaffected.
pub(super) async fn ud_drop_without_recv<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    for n in 0..2 {
        if !end.initiates() && n == 1 {
            link.recv(end, 7, 0, 256)?;
            end.quiet(link.recv_cq).await?;
        }
        end.meet().await?;
        if end.initiates() {
            let wr = link.send(n, &pattern(n, 50), None);
            link.post(end, &[wr])?;
            ensure_eq!(
                end.take_one(link.send_cq).await?.status,
                WcStatus::Success,
                "status"
            );
        }
        end.meet().await?;
        end.quiet(link.send_cq).await?;
    }
    if !end.initiates() {
        end.take_one(link.recv_cq).await?;
        ensure!(
            link.bytes(GRH_BYTES, 50) == pattern(1, 50),
            "the dropped datagram was delivered"
        );
    }
    end.meet().await
}

/// A datagram with another key than the receiver's is dropped.
pub(super) async fn ud_wrong_qkey_dropped<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    if end.initiates() {
        end.meet().await?;
        let right = link.dest;
        for (n, flip) in [1, 0x8000, 0].into_iter().enumerate() {
            link.dest = right.map(|dest| drover_verbs::UdDest {
                qkey: dest.qkey ^ flip,
                ..dest
            });
            let wr = link.send(n as u64, &pattern(n as u64, 30), None);
            link.post(end, &[wr])?;
            ensure_eq!(
                end.take_one(link.send_cq).await?.status,
                WcStatus::Success,
                "status"
            );
        }
        return end.meet().await;
    }
    for n in 0..3 {
        link.recv(end, n, n as usize * 256, 256)?;
    }
    end.meet().await?;
    end.take_one(link.recv_cq).await?;
    ensure!(
        link.bytes(GRH_BYTES, 30) == pattern(2, 30),
        "a datagram with a wrong key was taken"
    );
    end.quiet(link.recv_cq).await?;
    end.meet().await
}

/// One queue pair receives from many; each completion names its sender; each sender's messages keep their order.
pub(super) async fn ud_many_senders<P: Provider>(end: &mut End<P>) -> Check {
    const SENDERS: usize = 5;
    const EACH: u64 = 4;
    let mut link = end.link(&Setup::new()).await?;
    if !end.initiates() {
        for n in 0..SENDERS as u64 * EACH {
            link.recv(end, n, n as usize * 64, 64)?;
        }
        let qpns = end.receive_export().await?.bytes;
        end.meet().await?;
        let mut next = [0; SENDERS];
        for _ in 0..SENDERS as u64 * EACH {
            let wc = end.take_one(link.recv_cq).await?;
            let got = link.bytes(wc.wr_id.0 as usize * 64 + GRH_BYTES, 2);
            let sender = got[0] as usize;
            ensure!(sender < SENDERS, "a datagram nobody sent: {got:?}");
            ensure!(
                qpns[sender * 4..][..4] == wc.src_qpn.0.to_le_bytes(),
                "sender {sender} came as {:?}",
                wc.src_qpn
            );
            ensure_eq!(got[1], next[sender], format!("next message of sender {sender}"));
            next[sender] += 1;
        }
        return end.meet().await;
    }
    let mut senders = Vec::new();
    let mut qpns = Vec::new();
    for _ in 0..SENDERS {
        let (qp, cq, _) = end.queue_pair(&Setup::new(), None)?;
        qpns.extend(qp.qpn().0.to_le_bytes());
        senders.push((qp, cq));
    }
    end.say_bytes(&qpns)?;
    end.meet().await?;
    for message in 0..EACH as u8 {
        for (sender, (qp, _)) in senders.iter_mut().enumerate() {
            let wr = link.send(0, &[sender as u8, message], None);
            let mut list = SendList::default();
            list.push(wr);
            qp.post_send(end.ctx.cpu(), &list)?;
        }
    }
    for (_, cq) in &senders {
        end.take(*cq, EACH as usize).await?;
    }
    end.meet().await
}

/// The longest datagram arrives, a longer one is refused.
pub(super) async fn ud_too_long_refused<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    let longest = end.ctx.caps().mtu_bytes;
    ensure!(
        longest + GRH_BYTES < HALF_BYTES,
        "this rule knows no datagram of {longest} bytes"
    );
    if !end.initiates() {
        link.recv(end, 7, 0, GRH_BYTES + longest)?;
        end.meet().await?;
        ensure_eq!(
            end.take_one(link.recv_cq).await?.byte_len as usize,
            GRH_BYTES + longest,
            "byte_len"
        );
        ensure!(
            link.bytes(GRH_BYTES, longest) == pattern(1, longest),
            "the longest datagram was changed"
        );
        return end.meet().await;
    }
    end.meet().await?;
    let wr = link.send(1, &pattern(1, longest), None);
    link.post(end, &[wr])?;
    end.take_one(link.send_cq).await?;
    let wr = link.send(2, &pattern(2, longest + 1), None);
    let error = link.post(end, &[wr]).err();
    let got = error.map(|error| (error.accepted, error.kind));
    ensure_eq!(got, Some((0, PostErrorKind::MessageTooLong)), "refusal");
    end.meet().await
}

/// Posts each of these verbs and expects the error `NotSupported`.
async fn not_supported<P: Provider>(end: &mut End<P>, write_too: bool) -> Check {
    // UD rules have no remote region, and need none: the verb is refused before its address is checked.
    let mut link = end.link(&Setup::new()).await?;
    if end.initiates() {
        let remote = link.remote.at(0);
        let mut ops = vec![
            SendOp::Read { remote },
            SendOp::CompareSwap {
                remote,
                compare: 0,
                swap: 1,
            },
            SendOp::FetchAdd { remote, add: 1 },
        ];
        if write_too {
            ops.push(SendOp::Write { remote, imm: None });
        }
        for op in ops {
            let wr = signaled(1, op, Payload::Region(link.mr.sge(0, 8)));
            let error = link.post(end, &[wr]).err();
            let got = error.map(|error| (error.accepted, error.kind));
            ensure_eq!(
                got,
                Some((0, PostErrorKind::NotSupported)),
                format!("refusal of {op:?}")
            );
        }
        end.quiet(link.send_cq).await?;
        ensure_eq!(link.qp.state(), drover_verbs::QpState::ReadyToSend, "state");
    }
    end.meet().await
}

/// UD has only SEND.
pub(super) async fn ud_only_sends<P: Provider>(end: &mut End<P>) -> Check {
    not_supported(end, true).await
}

/// UC has neither READ nor atomics.
pub(super) async fn uc_no_read<P: Provider>(end: &mut End<P>) -> Check {
    not_supported(end, false).await
}

/// A destroyed address handle is refused.
pub(super) async fn ud_destroyed_handle_refused<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    if end.initiates() {
        let dest = link.dest.expect("a UD link has an address");
        end.ctx.destroy_ah(&dest);
        let wr = link.send(1, b"to nobody", None);
        let got = link.post(end, &[wr]).err().map(|error| error.kind);
        ensure_eq!(got, Some(PostErrorKind::BadAddress), "refusal");
    }
    end.meet().await
}

/// A SEND over a connection has no address handle: with one it is refused.
pub(super) async fn address_over_connection_refused<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    if end.initiates() {
        let dest = UdDest {
            ah: 0,
            qpn: link.qp.qpn(),
            qkey: 0,
        };
        let op = SendOp::Send {
            dest: Some(dest),
            imm: None,
        };
        let wr = signaled(1, op, Payload::Region(link.mr.sge(0, 8)));
        let error = link.post(end, &[wr]).err();
        let got = error.map(|error| (error.accepted, error.kind));
        ensure_eq!(got, Some((0, PostErrorKind::BadAddress)), "refusal");
        end.quiet(link.send_cq).await?;
        ensure_eq!(link.qp.state(), drover_verbs::QpState::ReadyToSend, "state");
    }
    end.meet().await
}
