//! Rules of CAS and FAA.

use super::link::{Link, Setup, signaled};
use super::{Check, End, ensure, ensure_eq};
use drover_verbs::{MemoryRegion, Opcode, Payload, Provider, SendOp, WcStatus};
use std::sync::atomic::Ordering;

/// Offset of results in our region.
const RESULT: usize = 1024;

fn cas<P: Provider>(link: &Link<P>, offset: usize, compare: u64, swap: u64) -> SendOp {
    let remote = link.remote.at(offset);
    SendOp::CompareSwap {
        remote,
        compare,
        swap,
    }
}

fn faa<P: Provider>(link: &Link<P>, offset: usize, add: u64) -> SendOp {
    let remote = link.remote.at(offset);
    SendOp::FetchAdd { remote, add }
}

/// Executes an atomic and returns the old value of the word.
async fn old_value<P: Provider>(
    end: &mut End<P>,
    link: &mut Link<P>,
    op: SendOp,
) -> Result<u64, super::Stop> {
    let opcode = match op {
        SendOp::CompareSwap { .. } => Opcode::CompareSwap,
        _ => Opcode::FetchAdd,
    };
    let payload = Payload::Region(link.mr.sge(RESULT, 8));
    link.post(end, &[signaled(1, op, payload)])?;
    let wc = end.take_one(link.send_cq).await?;
    ensure_eq!((wc.status, wc.opcode), (WcStatus::Success, opcode), "completion");
    Ok(link.mr.region().load_u64(RESULT, Ordering::Acquire))
}

/// CAS swaps if the word has the expected value, and returns the old value in both cases.
pub(super) async fn cas_semantics<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    if !end.initiates() {
        link.mr.region().store_u64(64, 5, Ordering::Release);
        end.meet().await?;
        end.meet().await?;
        ensure_eq!(
            link.mr.region().load_u64(64, Ordering::Acquire),
            u64::MAX,
            "the word"
        );
        return end.meet().await;
    }
    end.meet().await?;
    for (compare, swap, old) in [(5, 6, 5), (5, 7, 6), (6, u64::MAX, 6), (0, 1, u64::MAX)] {
        let op = cas(&link, 64, compare, swap);
        let got = old_value(end, &mut link, op).await?;
        ensure_eq!(got, old, format!("old value of CAS {compare} -> {swap}"));
    }
    end.meet().await?;
    end.meet().await
}

/// FAA adds, wraps around, and returns the old value.
pub(super) async fn faa_semantics<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    if !end.initiates() {
        link.mr.region().store_u64(64, 10, Ordering::Release);
        end.meet().await?;
        end.meet().await?;
        ensure_eq!(link.mr.region().load_u64(64, Ordering::Acquire), 3, "the word");
        return end.meet().await;
    }
    end.meet().await?;
    for (add, old) in [(1, 10), (u64::MAX, 11), (0, 10), (u64::MAX - 6, 10)] {
        let op = faa(&link, 64, add);
        let got = old_value(end, &mut link, op).await?;
        ensure_eq!(got, old, format!("old value of FAA {add}"));
    }
    end.meet().await?;
    end.meet().await
}

/// Atomics on addresses that are not multiples of 8 are refused.
pub(super) async fn atomics_unaligned_refused<P: Provider>(end: &mut End<P>) -> Check {
    for swap in [true, false] {
        let mut link = end.link(&Setup::new()).await?;
        if end.initiates() {
            let op = if swap {
                cas(&link, 68, 0, 1)
            } else {
                faa(&link, 68, 1)
            };
            let payload = Payload::Region(link.mr.sge(RESULT, 8));
            link.post(end, &[signaled(1, op, payload)])?;
            let wc = end.take_one(link.send_cq).await?;
            ensure_eq!(wc.status, WcStatus::RemoteInvalidRequest, "status");
        }
        end.meet().await?;
        ensure!(
            end.initiates() || link.bytes(64, 16) == [0; 16],
            "the word changed"
        );
        end.meet().await?;
    }
    Ok(())
}

/// No addition is lost when two queue pairs add to one word.
pub(super) async fn atomics_of_two_queue_pairs_add_up<P: Provider>(end: &mut End<P>) -> Check {
    const ROUNDS: u64 = 20;
    let mut first = end.link(&Setup::new()).await?;
    let mut second = end.link(&Setup::new()).await?;
    if end.initiates() {
        for n in 0..ROUNDS {
            let remote = first.remote.at(0); // the word that both add to
            for link in [&mut first, &mut second] {
                let payload = Payload::Region(link.mr.sge(RESULT, 8));
                let op = SendOp::FetchAdd { remote, add: 1 };
                link.post(end, &[signaled(n, op, payload)])?;
            }
        }
        end.take(first.send_cq, ROUNDS as usize).await?;
        end.take(second.send_cq, ROUNDS as usize).await?;
    }
    end.meet().await?;
    ensure!(
        end.initiates() || first.bytes(0, 8) == (2 * ROUNDS).to_ne_bytes(),
        "additions were lost"
    );
    end.meet().await
}

/// No addition is lost when a queue pair and the responder's CPU add to one word.
pub(super) async fn host_atomics_add_up_with_the_cpu<P: Provider>(end: &mut End<P>) -> Check {
    const ROUNDS: u64 = 200;
    let mut link = end.link(&Setup::new()).await?;
    for n in 0..ROUNDS {
        if end.initiates() {
            let op = faa(&link, 64, 1 << 32);
            let payload = Payload::Region(link.mr.sge(RESULT, 8));
            link.post(end, &[signaled(n, op, payload)])?;
            end.take_one(link.send_cq).await?;
        } else {
            link.mr.region().fetch_add_u64(64, 1);
            end.turn().await;
        }
    }
    end.meet().await?;
    if !end.initiates() {
        let word = link.mr.region().load_u64(64, Ordering::Acquire);
        ensure_eq!(
            (word >> 32, word & 0xffff_ffff),
            (ROUNDS, ROUNDS),
            "additions of card and CPU"
        );
    }
    end.meet().await
}
