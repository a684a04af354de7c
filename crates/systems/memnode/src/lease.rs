//! [`Lease`]: keeps a compute process alive in a pool.
//!
//! At each renewal it WRITEs a counter, and the epoch of reclamation that the process has reached, to the process's line
//! at each node, and READs what the node says: epochs and clock. A process that cannot renew stops writing by itself
//! before the node suspects it: [`PoolNode::may_write`](crate::PoolNode::may_write).

use crate::activity::Counted;
use crate::clients::LEASE_BYTES;
use crate::header::{CLOCK_AT, EPOCH_AT, RECLAIM_AT, SWEEP_AT};
use crate::pool::Pool;
use drover_base::{Actor, Cpu, Ns, Progress};
use drover_mem::{LINE_BYTES, PageWish, Region};
use drover_rt::{Queues, ResourceError};
use drover_verbs::{Access, Context, MemoryRegion, Provider, RemoteAddr, SendOp, Wc, WcStatus};
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// Bytes of local memory per node: a line to WRITE from, a line to READ into.
const STAGING_BYTES: usize = 2 * LINE_BYTES;

/// Keeps a compute process alive in a pool. An actor, to be stepped by the thread that opened the pool; it sleeps between
/// two renewals. Without it the process
/// must not write any more once the lease has run out, and is fenced.
pub struct Lease<P: Provider> {
    /// Queue pairs before the memory that they use.
    lines: Vec<Line<P>>,
    mr: P::Mr,
    region: Region,
    pool: Pool<P>,
    next_renewal: Ns,
    ctx: Rc<P::Context>,
}

/// The lease at one node.
struct Line<P: Provider> {
    queues: Queues<P>,
    line: RemoteAddr,
    pulse: RemoteAddr,
    counter: u64,
    /// When the renewal that is under way was posted.
    posted_at: Option<Ns>,
    /// Sweep that the last renewal has published.
    purged: u64,
}

/// So much more often leases are renewed while a node is swept: a sweep waits for several renewals of all clients, and
/// others for the memory that it finds. *(our choice)*
pub(crate) const HURRY: u64 = 4;

impl<P: Provider> Lease<P> {
    pub(crate) fn new(
        ctx: &Rc<P::Context>,
        pool: Pool<P>,
        queues: Vec<Queues<P>>,
    ) -> Result<Lease<P>, ResourceError> {
        let region = ctx.alloc(STAGING_BYTES * queues.len(), PageWish::Small)?;
        let mr = ctx.register(&region, Access::LOCAL)?;
        let lines = queues.into_iter().zip(pool.nodes()).map(|(queues, node)| {
            let line = node.header().geometry.client_line(pool.client().id);
            Line {
                queues,
                line: node.memory().at(line),
                pulse: node.memory().at(EPOCH_AT),
                counter: 0,
                posted_at: None,
                purged: 0,
            }
        });
        Ok(Lease {
            lines: lines.collect(),
            mr,
            region,
            pool,
            next_renewal: Ns::ZERO,
            ctx: ctx.clone(),
        })
    }

    /// The context whose `Cpu` must be the argument of [`step`](Actor::step).
    pub fn context(&self) -> &Rc<P::Context> {
        &self.ctx
    }

    /// The pool.
    pub fn pool(&self) -> &Pool<P> {
        &self.pool
    }

    /// Takes the results of renewals; returns whether there were any.
    fn take(&mut self, cpu: &P::Cpu) -> bool {
        let mut any = false;
        let mut wcs = [Wc::default(); 4];
        for (index, line) in self.lines.iter_mut().enumerate() {
            let node = self.pool.node(index);
            let count = line.queues.poll(cpu, &mut wcs);
            for wc in &wcs[..count] {
                any = true;
                if wc.status != WcStatus::Success {
                    node.lose(&format_args!("a renewal of the lease failed: {:?}", wc.status));
                } else if let Some(posted_at) = line.posted_at.take().filter(|_| !node.is_lost()) {
                    let word = |at: usize| {
                        let at = index * STAGING_BYTES + LINE_BYTES + at - EPOCH_AT;
                        self.region.load_u64(at, Ordering::Relaxed)
                    };
                    let clock = (word(CLOCK_AT), cpu.now());
                    node.learn(word(EPOCH_AT), word(RECLAIM_AT), clock, word(SWEEP_AT));
                    node.renewed(posted_at);
                    self.pool.activity().add(Counted::Renewals, 1);
                }
            }
        }
        any
    }

    /// Time between two renewals at node `index`.
    fn every(&self, index: usize) -> Ns {
        let node = self.pool.node(index);
        let seen = node.sweeps.seen();
        let is_swept = seen % 2 == 1 || self.lines[index].purged != seen;
        let every = node.times().renew_every;
        match is_swept && !node.is_lost() {
            true => Ns(every.0 / HURRY).max(Ns(1)),
            false => every,
        }
    }

    /// Posts the renewals of all nodes that have answered the one before.
    fn renew(&mut self, cpu: &P::Cpu, now: Ns) {
        for (index, line) in self.lines.iter_mut().enumerate() {
            let node = self.pool.node(index);
            if node.is_lost() {
                node.end_epoch();
                continue;
            }
            if let Err(error) = node.channel().poll(now) {
                node.lose(&error);
            }
            if line.posted_at.is_some() {
                continue;
            }
            line.counter += 1;
            line.purged = node.sweeps.to_publish();
            let base = index * STAGING_BYTES;
            let words = [line.counter, node.epochs.to_publish(), line.purged];
            for (word, value) in words.into_iter().enumerate() {
                self.region.store_u64(base + word * 8, value, Ordering::Relaxed);
            }
            let (remote, imm) = (line.line, None);
            let from = self.mr.sge(base, LEASE_BYTES);
            line.queues.stage(0, SendOp::Write { remote, imm }, from, false);
            let into = self.mr.sge(base + LINE_BYTES, LINE_BYTES);
            let remote = line.pulse;
            // Its completion says that the WRITE before it has taken effect, too.
            line.queues.stage(1, SendOp::Read { remote }, into, true);
            match line.queues.post(cpu) {
                Ok(()) => line.posted_at = Some(now),
                Err(error) => node.lose(&error),
            }
        }
    }
}

impl<P: Provider> Drop for Lease<P> {
    fn drop(&mut self) {
        if self.pool.has_one_thread() {
            let here = self.pool.nodes().iter().filter(|node| !node.is_absent());
            here.for_each(|node| self.ctx.forget_region(node.memory()));
        }
    }
}

impl<P: Provider> Actor<P::Cpu> for Lease<P> {
    fn step(&mut self, cpu: &P::Cpu) -> Progress {
        let now = cpu.now();
        let mut is_busy = self.take(cpu);
        if now >= self.next_renewal {
            self.renew(cpu, now);
            let every = (0..self.lines.len()).map(|index| self.every(index)).min();
            self.next_renewal = now + every.unwrap_or(Ns::from_ms(10));
            is_busy = true;
        }
        match is_busy {
            true => Progress::Busy,
            false => Progress::Idle {
                wake_at: self.next_renewal,
            },
        }
    }
}
