//! [`Loop`]: a task that looks up and updates keys one after the other; [`Counts`]: what all of them have done.

use super::key;
use crate::micro::Outcome;
use drover_base::{KeyHasher, Ns, Rng};
use drover_index::race::{BLOCK_UNIT, PAIR_BYTES};
use drover_kv_race::{ItemMeta, Race};
use drover_memnode::chunks::CHUNK_BYTES;
use drover_memnode::{Addr, Nodes};
use drover_rt::TaskCx;
use drover_simcluster::Draws;
use drover_simcluster::pools::PoolCluster;
use drover_verbs_sim::Sim;
use std::cell::RefCell;
use std::rc::Rc;

/// Classes of operations by their retries: 0, 1, ... and, in the last place, as many or more.
pub const BY_RETRIES: [&str; 9] = [
    "no retries",
    "1 retry",
    "2 retries",
    "3 retries",
    "4 retries",
    "5 retries",
    "6 retries",
    "7 retries",
    "8 retries or more",
];

/// The operations of one task.
pub(crate) struct Loop {
    race: Race<Sim>,
    draws: Draws,
    value: Vec<u8>,
    /// Pause after each operation.
    idle: Ns,
    counts: Rc<RefCell<Counts>>,
}

/// What the tasks of all threads have done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    /// Latency of each operation that ended.
    latencies: Vec<Ns>,
    /// Updates of the most popular key.
    hottest: u64,
    /// What all pools of tasks have counted before.
    before: Pools,
}

/// Sums of the counters of all pools of tasks.
#[derive(Clone, Copy, Debug, Default)]
struct Pools {
    retries: u64,
    by_retries: [u64; BY_RETRIES.len()],
    requests: u64,
    lists: u64,
}

impl Loop {
    pub(crate) fn new(
        race: Race<Sim>,
        draws: Draws,
        value: Vec<u8>,
        idle: Ns,
        counts: &Rc<RefCell<Counts>>,
    ) -> Loop {
        Loop {
            race,
            draws,
            value,
            idle,
            counts: counts.clone(),
        }
    }

    pub(crate) async fn run(mut self, cx: TaskCx<Sim>) {
        loop {
            let draw = self.draws.next();
            let (key, began) = (key(draw.index), cx.now());
            let found = match draw.is_put {
                true => {
                    let meta = ItemMeta::default();
                    self.race.update(&cx, &key, &self.value, meta).await
                }
                false => self.race.get(&cx, &key).await.map(|found| found.is_some()),
            };
            assert!(found.expect("an operation"), "every key exists");
            let is_hottest = draw.is_put && draw.index == 0;
            self.counts.borrow_mut().ended(cx.now().since(began), is_hottest);
            if self.idle > Ns::ZERO {
                cx.sleep(self.idle).await;
            }
        }
    }
}

/// The READs of one task's lookups, at addresses drawn at random.
pub(crate) struct Bare {
    pub(crate) nodes: Nodes<Sim>,
    pub(crate) draws: Draws,
    pub(crate) hasher: KeyHasher,
    pub(crate) rng: Rng,
    pub(crate) counts: Rc<RefCell<Counts>>,
}

impl Bare {
    pub(crate) async fn run(mut self, cx: TaskCx<Sim>) {
        let chunks = u64::from(self.nodes.node(0).header().geometry.chunk_count());
        loop {
            let (began, key) = (cx.now(), key(self.draws.next().index));
            let node = self.hasher.hash(&key).partition_index(super::NODES);
            for lengths in [&[PAIR_BYTES, PAIR_BYTES][..], &[BLOCK_UNIT]] {
                for &len in lengths {
                    let lines = chunks * (CHUNK_BYTES / BLOCK_UNIT) as u64;
                    let offset = (CHUNK_BYTES / BLOCK_UNIT) as u64 + self.rng.below(lines / 2);
                    let at = Addr::new(node, offset * BLOCK_UNIT as u64);
                    let at = self.nodes.locate(at, len).expect("inside");
                    let buffer = cx.buffer(len).expect("one of many");
                    cx.read(at.peer, buffer, at.remote).expect("a READ");
                }
                cx.sync().await.expect("no READ fails");
            }
            self.counts.borrow_mut().latencies.push(cx.now().since(began));
        }
    }
}

impl Pools {
    fn of(cluster: &PoolCluster) -> Pools {
        let mut all = Pools::default();
        for thread in cluster.processes.iter().flat_map(|process| &process.threads) {
            let stats = thread.stats();
            all.retries += stats.conflicts.retries;
            all.requests += stats.requests.posted;
            all.lists += stats.requests.doorbells;
            let finished = stats.conflicts.finished_by_retries;
            for (sum, count) in all.by_retries.iter_mut().zip(finished) {
                *sum += count;
            }
        }
        all
    }
}

impl Counts {
    /// Counts from now on.
    pub(crate) fn begin(cluster: &PoolCluster) -> Counts {
        Counts {
            before: Pools::of(cluster),
            ..Counts::default()
        }
    }

    fn ended(&mut self, latency: Ns, is_hottest: bool) {
        self.latencies.push(latency);
        self.hottest += u64::from(is_hottest);
    }

    /// The results of `measured` time.
    pub(crate) fn outcome(mut self, cluster: &PoolCluster, measured: Ns, binding: (String, f64)) -> Outcome {
        self.latencies.sort_unstable();
        let (now, before) = (Pools::of(cluster), self.before);
        let done = self.latencies.len();
        let each = |count: u64| count as f64 / done.max(1) as f64;
        let at = |fraction: f64| {
            let index = (done as f64 * fraction) as usize;
            self.latencies
                .get(index.min(done.saturating_sub(1)))
                .map_or(0.0, |ns| ns.0 as f64 / 1e3)
        };
        let sum: u64 = self.latencies.iter().map(|ns| ns.0).sum();
        let of_class = |class: usize| now.by_retries[class] - before.by_retries[class];
        let updates: u64 = (0..BY_RETRIES.len()).map(of_class).sum();
        let share = |count: u64| count as f64 / updates.max(1) as f64;
        let retries = now.retries - before.retries;
        let mut named = vec![
            ("latency p50", at(0.5)),
            ("latency p99", at(0.99)),
            ("attempts", 1.0 + share(retries)),
            ("requests per operation", each(now.requests - before.requests)),
            ("doorbells per operation", each(now.lists - before.lists)),
            (
                "time between updates of the hottest key",
                measured.0 as f64 / 1e3 / self.hottest.max(1) as f64,
            ),
        ];
        named.extend((0..BY_RETRIES.len()).map(|class| (BY_RETRIES[class], share(of_class(class)))));
        Outcome {
            mops: done as f64 / measured.0.max(1) as f64 * 1e3,
            latency_us: sum as f64 / 1e3 / done.max(1) as f64,
            binding: Some(binding),
            named,
            ..Outcome::default()
        }
    }
}
