//! Threads that share queue pairs: published baselines, in which each post and each poll takes the queue's lock.

use super::costs::BATCH_TAIL;
use super::verbs::{Verb, Verbs};
use super::wiring::{self, P};
use super::{Outcome, Probe, Span, Tally, measure};
use crate::cluster::{Cluster, Clusters, Thread};
use drover_base::{Actor, Cpu, Ns, Progress};
use drover_verbs::{
    Context, Domain, MemoryRegion, Payload, Provider, QpKind, QpOptions, RemoteRegion, SendList, SendOp,
    SendWr, Sge, SharedQueue, Wc, WcStatus, WrId,
};
use std::cell::Cell;
use std::rc::Rc;

/// Maximum completions per poll.
const POLL: usize = 16;

/// Rough time of a request in the lock of a queue pair that many threads share, nanoseconds.
const REQUEST_NS: u64 = 3_000;

/// A benchmark of [`Verbs`] in which threads share queue pairs: one for each `threads_per_queue` threads, with a
/// completion queue of its own. Thread `t` uses queue pair `t` modulo their number. Of the plan it takes the verb (READ or
/// WRITE), the bytes, the number of threads of one process, the size of a batch and its tail, and the doorbells.
#[derive(Clone, Debug, PartialEq)]
pub struct Shared {
    /// The plan.
    pub verbs: Verbs,
    /// Threads that share a queue pair.
    pub threads_per_queue: usize,
}

/// Runs the benchmark. A span is at least as long as a few batches of a queue pair take.
///
/// # Panics
/// As [`run`](super::run), and on clusters whose threads share nothing.
pub(super) fn run<R: Clusters>(clusters: &R, shared: &Shared, span: Span, seed: u64) -> Outcome {
    let (tally, verbs) = (Tally::default(), &shared.verbs);
    let mut cluster = clusters.cluster(&verbs.options(seed));
    set_up(&mut cluster, shared, &tally);
    let sharers = shared.threads_per_queue.min(verbs.issuers.threads);
    let batch_ns = (sharers * verbs.posting.pacing.outstanding()) as u64 * REQUEST_NS;
    let span = Span {
        warm_up: Ns(span.warm_up.0.max(batch_ns)),
        measured: Ns(span.measured.0.max(span.batches * batch_ns)),
        ..span
    };
    measure(&mut cluster, span, &Probe::of_verbs(verbs, &tally))
}

fn set_up<R: Cluster>(cluster: &mut R, shared: &Shared, tally: &Tally) {
    let verbs = &shared.verbs;
    let threads: Vec<Thread> = verbs.issuing_threads().collect();
    let target = verbs.target_threads().next().expect("a target");
    let bytes = verbs.words.max(1) * verbs.bytes.next_multiple_of(8);
    let there_mr = wiring::memory(cluster, target, bytes);
    let there_cq = wiring::completion_queue(cluster, target, 64);
    let mut far_ends = Vec::new();
    // The first threads' contexts come first, so that queue pairs get their registers in this order.
    let count = threads.len().div_ceil(shared.threads_per_queue);
    let queues: Vec<_> = threads[..count]
        .iter()
        .map(|&thread| {
            let (queue, far_end) = queue::<R>(cluster, thread, target, &there_cq, verbs);
            far_ends.push(far_end);
            Rc::new(queue)
        })
        .collect();
    let done: Rc<[Cell<u64>]> = threads.iter().map(|_| Cell::new(0)).collect();
    for (index, &thread) in threads.iter().enumerate() {
        let remote = wiring::import(cluster, thread, target, &there_mr, false);
        let mr = wiring::memory(cluster, thread, verbs.bytes + 64);
        let sharer = Sharer::<P<R>> {
            queue: queues[index % count].clone(),
            index,
            done: done.clone(),
            taken: 0,
            left: verbs.posting.pacing.outstanding(),
            outstanding: 0,
            remote,
            local: mr.sge(0, verbs.bytes),
            _mr: mr,
            plan: verbs.clone(),
            list: SendList::default(),
            tally: tally.clone(),
        };
        cluster.spawn(thread, Box::new(sharer));
    }
    cluster.spawn(target, Box::new(Keeper((far_ends, there_cq, there_mr))));
}

type Queue<R> = <P<R> as Provider>::SharedQueue;

/// A shared queue of the process of `thread`, connected with a queue pair of `target`.
fn queue<R: Cluster>(
    cluster: &mut R,
    thread: Thread,
    target: Thread,
    there_cq: &wiring::Cq<R>,
    verbs: &Verbs,
) -> (Queue<R>, wiring::Qp<R>) {
    let (domain, ctx) = cluster.sharing(thread).expect("threads that share");
    let depth = verbs.issuers.threads * verbs.posting.pacing.outstanding();
    let cq = ctx.create_cq(depth).expect("a completion queue");
    let mut options = QpOptions::<P<R>>::new(QpKind::Rc, &cq, ctx.caps());
    options.send_depth = depth;
    let mut here = ctx.create_qp(&options).expect("a queue pair");
    let mut there = wiring::queue_pair(cluster, target, QpKind::Rc, there_cq);
    wiring::connect::<P<R>>(&mut here, &mut there);
    (domain.share(ctx, here, cq).expect("a shared queue"), there)
}

/// A thread that posts batches of requests to a queue that it shares.
struct Sharer<P: Provider> {
    queue: Rc<P::SharedQueue>,
    index: usize,
    /// Requests done, by thread: whoever polls a completion counts it for its thread.
    done: Rc<[Cell<u64>]>,
    /// Of those of this thread, the ones it has seen.
    taken: u64,
    /// Requests of the batch still to be posted.
    left: usize,
    outstanding: usize,
    remote: RemoteRegion,
    local: Sge,
    _mr: P::Mr,
    plan: Verbs,
    list: SendList,
    tally: Tally,
}

impl<P: Provider> Sharer<P> {
    fn post(&mut self, cpu: &P::Cpu) {
        let place = (cpu.random() % self.plan.words.max(1) as u64) as usize;
        let remote = self.remote.at(place * self.plan.bytes.next_multiple_of(8));
        let op = match self.plan.verb {
            Verb::Write => SendOp::Write { remote, imm: None },
            _ => SendOp::Read { remote },
        };
        self.list.clear();
        let wr = SendWr::new(op, Payload::Region(self.local));
        self.list.push(wr.signaled(WrId(self.index as u64)));
        let posted = self.queue.post_send(cpu, &self.list);
        posted.expect("all batches fit the queue");
        self.left -= 1;
        self.outstanding += 1;
        // Counted here, which is as many in the long run: completions are polled in bursts, when batches end.
        self.tally.add_done(1);
    }

    /// Polls completions, for whichever thread, and returns whether there were some, or some of this thread.
    fn collect(&mut self, cpu: &P::Cpu) -> bool {
        let mut wcs = [Wc::default(); POLL];
        let count = self.queue.poll(cpu, &mut wcs);
        for wc in &wcs[..count] {
            assert_eq!(wc.status, WcStatus::Success, "{:?}", wc.opcode);
            let done = &self.done[wc.wr_id.0 as usize];
            done.set(done.get() + 1);
        }
        let ours = self.done[self.index].get() - self.taken;
        self.taken += ours;
        self.outstanding -= ours as usize;
        count > 0 || ours > 0
    }
}

impl<P: Provider> Actor<P::Cpu> for Sharer<P> {
    /// One post or one poll per step, so that threads take their turns in the order of time.
    fn step(&mut self, cpu: &P::Cpu) -> Progress {
        if self.left > 0 {
            self.post(cpu);
            return Progress::Busy;
        }
        let is_busy = self.collect(cpu);
        if self.outstanding == 0 {
            if self.plan.posting.batch_tail {
                cpu.charge(BATCH_TAIL, 1);
            }
            self.left = self.plan.posting.pacing.outstanding();
            return Progress::Busy;
        }
        match is_busy {
            true => Progress::Busy,
            false => Progress::Idle { wake_at: Ns::MAX },
        }
    }
}

/// Keeps the far ends alive.
struct Keeper<T>(T);

impl<T, C: Cpu> Actor<C> for Keeper<T> {
    fn step(&mut self, _: &C) -> Progress {
        let _ = &self.0;
        Progress::Idle { wake_at: Ns::MAX }
    }
}
