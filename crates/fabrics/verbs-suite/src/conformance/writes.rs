//! Rules of WRITE.

use super::link::{Setup, pattern, signaled, unsignaled};
use super::{Check, End, ensure, ensure_eq};
use drover_verbs::{MemoryRegion, Opcode, Payload, Provider, SendOp, WcStatus};
use std::sync::atomic::Ordering;

/// Over RC, a completed WRITE is visible at the other end.
pub(super) async fn write_lands_before_completion<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    for (seed, len) in [8, 300, 4096].into_iter().enumerate() {
        let want = pattern(seed as u64, len);
        if end.initiates() {
            let wr = link.write(1, 64, &want);
            link.post(end, &[wr])?;
            let wc = end.take_one(link.send_cq).await?;
            ensure_eq!(
                (wc.status, wc.opcode),
                (WcStatus::Success, Opcode::Write),
                "completion"
            );
            end.say_bytes(b"done")?;
        } else {
            end.receive_export().await?;
            ensure!(
                link.bytes(64, len) == want,
                "{len} bytes had not landed at their completion"
            );
        }
        end.meet().await?;
    }
    Ok(())
}

/// A WRITE arrives without any action of the other end.
pub(super) async fn write_lands<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    for len in [1, 7, 8, 32, 63, 64, 65, 257, 1024] {
        let want = pattern(len as u64, len);
        if end.initiates() {
            let wr = link.write(len as u64, 128, &want);
            link.post(end, &[wr])?;
            ensure_eq!(end.take_one(link.send_cq).await?.wr_id.0, len as u64, "wr_id");
        } else {
            let what = format!("a WRITE of {len} bytes");
            end.until(&what, |_| Ok((link.bytes(128, len) == want).then_some(())))
                .await?;
        }
        end.meet().await?;
    }
    Ok(())
}

/// WRITEs of one queue pair become visible in posting order.
pub(super) async fn writes_in_order<P: Provider>(end: &mut End<P>) -> Check {
    const LAST: u64 = 32;
    let mut link = end.link(&Setup::new()).await?;
    if end.initiates() {
        let wrs: Vec<_> = (1..=LAST)
            .map(|n| link.write(n, 0, &n.to_ne_bytes()))
            .map(unsignaled)
            .collect();
        for list in wrs.chunks(8) {
            link.post(end, list)?;
            end.turn().await;
        }
    } else {
        let mut seen = 0;
        let region = link.mr.region().clone();
        end.until("the last WRITE", |_| {
            let now = region.load_u64(0, Ordering::Acquire);
            ensure!(now >= seen, "{now} landed after {seen}");
            seen = now;
            Ok((now == LAST).then_some(()))
        })
        .await?;
    }
    end.meet().await?;
    ensure!(
        end.initiates() || link.bytes(0, 8) == LAST.to_ne_bytes(),
        "an older WRITE landed last"
    );
    end.meet().await
}

/// Over UC no WRITE is lost, and a reader that sees one sees all that were posted before it.
pub(super) async fn uc_writes_all_land_in_order<P: Provider>(end: &mut End<P>) -> Check {
    const COUNT: u64 = 400;
    const LIST: usize = 8;
    let mut link = end.link(&Setup::new()).await?;
    if end.initiates() {
        for first in (0..COUNT).step_by(LIST) {
            let mut wrs: Vec<_> = (first..first + LIST as u64)
                .map(|n| link.write(n, 8 * n as usize, &(n + 1).to_ne_bytes()))
                .map(unsignaled)
                .collect();
            wrs[LIST - 1].signaled = true;
            link.post(end, &wrs)?;
            end.take_one(link.send_cq).await?;
        }
    } else {
        let region = link.mr.region().clone();
        let mut seen = 0;
        end.until("the last WRITE", |_| {
            let here = |n: u64| region.load_u64(8 * n as usize, Ordering::Acquire) == n + 1;
            // Search from the newest: all WRITEs before the one found must be visible by then.
            let newest = (seen..COUNT).rev().find(|&n| here(n));
            let missing = newest.and_then(|newest| (seen..newest).find(|&n| !here(n)));
            ensure!(missing.is_none(), "{missing:?} is missing, {newest:?} is there");
            seen = newest.map_or(seen, |newest| newest + 1);
            Ok((seen == COUNT).then_some(()))
        })
        .await?;
    }
    end.meet().await
}

/// A reader that sees the last word of a WRITE sees all of it.
pub(super) async fn write_last_word_last<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    for round in 1..=60u64 {
        let words = 1 + (round as usize * 7) % 96;
        let bytes: Vec<u8> = (0..words).flat_map(|_| round.to_ne_bytes()).collect();
        if end.initiates() {
            let wr = link.write(round, 256, &bytes);
            link.post(end, &[wr])?;
            end.receive_export().await?;
            end.take_one(link.send_cq).await?;
            continue;
        }
        let region = link.mr.region().clone();
        let last = 256 + 8 * (words - 1);
        end.until("the last word", |_| {
            Ok((region.load_u64(last, Ordering::Acquire) == round).then_some(()))
        })
        .await?;
        ensure!(
            link.bytes(256, bytes.len()) == bytes,
            "word {words} of {words} was not the last to land"
        );
        end.say_bytes(b"seen")?;
    }
    end.meet().await
}

/// Only the named bytes are written, at any offset and length.
pub(super) async fn write_leaves_neighbours_alone<P: Provider>(end: &mut End<P>) -> Check {
    const AREA: usize = 192;
    let mut link = end.link(&Setup::new()).await?;
    let mut want = vec![0; AREA];
    for round in 0..40 {
        let (offset, len) = (16 + round * 5 % 23, 1 + round * 11 % 90);
        let bytes = pattern(round as u64, len);
        want[offset..offset + len].copy_from_slice(&bytes);
        if end.initiates() {
            let wr = link.write(round as u64, offset, &bytes);
            link.post(end, &[wr])?;
            end.take_one(link.send_cq).await?;
            end.meet().await?;
        } else {
            end.meet().await?;
            let what = format!("{len} bytes at {offset} and no other");
            end.until(&what, |_| Ok((link.bytes(0, AREA) == want).then_some(())))
                .await?;
        }
        end.meet().await?;
    }
    Ok(())
}

/// A WRITE may be longer than a packet.
pub(super) async fn write_longer_than_mtu<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    let want = pattern(9, 3 * 4096 + 13);
    if end.initiates() {
        let wr = link.write(1, 0, &want);
        link.post(end, &[wr])?;
        ensure_eq!(
            end.take_one(link.send_cq).await?.status,
            WcStatus::Success,
            "status"
        );
    } else {
        end.until("all bytes", |_| {
            Ok((link.bytes(0, want.len()) == want).then_some(()))
        })
        .await?;
    }
    end.meet().await
}

/// An empty WRITE completes and changes nothing.
pub(super) async fn zero_length_write<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    if end.initiates() {
        let op = SendOp::Write {
            remote: link.remote.at(64),
            imm: None,
        };
        let empty = signaled(1, op, Payload::EMPTY);
        let after = link.write(2, 128, b"after it");
        link.post(end, &[empty, after])?;
        for wc in end.take(link.send_cq, 2).await? {
            ensure_eq!(wc.status, WcStatus::Success, "status");
        }
    } else {
        end.until("the WRITE after", |_| {
            Ok((link.bytes(128, 8) == b"after it").then_some(()))
        })
        .await?;
        ensure!(link.bytes(0, 128) == [0; 128], "a WRITE of no bytes changed some");
    }
    end.meet().await
}
