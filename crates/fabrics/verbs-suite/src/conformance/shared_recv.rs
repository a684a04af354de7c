//! Rules of shared receive queues.

use super::link::{Link, Setup, pattern};
use super::{Check, End, Stop, ensure, ensure_eq};
use drover_verbs::{
    Context, MemoryRegion, PostErrorKind, Provider, QueuePair, RecvList, RecvWr, SharedReceiveQueue,
    WcStatus, WrId,
};

/// Two links whose responder takes RECVs from one shared queue.
async fn two_links<P: Provider>(end: &mut End<P>) -> Result<([Link<P>; 2], P::Srq), Stop> {
    let srq = end.ctx.create_srq(16)?;
    let used = (!end.initiates()).then_some(&srq);
    let links = [
        end.link_with(&Setup::new(), used).await?,
        end.link_with(&Setup::new(), used).await?,
    ];
    Ok((links, srq))
}

/// Posts RECV `id` at `64 * id` of the first link's region.
fn recv<P: Provider>(end: &End<P>, srq: &mut P::Srq, link: &Link<P>, id: u64) -> Check {
    let mut list = RecvList::default();
    list.push(RecvWr {
        wr_id: WrId(id),
        sge: link.mr.sge(id as usize * 64, 64),
    });
    Ok(srq.post_recv(end.ctx.cpu(), &list)?)
}

/// RECVs serve any of the queue pairs, in posting order; completions name the queue pair.
pub(super) async fn srq_shared_by_two_qps<P: Provider>(end: &mut End<P>) -> Check {
    let (mut links, mut srq) = two_links(end).await?;
    const ORDER: [usize; 6] = [0, 1, 1, 0, 1, 0];
    if !end.initiates() {
        for id in 0..ORDER.len() as u64 {
            recv(end, &mut srq, &links[0], id)?;
        }
    }
    end.meet().await?;
    for (n, which) in ORDER.into_iter().enumerate() {
        let link = &mut links[which];
        let want = pattern(n as u64, 20);
        if end.initiates() {
            let wr = link.send(n as u64, &want, None);
            link.post(end, &[wr])?;
            end.take_one(link.send_cq).await?;
        } else {
            let wc = end.take_one(link.recv_cq).await?;
            ensure_eq!((wc.wr_id.0, wc.status), (n as u64, WcStatus::Success), "RECV");
            ensure_eq!(wc.qpn, link.qp.qpn(), "queue pair");
            let got = links[0].bytes(n * 64 + end.gap(), 20);
            ensure!(got == want, "message {n} is not what was sent");
        }
        end.meet().await?;
    }
    Ok(())
}

/// A queue pair with a shared receive queue accepts no RECVs of its own.
pub(super) async fn srq_takes_recvs_alone<P: Provider>(end: &mut End<P>) -> Check {
    let (mut links, _srq) = two_links(end).await?;
    if !end.initiates() {
        let got = links[0].recv(end, 1, 0, 64).err().map(|error| error.kind);
        ensure_eq!(got, Some(PostErrorKind::NotSupported), "refusal");
    }
    end.meet().await
}

/// The failure of one queue pair does not consume RECVs of the other.
pub(super) async fn srq_recvs_survive_an_error<P: Provider>(end: &mut End<P>) -> Check {
    let (mut links, mut srq) = two_links(end).await?;
    if !end.initiates() {
        for id in 0..2 {
            recv(end, &mut srq, &links[0], id)?;
        }
        links[0].qp.to_error();
        end.quiet(links[0].recv_cq).await?;
    }
    end.meet().await?;
    let link = &mut links[1];
    if end.initiates() {
        for n in 0..2 {
            let wr = link.send(n, b"still here", None);
            link.post(end, &[wr])?;
            ensure_eq!(
                end.take_one(link.send_cq).await?.status,
                WcStatus::Success,
                "status"
            );
        }
    } else {
        let wcs = end.take(link.recv_cq, 2).await?;
        ensure!(wcs.iter().map(|wc| wc.wr_id.0).eq(0..2), "{wcs:?}");
    }
    end.meet().await
}
