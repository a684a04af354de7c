//! Rules of READ.

use super::link::{HALF_BYTES, Setup, pattern, unsignaled};
use super::{Check, End, ensure, ensure_eq};
use drover_verbs::{MemoryRegion, Opcode, Provider, WcStatus};

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
