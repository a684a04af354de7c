//! Rules of completions.

use super::link::{Link, Setup, unsignaled};
use super::{Check, End, Stop, ensure, ensure_eq};
use drover_verbs::{
    CompletionQueue, Context, Opcode, Provider, QpKind, QpOptions, QueuePair, RecvList, RecvWr, SendWr, Wc,
    WcStatus,
};
use std::collections::VecDeque;

/// The cheapest request of each kind of queue pair: a SEND for datagrams, otherwise a WRITE.
fn request<P: Provider>(link: &mut Link<P>, kind: QpKind, id: u64) -> SendWr {
    match kind {
        QpKind::Ud => link.send(id, &id.to_ne_bytes(), None),
        QpKind::Rc | QpKind::Uc => link.write(id, 8 * (id as usize % 512), &id.to_ne_bytes()),
    }
}

/// Only signaled requests complete.
pub(super) async fn unsignaled_makes_no_completion<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    if end.initiates() {
        for round in 0..3 {
            let mut wrs: Vec<_> = (0..4)
                .map(|n| request(&mut link, end.kind, round * 10 + n))
                .collect();
            wrs[..3].iter_mut().for_each(|wr| *wr = unsignaled(*wr));
            link.post(end, &wrs)?;
            let wc = end.take_one(link.send_cq).await?;
            ensure_eq!(
                (wc.wr_id.0, wc.status),
                (round * 10 + 3, WcStatus::Success),
                "completion"
            );
            end.quiet(link.send_cq).await?;
        }
    }
    end.meet().await
}

/// A completion frees the slots of the unsignaled requests before it, and implies that they are done.
pub(super) async fn signaled_covers_earlier_unsignaled<P: Provider>(end: &mut End<P>) -> Check {
    const DEPTH: usize = 8;
    let setup = Setup {
        send_depth: DEPTH,
        ..Setup::new()
    };
    let mut link = end.link(&setup).await?;
    for round in 0..6u64 {
        if end.initiates() {
            let base = round * DEPTH as u64;
            let mut wrs: Vec<_> = (0..DEPTH as u64)
                .map(|n| request(&mut link, end.kind, base + n))
                .map(unsignaled)
                .collect();
            wrs[DEPTH - 1].signaled = true;
            link.post(end, &wrs)?;
            ensure_eq!(
                end.take_one(link.send_cq).await?.wr_id.0,
                base + DEPTH as u64 - 1,
                "wr_id"
            );
        }
        end.meet().await?;
        if !end.initiates() && end.kind == QpKind::Rc {
            for id in round * 8..round * 8 + 8 {
                let got = link.bytes(8 * id as usize, 8);
                ensure!(
                    got == id.to_ne_bytes(),
                    "request {id} was covered by a completion but not done"
                );
            }
        }
        end.meet().await?;
    }
    Ok(())
}

/// Completions of one queue pair come in the order of posting and name request, verb and queue pair.
pub(super) async fn completions_in_order<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    if !end.initiates() {
        return end.meet().await;
    }
    let mut wrs = Vec::new();
    let mut want = Vec::new();
    for n in 0..30 {
        let read = end.kind == QpKind::Rc && n % 3 == 1;
        wrs.push(match read {
            true => link.read(n, 0, 0, 8),
            false => request(&mut link, end.kind, n),
        });
        want.push((
            n,
            match (end.kind, read) {
                (_, true) => Opcode::Read,
                (QpKind::Ud, _) => Opcode::Send,
                _ => Opcode::Write,
            },
        ));
    }
    for list in wrs.chunks(7) {
        link.post(end, list)?;
    }
    let wcs = end.take(link.send_cq, wrs.len()).await?;
    let got: Vec<_> = wcs.iter().map(|wc| (wc.wr_id.0, wc.opcode)).collect();
    ensure_eq!(got, want, "completions");
    ensure!(
        wcs.iter().all(|wc| wc.qpn == link.qp.qpn()),
        "a completion of another queue pair"
    );
    end.meet().await
}

/// A poll takes at most the requested number and leaves the rest.
pub(super) async fn poll_takes_no_more_than_asked<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    if end.initiates() {
        // The test polls these completions itself, not in the turns of this end.
        let mut queue = end.cqs.remove(link.send_cq);
        link.recv_cq = link.send_cq;
        let wrs: Vec<_> = (0..8).map(|n| link.write(n, 0, b"8 bytes!")).collect();
        link.post(end, &wrs)?;
        let mut seen = VecDeque::new();
        let taken = end
            .until("8 completions", |end| {
                let mut wcs = [Wc::default(); 3];
                let count = queue.cq.poll(end.ctx.cpu(), &mut wcs);
                ensure!(count <= 3, "{count} completions in 3 places");
                seen.extend(wcs[..count].iter().map(|wc| wc.wr_id.0));
                Ok((seen.len() >= 8).then_some(()))
            })
            .await;
        taken?;
        ensure!(
            seen.iter().copied().eq(0..8),
            "completions were lost or doubled: {seen:?}"
        );
        let none = queue.cq.poll(end.ctx.cpu(), &mut [Wc::default(); 3]);
        ensure_eq!(none, 0, "completions too many");
    }
    end.meet().await
}

/// With two queue pairs on one completion queue, each completion names its queue pair.
pub(super) async fn completions_name_their_queue_pair<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    let (mut second, cq) = second_queue_pair(end, &link)?;
    end.send_export(second.export()?)?;
    let theirs = end.receive_export().await?;
    end.join(&mut second, &theirs)?;
    end.meet().await?;
    // Only flushing completes requests on every kind of queue pair without the other end.
    let mut list = RecvList::default();
    for (n, offset) in [0, 64].into_iter().enumerate() {
        list.push(RecvWr {
            wr_id: drover_verbs::WrId(20 + n as u64),
            sge: drover_verbs::MemoryRegion::sge(&link.mr, offset, 64),
        });
    }
    second.post_recv(end.ctx.cpu(), &list)?;
    link.recv(end, 10, 0, 64)?;
    end.meet().await?;
    second.to_error();
    link.qp.to_error();
    let wcs = end.take(cq, 3).await?;
    for wc in &wcs {
        let whose = if wc.wr_id.0 == 10 {
            link.qp.qpn()
        } else {
            second.qpn()
        };
        ensure_eq!(wc.qpn, whose, "queue pair of a completion");
    }
    end.meet().await
}

/// A queue pair whose completions go to the link's receive completion queue.
fn second_queue_pair<P: Provider>(end: &mut End<P>, link: &Link<P>) -> Result<(P::Qp, usize), Stop> {
    let cq = link.recv_cq;
    let options = QpOptions::new(end.kind, &end.cqs[cq].cq, end.ctx.caps());
    Ok((end.ctx.create_qp(&options)?, cq))
}
