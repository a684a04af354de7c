//! Rules of SEND, RECV and immediate data.

use super::link::{Setup, pattern, signaled};
use super::{Check, End, ensure, ensure_eq};
use drover_verbs::{Imm, Opcode, Payload, Provider, SendOp, WcStatus};

/// Messages use RECVs in posting order and arrive whole, in sending order.
pub(super) async fn send_recv_in_order<P: Provider>(end: &mut End<P>) -> Check {
    const COUNT: u64 = 10;
    let mut link = end.link(&Setup::new()).await?;
    let len = |n: u64| (n as usize * 37) % 200 + 1;
    if end.initiates() {
        end.meet().await?;
        for n in 0..COUNT {
            let wr = link.send(n, &pattern(n, len(n)), None);
            link.post(end, &[wr])?;
        }
        for wc in end.take(link.send_cq, COUNT as usize).await? {
            ensure_eq!(
                (wc.status, wc.opcode),
                (WcStatus::Success, Opcode::Send),
                "completion"
            );
        }
        return end.meet().await;
    }
    for n in 0..COUNT {
        link.recv(end, 100 + n, n as usize * 512, 512)?;
    }
    end.meet().await?;
    let gap = end.gap();
    for n in 0..COUNT {
        let wc = end.take_one(link.recv_cq).await?;
        ensure_eq!(
            (wc.wr_id.0, wc.status, wc.opcode),
            (100 + n, WcStatus::Success, Opcode::Recv),
            "RECV"
        );
        ensure_eq!(wc.byte_len as usize, gap + len(n), "byte_len");
        let got = link.bytes(n as usize * 512 + gap, len(n));
        ensure!(got == pattern(n, len(n)), "message {n} is not what was sent");
    }
    end.meet().await
}

/// Immediate data arrives with its message, and only with it.
pub(super) async fn send_with_imm<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    let imms = [Some(Imm(0xdead_beef)), None, Some(Imm(0)), Some(Imm(u32::MAX))];
    if end.initiates() {
        end.meet().await?;
        for (n, imm) in imms.into_iter().enumerate() {
            let wr = link.send(n as u64, b"with", imm);
            link.post(end, &[wr])?;
        }
        end.take(link.send_cq, imms.len()).await?;
        return end.meet().await;
    }
    for n in 0..imms.len() {
        link.recv(end, n as u64, n * 64, 64)?;
    }
    end.meet().await?;
    for imm in imms {
        ensure_eq!(end.take_one(link.recv_cq).await?.imm, imm, "immediate data");
    }
    end.meet().await
}

/// An empty SEND is a message.
pub(super) async fn zero_length_send<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    if end.initiates() {
        end.meet().await?;
        let dest = link.dest;
        let op = SendOp::Send {
            dest,
            imm: Some(Imm(5)),
        };
        link.post(end, &[signaled(1, op, Payload::EMPTY)])?;
        ensure_eq!(
            end.take_one(link.send_cq).await?.status,
            WcStatus::Success,
            "status"
        );
        return end.meet().await;
    }
    link.recv(end, 7, 0, 64)?;
    end.meet().await?;
    let wc = end.take_one(link.recv_cq).await?;
    ensure_eq!(
        (wc.wr_id.0, wc.byte_len as usize, wc.imm),
        (7, end.gap(), Some(Imm(5))),
        "RECV"
    );
    end.meet().await
}

/// A WRITE with immediate data writes like a WRITE and uses a RECV, whose buffer it does not change.
pub(super) async fn write_with_imm_takes_recv<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    if end.initiates() {
        end.meet().await?;
        for n in 0..2 {
            let mut wr = link.write(n, 4096, &pattern(n, 100));
            let SendOp::Write { remote, .. } = wr.op else {
                unreachable!("made as a WRITE")
            };
            let imm = Some(Imm(40 + n as u32));
            wr.op = SendOp::Write { remote, imm };
            link.post(end, &[wr])?;
            ensure_eq!(end.take_one(link.send_cq).await?.opcode, Opcode::Write, "opcode");
            end.meet().await?;
        }
        return Ok(());
    }
    for n in 0..2 {
        link.recv(end, 10 + n, 64, 64)?;
    }
    end.meet().await?;
    for n in 0..2 {
        let wc = end.take_one(link.recv_cq).await?;
        ensure_eq!((wc.wr_id.0, wc.status), (10 + n, WcStatus::Success), "RECV");
        ensure_eq!((wc.opcode, wc.byte_len), (Opcode::RecvWriteImm, 100), "RECV");
        ensure_eq!(wc.imm, Some(Imm(40 + n as u32)), "immediate data");
        ensure!(
            link.bytes(4096, 100) == pattern(n, 100),
            "the bytes had not landed"
        );
        ensure!(link.bytes(64, 64) == [0; 64], "the RECV's buffer was written");
        end.meet().await?;
    }
    Ok(())
}

/// Over RC, a SEND posted before its RECV waits for it.
pub(super) async fn send_waits_for_recv<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    if end.initiates() {
        for n in 0..3 {
            let wr = link.send(n, &pattern(n, 20), None);
            link.post(end, &[wr])?;
        }
        end.meet().await?;
        let wcs = end.take(link.send_cq, 3).await?;
        ensure!(wcs.iter().all(|wc| wc.status == WcStatus::Success), "{wcs:?}");
        return end.meet().await;
    }
    end.meet().await?;
    for n in 0..3 {
        link.recv(end, n, n as usize * 64, 64)?;
        ensure_eq!(end.take_one(link.recv_cq).await?.wr_id.0, n, "RECV");
        ensure!(
            link.bytes(n as usize * 64, 20) == pattern(n, 20),
            "message {n} is not what was sent"
        );
    }
    end.meet().await
}

/// Over UC, a SEND without a RECV is lost silently, and only that SEND.
pub(super) async fn uc_send_dropped_without_recv<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    if end.initiates() {
        for n in 0..2 {
            let wr = link.send(n, &pattern(n, 20), None);
            link.post(end, &[wr])?;
            ensure_eq!(
                end.take_one(link.send_cq).await?.status,
                WcStatus::Success,
                "status"
            );
            end.meet().await?; // the first has been dropped
            end.meet().await?; // a RECV has been posted
        }
        return end.meet().await;
    }
    end.meet().await?;
    end.quiet(link.recv_cq).await?;
    link.recv(end, 5, 0, 64)?;
    end.quiet(link.recv_cq).await?;
    end.meet().await?;
    end.meet().await?;
    ensure_eq!(end.take_one(link.recv_cq).await?.wr_id.0, 5, "RECV");
    ensure!(
        link.bytes(0, 20) == pattern(1, 20),
        "the lost message was delivered after all"
    );
    end.meet().await?;
    end.meet().await
}
