//! Rules of READ.

use super::link::{HALF_BYTES, Link, Setup, pattern, unsignaled};
use super::{Check, End, Stop, ensure, ensure_eq};
use drover_verbs::{
    Context, MemoryRegion, Opcode, Payload, Provider, QueuePair, RemoteRegion, SendList, SendOp, SendWr,
    WcStatus, WrId,
};
use std::sync::atomic::Ordering;

/// A READ returns all of the peer's bytes, and no others.
pub(super) async fn read_returns_remote_bytes<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    for len in [1, 7, 8, 40, 64, 65, 300, 4096, 9000] {
        let want = pattern(len as u64, len);
        if !end.initiates() {
            link.mr.region().copy_in(24, &want);
            end.meet().await?;
            end.meet().await?;
            continue;
        }
        end.meet().await?;
        let into = HALF_BYTES + 8;
        link.mr.region().zero(into - 8, len + 16);
        let wr = link.read(len as u64, 24, into, len);
        link.post(end, &[wr])?;
        let wc = end.take_one(link.send_cq).await?;
        ensure_eq!(
            (wc.status, wc.opcode),
            (WcStatus::Success, Opcode::Read),
            "completion"
        );
        ensure_eq!(wc.byte_len as usize, len, "byte_len");
        ensure!(link.bytes(into, len) == want, "{len} bytes came back different");
        ensure!(
            link.bytes(into - 8, 8) == [0; 8],
            "bytes before the target changed"
        );
        ensure!(
            link.bytes(into + len, 8) == [0; 8],
            "bytes behind the target changed"
        );
        end.meet().await?;
    }
    Ok(())
}

/// A READ posted after a WRITE of the same bytes sees them.
pub(super) async fn read_sees_earlier_write<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    if end.initiates() {
        for round in 0..8 {
            let want = pattern(round, 96);
            let write = unsignaled(link.write(1, 512, &want));
            let read = link.read(2, 512, 0, 96);
            link.post(end, &[write, read])?;
            let wc = end.take_one(link.send_cq).await?;
            ensure_eq!((wc.wr_id.0, wc.status), (2, WcStatus::Success), "completion");
            ensure!(link.bytes(0, 96) == want, "the READ overtook the WRITE before it");
        }
    }
    end.meet().await
}

/// A READ posted after an FAA to the same word, in one list, sees the sum.
pub(super) async fn read_sees_earlier_atomic<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    if end.initiates() {
        for round in 1..=8u64 {
            let into = Payload::Region(link.mr.sge(HALF_BYTES, 8));
            let add = SendWr::fetch_add(link.remote.at(512), 5, into);
            let read = link.read(2, 512, 0, 8);
            link.post(end, &[add, read])?;
            let wc = end.take_one(link.send_cq).await?;
            ensure_eq!((wc.wr_id.0, wc.status), (2, WcStatus::Success), "completion");
            let seen = link.mr.region().load_u64(0, Ordering::Acquire);
            ensure_eq!(seen, 5 * round, "the word behind the FAA");
        }
    }
    end.meet().await
}

/// While the responder WRITEs to its own region, each aligned unit of a READ is all old or all new.
pub(super) async fn read_unit_is_seen_whole<P: Provider>(end: &mut End<P>) -> Check {
    const ROUNDS: u64 = 150;
    const BYTES: usize = 2048;
    let unit = end.ctx.caps().reads.unit_bytes;
    let mut link = end.link(&Setup::new()).await?;
    let mut own = match end.initiates() {
        true => None,
        false => Some(own_connection(end, &link)?),
    };
    for round in 0..ROUNDS {
        match &mut own {
            None => {
                let wr = link.read(round, 0, 0, BYTES);
                link.post(end, &[wr])?;
                let wc = end.take_one(link.send_cq).await?;
                ensure_eq!(wc.status, WcStatus::Success, "status of a READ");
                for (n, bytes) in link.bytes(0, BYTES).chunks(unit).enumerate() {
                    let is_whole = bytes.iter().all(|byte| *byte == bytes[0]);
                    ensure!(is_whole, "unit {n} is a mixture: {bytes:?}");
                }
            }
            Some((qp, cq, remote)) => {
                let source = link.stage(&[round as u8 + 1; BYTES]);
                let mut list = SendList::default();
                list.push(SendWr::write(remote.at(0), source).signaled(WrId(round)));
                qp.0.post_send(end.ctx.cpu(), &list)?;
                let wc = end.take_one(*cq).await?;
                ensure_eq!(wc.status, WcStatus::Success, "status of a WRITE");
            }
        }
    }
    end.meet().await
}

/// A connection of an end with itself.
type Own<P> = ((<P as Provider>::Qp, <P as Provider>::Qp), usize, RemoteRegion);

/// Two queue pairs of this end that are connected, and the key with which they reach the link's region.
fn own_connection<P: Provider>(end: &mut End<P>, link: &Link<P>) -> Result<Own<P>, Stop> {
    let (mut here, cq, _) = end.queue_pair(&Setup::new(), None)?;
    let (mut there, _, _) = end.queue_pair(&Setup::new(), None)?;
    here.connect(&there.export()?)?;
    there.connect(&here.export()?)?;
    let remote = end.ctx.import_region(&link.mr.export(&[])?)?;
    Ok(((here, there), cq, remote))
}

/// A fenced WRITE sends what the READ before it in the list fetched.
pub(super) async fn fence_waits_for_reads<P: Provider>(end: &mut End<P>) -> Check {
    const ROUNDS: usize = 16;
    const BYTES: usize = 1000;
    let mut link = end.link(&Setup::new()).await?;
    for round in 0..ROUNDS {
        let want = pattern(round as u64 + 1, BYTES);
        if end.initiates() {
            let put = unsignaled(link.write(1, 0, &want));
            let read = unsignaled(link.read(2, 0, 0, BYTES));
            let op = SendOp::Write {
                remote: link.remote.at(4096),
                imm: None,
            };
            let copy = SendWr::new(op, link.mr.sge(0, BYTES)).fenced().signaled(WrId(3));
            link.post(end, &[put, read, copy])?;
            let wc = end.take_one(link.send_cq).await?;
            ensure_eq!((wc.wr_id.0, wc.status), (3, WcStatus::Success), "completion");
        }
        end.meet().await?;
        ensure!(
            end.initiates() || link.bytes(4096, BYTES) == want,
            "round {round}: the fenced WRITE did not wait for the READ"
        );
        end.meet().await?;
    }
    Ok(())
}
