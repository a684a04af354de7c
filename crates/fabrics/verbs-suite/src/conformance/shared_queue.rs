//! Rule of queue pairs that threads share.

use super::link::{HALF_BYTES, Setup, pattern, signaled};
use super::{Check, End, Stop, ensure, ensure_eq};
use drover_base::{Cpu, Ns};
use drover_mem::PageWish;
use drover_verbs::{
    Access, Context, Device, Domain, DomainOptions, MemoryRegion, Payload, Provider, QpOptions, QueuePair,
    RemoteRegion, SendList, SendOp, SharedQueue, Wc, WcStatus,
};
use std::sync::Mutex;

const THREADS: usize = 4;
/// Lists that each thread posts, of one to three WRITEs.
const LISTS: usize = 6;
/// WRITEs of each thread.
const WRITES: usize = 2 * LISTS;
const BYTES: usize = 96;
/// Longest wait of a thread for completions.
const PATIENCE: Ns = Ns::from_s(10);

/// Every request that one of several threads posts to a shared queue is executed, and completes once, whichever of them
/// polls. Where the ends have threads of their own, these threads are real.
pub(super) async fn shared_queue_loses_nothing<P: Provider>(end: &mut End<P>) -> Check {
    if !end.initiates() {
        return serve(end).await;
    }
    let domain = end.device.domain(&DomainOptions::default())?;
    let ctx = domain.context()?;
    let cq = ctx.create_cq(2 * THREADS * WRITES)?;
    let mut options = QpOptions::<P>::new(end.kind, &cq, ctx.caps());
    options.send_depth = THREADS * WRITES;
    let mut qp = ctx.create_qp(&options)?;
    let region = ctx.alloc(HALF_BYTES, PageWish::Small)?;
    end.send_export(qp.export()?)?;
    qp.connect(&end.receive_export().await?)?;
    let remote = domain.import_region(&end.receive_export().await?)?;
    end.meet().await?;
    let parties = Parties::<P> {
        mr: domain.register(&region, Access::LOCAL)?,
        queue: domain.share(ctx, qp, cq)?,
        remote,
        completed: Mutex::default(),
    };
    match end.can_sleep {
        true => in_threads(&domain, &parties)?,
        false => in_turn(end, &domain, &parties).await?,
    }
    let mut ids: Vec<u64> = parties.lock().iter().map(|wc| wc.wr_id.0).collect();
    ids.sort_unstable();
    ensure_eq!(
        ids,
        (0..(THREADS * WRITES) as u64).collect::<Vec<u64>>(),
        "completed"
    );
    let failed = parties
        .lock()
        .iter()
        .find(|wc| wc.status != WcStatus::Success)
        .copied();
    ensure!(failed.is_none(), "a request failed: {failed:?}");
    end.meet().await?;
    end.meet().await
}

/// The responder: memory, and what must be there at the end.
async fn serve<P: Provider>(end: &mut End<P>) -> Check {
    let (mut qp, _, _) = end.queue_pair(&Setup::new(), None)?;
    let region = end.ctx.alloc(HALF_BYTES, PageWish::Small)?;
    let mr = end.ctx.register(&region, Access::REMOTE_WRITE)?;
    end.send_export(qp.export()?)?;
    end.send_export(mr.export(&[])?)?;
    qp.connect(&end.receive_export().await?)?;
    end.meet().await?;
    end.meet().await?;
    for id in 0..THREADS * WRITES {
        let mut bytes = vec![0; BYTES];
        region.copy_out(id * BYTES, &mut bytes);
        ensure!(bytes == pattern(id as u64, BYTES), "WRITE {id} was lost");
    }
    end.meet().await
}

/// What the threads share.
struct Parties<P: Provider> {
    mr: P::SharedMr,
    queue: P::SharedQueue,
    remote: RemoteRegion,
    completed: Mutex<Vec<Wc>>,
}

impl<P: Provider> Parties<P> {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Wc>> {
        self.completed
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Posts list `n` of `thread`: one, two or three WRITEs.
    fn post(&self, ctx: &P::Context, thread: usize, n: usize) -> Check {
        let mr = ctx.adopt(&self.mr)?;
        let first = thread * WRITES + n / 3 * 6 + [0, 1, 3][n % 3];
        let mut list = SendList::default();
        for id in first..=first + n % 3 {
            mr.region().copy_in(id * BYTES, &pattern(id as u64, BYTES));
            let remote = self.remote.at(id * BYTES);
            let op = SendOp::Write { remote, imm: None };
            list.push(signaled(
                id as u64,
                op,
                Payload::Region(mr.sge(id * BYTES, BYTES)),
            ));
        }
        Ok(self.queue.post_send(ctx.cpu(), &list)?)
    }

    /// Polls; returns whether all requests of all threads are done.
    fn poll(&self, ctx: &P::Context) -> bool {
        let mut wcs = [Wc::default(); 3];
        let count = self.queue.poll(ctx.cpu(), &mut wcs);
        let mut completed = self.lock();
        completed.extend(&wcs[..count]);
        completed.len() >= THREADS * WRITES
    }
}

/// The threads' contexts act in turn in this one.
async fn in_turn<P: Provider>(end: &mut End<P>, domain: &P::Domain, parties: &Parties<P>) -> Check {
    let contexts = (0..THREADS).map(|_| domain.context());
    let contexts: Vec<P::Context> = contexts.collect::<Result<_, _>>()?;
    for n in 0..LISTS {
        for (thread, ctx) in contexts.iter().enumerate() {
            parties.post(ctx, thread, n)?;
        }
        end.turn().await;
    }
    let mut polls = 0;
    end.until("completions of a shared queue", |_| {
        polls += 1;
        Ok(parties.poll(&contexts[polls % THREADS]).then_some(()))
    })
    .await
}

fn in_threads<P: Provider>(domain: &P::Domain, parties: &Parties<P>) -> Check {
    let play = |thread: usize| -> Check {
        let ctx = domain.context()?;
        for n in 0..LISTS {
            parties.post(&ctx, thread, n)?;
            parties.poll(&ctx);
        }
        let start = ctx.cpu().refresh();
        while !parties.poll(&ctx) {
            let waited = ctx.cpu().refresh().since(start);
            ensure!(
                waited < PATIENCE,
                "thread {thread} waited {waited} for completions"
            );
            std::thread::yield_now();
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || play(thread)))
            .collect();
        let ends = threads.into_iter().map(|thread| thread.join());
        ends.map(|end| end.unwrap_or_else(|_| Err(Stop::Broken("a thread panicked".into()))))
            .fold(Ok(()), Check::and)
    })
}
