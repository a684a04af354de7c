//! Rules of domains: what contexts of one share, and what those of others do not.

use super::access::denied;
use super::link::{HALF_BYTES, Link, Setup, pattern};
use super::{Check, End, ensure, ensure_eq};
use drover_mem::PageWish;
use drover_verbs::{
    Access, Context, Device, Domain, DomainOptions, MemoryRegion, Provider, QpKind, SendOp, SendWr, WcStatus,
};

/// Contexts of the domain at each end.
const CONTEXTS: usize = 3;

/// A region registered in a domain is memory of each of its contexts, and a region that it imported is within reach of
/// each, also of a context opened later.
pub(super) async fn region_of_a_domain_in_each_context<P: Provider>(end: &mut End<P>) -> Check {
    let domain = end.device.domain(&DomainOptions::default())?;
    let stranger = std::mem::replace(&mut end.ctx, domain.context()?);
    let region = end.ctx.alloc(2 * HALF_BYTES, PageWish::Small)?;
    let shared = domain.register(&region, Access::ALL)?;
    let mr = end.ctx.adopt(&shared)?;
    end.send_export(mr.export(&[])?)?;
    let export = end.receive_export().await?;
    let remote = domain.import_region(&export)?;
    // The contexts stay: a thread's objects end with it.
    let mut contexts = Vec::new();
    let mut links = Vec::new();
    for n in 0..CONTEXTS {
        if n > 0 {
            contexts.push(std::mem::replace(&mut end.ctx, domain.context()?));
        }
        let mr = end.ctx.adopt(&shared)?;
        let mut link = end.link_over(&Setup::new(), mr, remote).await?;
        write_and_read_back(end, &mut link, n).await?;
        links.push(link);
    }
    ensure!(
        stranger.adopt(&shared).is_err(),
        "a context of another domain adopts the registration"
    );
    Ok(())
}

/// The initiator WRITEs to a place of its own, and READs it where the kind of queue pair can.
async fn write_and_read_back<P: Provider>(end: &mut End<P>, link: &mut Link<P>, n: usize) -> Check {
    const BYTES: usize = 200;
    let (offset, bytes) = (256 * (n + 1), pattern(n as u64 + 1, BYTES));
    if end.initiates() {
        let mut wrs = vec![link.write(1, offset, &bytes)];
        if end.kind == QpKind::Rc {
            wrs.push(link.read(2, offset, 0, BYTES));
        }
        link.post(end, &wrs)?;
        for wc in end.take(link.send_cq, wrs.len()).await? {
            ensure_eq!(wc.status, WcStatus::Success, format!("status in context {n}"));
        }
        ensure!(
            end.kind != QpKind::Rc || link.bytes(0, BYTES) == bytes,
            "context {n} READ something else"
        );
    } else {
        let what = format!("the bytes of context {n}");
        end.until(&what, |_| Ok((link.bytes(offset, BYTES) == bytes).then_some(())))
            .await?;
    }
    end.meet().await
}

/// Where a context can be isolated, memory that is registered in it is out of reach for queue pairs of the context beside it,
/// though a peer has the key.
pub(super) async fn isolated_memory_denied<P: Provider>(end: &mut End<P>) -> Check {
    let verbs: &[bool] = if end.kind == QpKind::Rc {
        &[false, true]
    } else {
        &[false]
    };
    for &reads in verbs {
        let mut link = end.link(&Setup::new()).await?;
        let own = end.ctx.isolated()?;
        ensure!(own.is_some() == P::ISOLATES, "a context is isolated, or is not");
        let Some(own) = own else { return Ok(()) };
        let again = own.register(link.mr.region(), Access::ALL)?;
        end.send_export(again.export(&[])?)?;
        let export = end.receive_export().await?;
        let remote = end.ctx.import_region(&export)?.at(64);
        let wr = match reads {
            true => link.read(1, 64, 0, 64),
            false => link.write(1, 64, b"intruder"),
        };
        let op = match reads {
            true => SendOp::Read { remote },
            false => SendOp::Write { remote, imm: None },
        };
        denied(end, &mut link, SendWr { op, ..wr }).await?;
    }
    Ok(())
}

/// A key that another domain imported is refused here.
pub(super) async fn rkey_of_other_domain_denied<P: Provider>(end: &mut End<P>) -> Check {
    let mut link = end.link(&Setup::new()).await?;
    let mut wr = link.write(1, 64, b"intruder");
    let other = end.device.domain(&DomainOptions::default())?;
    if end.initiates() {
        // This context has released its regions when the other domain imports.
        end.ctx.forget_region(&link.remote);
        let export = end.receive_export().await?;
        let remote = other.import_region(&export)?.at(64);
        wr.op = SendOp::Write { remote, imm: None };
    } else {
        end.send_export(link.mr.export(&[])?)?;
    }
    denied(end, &mut link, wr).await
}
