//! A model of memcached's sockets served by several workers: cores, the rings between them, and wake-ups. It shows what
//! forwarding a GET to the worker that owns its key costs, against reading it in place.
//!
//! It is a model: no code of ours runs in it. Its prices are instruction counts of our code (`docs/instructions.toml`) and
//! times of system calls that we measured, none of them chosen to give a result. It has no caches, no memory bandwidth, no
//! network card and no accept; clients answer after a fixed time. `docs/systems.md` says what it shows.

mod model;

use crate::figure::{Job, Other};
use crate::micro::Outcome;
use drover_base::Ns;
use drover_sim::{Event, Sim};
use drover_simcluster::costs;
use model::{ARRIVE, Model};
use std::sync::Arc;

/// What a point of the figure runs.
#[derive(Clone, Copy, Debug)]
pub struct Sockets {
    /// Workers, each with a core and a partition of its own.
    pub workers: usize,
    /// Connections, shared out evenly.
    pub connections: usize,
    /// Requests that a connection sends at once; the next ones when it has all their replies.
    pub depth: usize,
    /// Share of the requests that are SETs, in per cent; the others are GETs.
    pub set_percent: u64,
    /// Whether GETs read the partitions of other workers.
    pub in_place: bool,
}

impl Sockets {
    /// The work of a point.
    pub fn work(self) -> Other {
        Arc::new(move |job| self.run(job))
    }

    fn run(self, job: &Job<'_>) -> Outcome {
        let pace = match job.ablations.cpu {
            true => f64::INFINITY,
            false => costs::pace(job.profile),
        };
        let sim = Sim::new(Model::new(self, pace, job.seed), job.seed);
        sim.with(|model, queue| {
            for connection in 0..self.connections {
                // Not all at once.
                let at = model.first_arrival();
                queue.schedule(at, Event::new(ARRIVE, 0, connection as u32));
            }
        });
        let (warm_up, span) = match job.quick {
            true => (Ns::from_ms(4), Ns::from_ms(16)),
            false => (Ns::from_ms(10), Ns::from_ms(60)),
        };
        sim.run_until(warm_up);
        sim.with(|model, queue| model.begin_span(queue.now()));
        sim.run_until(warm_up + span);
        sim.with(|model, _| model.outcome(span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_verbs_sim::Ablations;
    use drover_verbs_sim::profile::Profile;

    fn run(sockets: Sockets, seed: u64) -> Outcome {
        let profile = Profile::named("cx6").expect("built in");
        sockets.run(&Job {
            profile: &profile,
            ablations: Ablations::default(),
            seed,
            quick: true,
        })
    }

    fn sockets(workers: usize, in_place: bool) -> Sockets {
        Sockets {
            workers,
            connections: 200,
            depth: 32,
            set_percent: 5,
            in_place,
        }
    }

    #[test]
    fn one_worker_is_as_fast_as_its_prices_say() {
        let outcome = run(sockets(1, false), 1);
        let pace = costs::pace(&Profile::named("cx6").expect("built in"));
        // A batch of 32 own requests, a read and a write; a poll for as many as have arrived.
        let batch_ns = 32.0 * (0.95 * 2014.0 + 0.05 * 2213.0) / pace + 630.0 + 600.0;
        let mops = 32.0 / batch_ns * 1e3;
        assert!(
            (outcome.mops / mops - 1.0).abs() < 0.05,
            "{} {mops}",
            outcome.mops
        );
        assert_eq!(outcome, run(sockets(1, true), 1), "there is nobody to forward to");
    }

    #[test]
    fn reading_in_place_helps_and_a_seed_repeats_everything() {
        for workers in [2, 8] {
            let [forward, in_place] = [false, true].map(|in_place| run(sockets(workers, in_place), 1));
            assert!(in_place.mops > forward.mops);
            assert_eq!(forward, run(sockets(workers, false), 1));
            assert_ne!(forward, run(sockets(workers, false), 2));
        }
    }
}
