//! The rule of memory on the card.

use super::link::{HALF_BYTES, Link, Setup, pattern};
use super::{Check, End, Stop, ensure, ensure_eq};
use drover_verbs::{
    Access, Context, DeviceMemory, MemoryRegion, Provider, QueuePair, RegisterError, RemoteRegion, SendList,
    SendWr, Wc, WcStatus, WrId,
};

/// Bytes of the memory: a whole number of words, but of nothing greater.
const BYTES: usize = 264;

/// Peers READ and WRITE memory on the card and use its words in CAS and FAA, within its bounds and rights; its owner sees that,
/// and peers see what it copies in. What is freed may be allocated again.
pub(super) async fn device_memory_semantics<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    if end.initiates() {
        let remote = import(end).await?;
        ensure_eq!(
            (remote.len, remote.access),
            (BYTES as u64, Access::ALL),
            "what was exported"
        );
        use_it(end, &mut link, remote).await?;
        end.meet().await?;
        let past_its_end = SendWr::write(remote.at(BYTES - 4), link.stage(&[9; 8]));
        ensure_eq!(
            one(end, &mut link, past_its_end).await?.status,
            WcStatus::RemoteAccess,
            "past the end"
        );
        let mut link = end.link(&Setup::new()).await?;
        let remote = import(end).await?;
        let denied = SendWr::write(remote.at(0), link.stage(&[9; 8]));
        ensure_eq!(
            one(end, &mut link, denied).await?.status,
            WcStatus::RemoteAccess,
            "without the right"
        );
        return end.meet().await;
    }
    refusals(end)?;
    let memory = end.ctx.alloc_device(BYTES - 3, Access::ALL)?;
    ensure_eq!(memory.bytes(), BYTES, "length");
    let mut bytes = [1; BYTES];
    memory.copy_out(0, &mut bytes)?;
    ensure!(bytes == [0; BYTES], "new memory is not zeroed");
    memory.copy_in(64, &pattern(7, 128))?;
    end.send_export(memory.export()?)?;
    end.meet().await?;
    memory.copy_out(0, &mut bytes)?;
    ensure_eq!(word(&bytes[8..]), 5, "a word after CAS and FAA");
    ensure!(
        bytes[64..192] == pattern(7, 128),
        "the bytes that its owner copied in"
    );
    ensure!(bytes[192..256] == pattern(8, 64), "the bytes that the peer wrote");
    let _second = end.link(&Setup::new()).await?;
    let read_only = end.ctx.alloc_device(64, Access::REMOTE_READ)?;
    end.send_export(read_only.export()?)?;
    end.meet().await?;
    memory.copy_out(BYTES - 8, &mut bytes[..8])?;
    ensure_eq!(word(&bytes), 0, "the last word");
    Ok(())
}

async fn import<P: Provider>(end: &mut End<P>) -> Result<RemoteRegion, Stop> {
    let export = end.receive_export().await?;
    Ok(end.ctx.import_region(&export)?)
}

fn word(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word))
}

/// Posts one request, signaled, and returns its completion.
async fn one<P: Provider>(end: &mut End<P>, link: &mut Link<P>, wr: SendWr) -> Result<Wc, Stop> {
    let mut list = SendList::default();
    list.push(wr.signaled(WrId(1)));
    link.qp.post_send(end.ctx.cpu(), &list)?;
    end.take_one(link.send_cq).await
}

/// READ, WRITE, CAS and FAA, each alone.
async fn use_it<P: Provider>(end: &mut End<P>, link: &mut Link<P>, remote: RemoteRegion) -> Check {
    let into = link.mr.sge(HALF_BYTES, 8);
    let staged = link.stage(&pattern(8, 64));
    let write = SendWr::write(remote.at(192), staged);
    let read = SendWr::read(remote.at(64), link.mr.sge(0, 192));
    let cas = SendWr::compare_swap(remote.at(8), 0, 3, into);
    let add = SendWr::fetch_add(remote.at(8), 2, into);
    for (what, wr) in [("WRITE", write), ("READ", read), ("CAS", cas), ("FAA", add)] {
        ensure_eq!(
            one(end, link, wr).await?.status,
            WcStatus::Success,
            format!("status of a {what}")
        );
    }
    ensure!(
        link.bytes(0, 128) == pattern(7, 128),
        "the READ returned something else"
    );
    ensure!(
        link.bytes(128, 64) == pattern(8, 64),
        "the READ did not see the WRITE"
    );
    ensure_eq!(word(&link.bytes(HALF_BYTES, 8)), 3, "old value of the FAA");
    Ok(())
}

/// What is refused, and that freed memory can be had again.
fn refusals<P: Provider>(end: &End<P>) -> Check {
    let all = end.ctx.caps().supports.device_memory_bytes;
    for _ in 0..2 {
        drop(end.ctx.alloc_device(all, Access::ALL)?);
    }
    let too_much = end.ctx.alloc_device(all + 8, Access::ALL).err();
    ensure!(
        matches!(too_much, Some(RegisterError::DeviceMemoryTaken { .. })),
        "more than there is: {too_much:?}"
    );
    let inconsistent = Access {
        local_write: false,
        ..Access::ALL
    };
    let refused = end.ctx.alloc_device(64, inconsistent).err();
    ensure!(
        matches!(refused, Some(RegisterError::InconsistentAccess)),
        "inconsistent rights: {refused:?}"
    );
    Ok(())
}
