//! [`Colocated`]: a worker and its co-actor as one actor.
//!
//! Each round steps the worker, then its co-actor. Neither starves the other: a step of either is one batch. While the
//! worker is busy and the co-actor is idle, the co-actor is skipped in more and more rounds, up to [`SKIPS_MAX`] in a
//! row. Its step costs a system call, a quarter of a microsecond, and a round of a busy worker takes several
//! microseconds, so the worker loses less than a hundredth of its time, and the co-actor's clients wait for some 50 us
//! at worst. While the co-actor is busy, the worker sweeps over its slots only once per round.

use super::variant::Variant;
use super::worker::Worker;
use drover_base::{Actor, Ns, Progress};
use drover_kv::CoActor;
use drover_verbs::Provider;

/// Most rounds in a row of a busy worker without a step of its co-actor.
const SKIPS_MAX: u32 = 15;

/// A worker and its co-actor, as one actor.
pub(super) struct Colocated<'a, P: Provider, V: Variant> {
    worker: &'a mut Worker<P, V>,
    co_actor: &'a mut dyn CoActor<P::Cpu, V::Sharing>,
    /// Most sweeps of a worker's step while the co-actor is idle.
    sweeps: usize,
    co_actor_busy: bool,
    /// Rounds until the next step of the co-actor (`skip`), and their number the last time (`skips`).
    skip: u32,
    skips: u32,
    /// Whether the server stops.
    leaving: bool,
}

/// Longest sleep of a core whose co-actor is finishing: the cores that it waits for do not wake this one.
const LEAVING_SLEEP: Ns = Ns::from_ms(1);

impl<'a, P: Provider, V: Variant> Colocated<'a, P, V> {
    pub(super) fn new(
        worker: &'a mut Worker<P, V>,
        co_actor: &'a mut dyn CoActor<P::Cpu, V::Sharing>,
        sweeps: usize,
    ) -> Colocated<'a, P, V> {
        Colocated {
            worker,
            co_actor,
            sweeps: sweeps.max(1),
            co_actor_busy: false,
            skip: 0,
            skips: 0,
            leaving: false,
        }
    }

    pub(super) fn worker(&mut self) -> &mut Worker<P, V> {
        self.worker
    }

    /// Tells the co-actor to finish its work. From now on it makes a step in every round.
    pub(super) fn leave(&mut self) {
        self.co_actor.leave();
        self.leaving = true;
        self.skip = 0;
    }

    pub(super) fn has_left(&self) -> bool {
        self.co_actor.has_left()
    }
}

impl<P: Provider, V: Variant> Actor<P::Cpu> for Colocated<'_, P, V> {
    fn step(&mut self, cpu: &P::Cpu) -> Progress {
        let sweeps = if self.co_actor_busy { 1 } else { self.sweeps };
        let own = self.worker.sweep_times(cpu, sweeps);
        // A core that is held does nothing before its co-actor has released it.
        if own == Progress::Busy && self.skip > 0 && !self.worker.core_is_held() {
            self.skip -= 1;
            return own;
        }
        let worker = &mut *self.worker;
        let others = self.co_actor.step(
            cpu,
            &mut worker.partition,
            worker.clock.now(),
            worker.clock.now_s(),
        );
        self.co_actor_busy = others == Progress::Busy;
        self.skips = match self.co_actor_busy {
            true => 0,
            false => (2 * self.skips + 1).min(SKIPS_MAX),
        };
        self.skip = self.skips;
        if self.leaving {
            self.skip = 0;
            let wake_at = worker.clock.now() + LEAVING_SLEEP;
            return own.and(others).and(Progress::Idle { wake_at });
        }
        own.and(others)
    }
}
