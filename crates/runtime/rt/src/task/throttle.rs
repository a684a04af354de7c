//! [`Throttle`]: one limit of outstanding requests for all pools of a process, and what it is measured by.

use super::tuner::{Tuner, TunerOptions};
use drover_base::sync::{AtomicU32, AtomicU64, Mutex, Ordering};
use drover_base::{Actor, Cpu, Progress};
use std::sync::Arc;

/// The limit of outstanding requests that pools of several threads have in common, each pool up to the limit, and the
/// number of requests that ended in all of them. Clones are handles of the same one; a [`TunerActor`] moves it.
#[derive(Clone, Debug)]
pub struct Throttle(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    ceiling: AtomicU32,
    pools: Mutex<Pools>,
}

#[derive(Debug, Default)]
struct Pools {
    counts: Vec<Arc<Count>>,
    /// Requests that ended in pools that no longer exist.
    of_the_gone: u64,
}

/// Requests that ended in one pool, in a cache line of its own: its thread writes it in each step.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Count(AtomicU64);

impl Throttle {
    /// Creates a throttle that lets each pool have `ceiling` requests outstanding; `u32::MAX`: any number.
    pub fn new(ceiling: u32) -> Throttle {
        Throttle(Arc::new(Shared {
            ceiling: AtomicU32::new(ceiling),
            pools: Mutex::default(),
        }))
    }

    /// The limit of each pool.
    pub fn ceiling(&self) -> u32 {
        // Relaxed: a number by itself.
        self.0.ceiling.load(Ordering::Relaxed)
    }

    /// Sets the limit of each pool, which notices it in its next step.
    pub fn set_ceiling(&self, ceiling: u32) {
        self.0.ceiling.store(ceiling, Ordering::Relaxed);
    }

    /// Number of requests that have ended in all pools that ever had this throttle.
    pub fn ended(&self) -> u64 {
        let pools = self.0.pools.lock().expect("no thread panics with it");
        let counts = pools.counts.iter().map(|count| count.0.load(Ordering::Relaxed));
        pools.of_the_gone + counts.sum::<u64>()
    }

    pub(super) fn meter(&self) -> Meter {
        let count = Arc::new(Count::default());
        let mut pools = self.0.pools.lock().expect("no thread panics with it");
        pools.counts.push(count.clone());
        Meter {
            throttle: self.clone(),
            count,
        }
    }
}

/// One pool's end of a throttle.
#[derive(Debug)]
pub(super) struct Meter {
    throttle: Throttle,
    count: Arc<Count>,
}

impl Meter {
    /// Publishes the number of requests that have ended in the pool; returns the limit.
    #[inline]
    pub(super) fn exchange(&self, ended: u64) -> u32 {
        self.count.0.store(ended, Ordering::Relaxed);
        self.throttle.ceiling()
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        let Ok(mut pools) = self.throttle.0.pools.lock() else {
            return;
        };
        pools.of_the_gone += self.count.0.load(Ordering::Relaxed);
        pools.counts.retain(|count| !Arc::ptr_eq(count, &self.count));
    }
}

/// The actor that tunes a [`Throttle`]. A process has one, on any core.
#[derive(Debug)]
pub struct TunerActor {
    tuner: Tuner,
    throttle: Throttle,
}

impl TunerActor {
    /// Creates the actor; from its first step on it sets the limit of `throttle`.
    pub fn new(throttle: &Throttle, options: TunerOptions) -> TunerActor {
        TunerActor {
            tuner: Tuner::new(options),
            throttle: throttle.clone(),
        }
    }

    /// The tuner, for its state.
    pub fn tuner(&self) -> &Tuner {
        &self.tuner
    }
}

impl<C: Cpu> Actor<C> for TunerActor {
    fn step(&mut self, cpu: &C) -> Progress {
        let now = cpu.now();
        if now >= self.tuner.wake_at() {
            self.throttle
                .set_ceiling(self.tuner.advance(now, self.throttle.ended()));
        }
        Progress::Idle {
            wake_at: self.tuner.wake_at(),
        }
    }
}
