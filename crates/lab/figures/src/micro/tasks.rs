//! [`Tasks`]: a microbenchmark in which tasks of `rt` post batches of one verb.

use super::wiring::{self, Cq, P, Qp};
use super::{Span, Verb};
use crate::cluster::{Cluster, ClusterOptions, Doorbells, Thread};
use drover_base::{Actor, Cpu, Ns, Progress, Rng};
use drover_rt::{
    BufferClass, PeerId, Posting, TaskCx, TaskOptions, TaskPool, Throttle, TunerActor, TunerOptions,
};
use drover_verbs::{Provider, QpKind, RemoteRegion};

/// Depth of the target's completion queue.
const CQ_DEPTH: usize = 4096;
/// Number of 8-byte words addressed at random.
const WORDS: u64 = 4096;
/// Bytes per request.
const BYTES: usize = 8;
/// Purpose of the streams of addresses.
const ADDRESSES: u64 = 0x0061_6464_7273;
/// Time in which all threads have filled their queues.
const FILLING: Ns = Ns::from_us(20);

/// Description of a microbenchmark of tasks: each thread of one process has a pool with one task, which posts a batch of
/// 8-byte requests to another machine, one per list ([`Posting::PerRequest`]), waits for the whole batch, and begins
/// again.
#[derive(Clone, Debug, PartialEq)]
pub struct Tasks {
    /// Verb to post: READ or WRITE.
    pub verb: Verb,
    /// Number of threads.
    pub threads: usize,
    /// Requests per batch.
    pub batch: usize,
    /// Assignment of doorbells to threads.
    pub doorbells: Doorbells,
    /// Search for the limit of outstanding requests of each thread; `None`: no limit.
    pub tuner: Option<TunerOptions>,
    /// Threads that come and go; `None`: all post all the time.
    pub changes: Option<Changes>,
}

/// Numbers of threads that post, one after the other; the others wait.
#[derive(Clone, Debug, PartialEq)]
pub struct Changes {
    /// Time for which each number holds.
    pub every: Ns,
    /// The numbers, from the start of the run. After the last one, the first follows.
    pub threads: Vec<usize>,
}

impl Changes {
    /// Which number holds at `now`, counted from the start of the run.
    fn period(&self, now: Ns) -> u64 {
        now.0 / self.every.0
    }

    /// When thread `index` posts next, at `now` or later.
    fn posts_at(&self, index: usize, now: Ns) -> Ns {
        let mut period = self.period(now);
        let count = |period: u64| self.threads[period as usize % self.threads.len()];
        let last = period + self.threads.len() as u64;
        while count(period) <= index && period < last {
            period += 1;
        }
        now.max(Ns(period * self.every.0))
    }
}

impl Tasks {
    pub(super) fn options(&self, seed: u64) -> ClusterOptions {
        ClusterOptions {
            machines: 2,
            doorbells: self.doorbells,
            seed,
        }
    }

    /// When to count. With changes, all of them count, from the start (in shorter runs,
    /// the first of them). With a search, counting begins when its first
    /// choice is made: its samples, 8 % of the time, do not count.
    pub(super) fn span(&self, span: Span) -> Span {
        let share = span.measured.0;
        let span = span.fitting(self.threads * self.batch, false);
        let search = self.tuner.map_or(Ns::ZERO, |tuner| tuner.search() + FILLING);
        match &self.changes {
            None => Span {
                warm_up: span.warm_up.max(search),
                ..span
            },
            Some(changes) => Span {
                warm_up: FILLING,
                measured: Ns(changes.every.0 * changes.threads.len() as u64 * share / Span::FULL.measured.0),
                ..span
            },
        }
    }
}

/// Builds and starts the threads of `plan` in `cluster`. Returns what bounds and counts their requests.
pub(super) fn set_up<R: Cluster>(cluster: &mut R, plan: &Tasks, seed: u64) -> Throttle {
    let throttle = Throttle::new(u32::MAX);
    let there = thread(1, 0);
    let mut target = Target::<R> {
        cq: wiring::completion_queue(cluster, there, CQ_DEPTH),
        mr: wiring::memory(cluster, there, WORDS as usize * BYTES),
        qps: Vec::new(),
    };
    for index in 0..plan.threads {
        let pool = pool(cluster, plan, index, &mut target, &throttle, seed);
        cluster.spawn(thread(0, index), Box::new(pool));
    }
    if let Some(tuner) = plan.tuner {
        cluster.spawn(thread(0, 0), Box::new(TunerActor::new(&throttle, tuner)));
    }
    cluster.spawn(there, Box::new(target));
    throttle
}

fn thread(machine: usize, thread: usize) -> Thread {
    Thread {
        machine,
        process: 0,
        thread,
    }
}

fn pool<R: Cluster>(
    cluster: &mut R,
    plan: &Tasks,
    index: usize,
    target: &mut Target<R>,
    throttle: &Throttle,
    seed: u64,
) -> TaskPool<P<R>> {
    let (here, there) = (thread(0, index), thread(1, 0));
    let options = TaskOptions {
        task_count_max: 1,
        peer_count_max: 1,
        send_depth: plan.batch.max(16),
        buffers: [
            BufferClass {
                bytes: BYTES,
                count: plan.batch,
            },
            BufferClass::NONE,
            BufferClass::NONE,
            BufferClass::NONE,
        ],
        posting: Posting::PerRequest,
        ..TaskOptions::default()
    };
    let ctx = cluster.context(here);
    let mut pool = TaskPool::<P<R>>::new(ctx, &options).expect("a pool");
    let mut near = pool.create_qp(ctx, QpKind::Rc).expect("a queue pair");
    let mut far = wiring::queue_pair(cluster, there, QpKind::Rc, &target.cq);
    wiring::connect::<P<R>>(&mut near, &mut far);
    target.qps.push(far);
    let remote = wiring::import(cluster, here, there, &target.mr, false);
    let peer = pool.add_peer(near);
    pool.set_throttle(throttle);
    let batches = Batches {
        plan: plan.clone(),
        index,
        peer,
        remote,
        rng: Rng::new(seed, index as u64, ADDRESSES),
    };
    pool.spawn(|cx| batches.run(cx)).expect("an empty pool");
    pool
}

/// One thread's task.
struct Batches {
    plan: Tasks,
    index: usize,
    peer: PeerId,
    remote: RemoteRegion,
    rng: Rng,
}

impl Batches {
    async fn run<P: Provider>(mut self, cx: TaskCx<P>) {
        loop {
            if let Some(changes) = &self.plan.changes {
                let now = cx.now();
                cx.sleep(changes.posts_at(self.index, now).since(now)).await;
            }
            for _ in 0..self.plan.batch {
                let remote = self.remote.at(self.rng.below(WORDS) as usize * BYTES);
                let buffer = cx.buffer(BYTES).expect("one per request of a batch");
                let staged = match self.plan.verb {
                    Verb::Write => cx.write(self.peer, buffer, remote),
                    _ => cx.read(self.peer, buffer, remote),
                };
                staged.expect("a request that can be executed");
            }
            cx.sync().await.expect("no request fails");
        }
    }
}

/// The machine that is read or written; its thread does nothing.
struct Target<R: Cluster> {
    qps: Vec<Qp<R>>,
    cq: Cq<R>,
    mr: <P<R> as Provider>::Mr,
}

impl<R: Cluster, C: Cpu> Actor<C> for Target<R> {
    fn step(&mut self, _: &C) -> Progress {
        Progress::Idle { wake_at: Ns::MAX }
    }
}
