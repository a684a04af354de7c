//! [`Asker`]: a client that keeps a number of operations outstanding.

use crate::load::{Draw, Draws};
use crate::{Load, Service, Setup, Tally};
use drover_base::{Actor, Cpu, KeyHasher, Ns, Progress};
use drover_control::LocalListener;
use drover_kv::{Completion, KvClient, Op, Outcome as Answer};
use drover_sim::VirtualCpu;
use drover_verbs::Device;
use drover_verbs_sim::World;
use std::rc::Rc;

/// One simulated client on a core of its own, which keeps up to [`Setup::depth`] operations outstanding.
pub struct Asker<S: Service> {
    client: S::Client,
    /// Maps a key to the partition that owns it.
    hasher: KeyHasher,
    parts: usize,
    draws: Draws,
    /// Indices of the keys that this client must PUT before it draws from the load.
    to_fill: std::iter::StepBy<std::ops::Range<u64>>,
    value: Vec<u8>,
    flights: Vec<Flight>,
    free: Vec<usize>,
    /// An operation that was drawn, but that the client had no space for.
    refused: Option<Draw>,
    was_ready: bool,
    tally: Tally,
}

/// An outstanding operation.
#[derive(Clone, Copy, Default)]
struct Flight {
    began: Ns,
    is_get: bool,
    part: usize,
}

impl<S: Service + 'static> Asker<S> {
    /// Starts client number `client` of `setup` (from 0) in `world`, on a new core of machine
    /// `1 + client % setup.machines`. It connects to `listeners` and counts its operations in `tally`, which needs
    /// [`Service::part_count`] partitions.
    ///
    /// # Panics
    /// If `setup.machines` is 0, or this thread does not own `world`.
    pub fn enter(
        world: &World,
        setup: &Setup,
        service: &S,
        client: usize,
        listeners: &[LocalListener],
        tally: &Tally,
    ) {
        let machine = 1 + client % setup.machines;
        let core = world.device(machine).context().expect("a core of this world");
        let core = Rc::new(core);
        let to_fill = match setup.filled && !service.is_filled_when_open() {
            true => client as u64..setup.load.keys,
            false => 0..0,
        };
        let asker = Asker::<S> {
            client: service.client(core.clone(), listeners),
            hasher: setup.hash_seed().hasher(),
            parts: service.part_count(),
            draws: Draws::new(&setup.load, setup.seed, client as u64),
            to_fill: to_fill.step_by(setup.clients.max(1)),
            value: setup.load.value(),
            flights: vec![Flight::default(); setup.depth],
            free: (0..setup.depth).collect(),
            refused: None,
            was_ready: false,
            tally: tally.clone(),
        };
        world.spawn(&core, Box::new(asker));
    }

    fn next_draw(&mut self) -> Draw {
        if let Some(refused) = self.refused.take() {
            return refused;
        }
        match self.to_fill.next() {
            Some(index) => Draw {
                key: Load::key(index),
                is_put: true,
            },
            None => self.draws.next(),
        }
    }

    fn submit(&mut self, cpu: &VirtualCpu) {
        while let Some(token) = self.free.pop() {
            let draw = self.next_draw();
            let op = match draw.is_put {
                true => Op::Put {
                    key: &draw.key,
                    value: &self.value,
                    ttl_s: 0,
                },
                false => Op::Get { key: &draw.key },
            };
            if self.client.submit(cpu, &op, token as u64).is_err() {
                self.free.push(token);
                self.refused = Some(draw);
                return;
            }
            self.flights[token] = Flight {
                began: cpu.now(),
                is_get: !draw.is_put,
                part: self.hasher.hash(&draw.key).partition_index(self.parts),
            };
        }
    }
}

impl<S: Service + 'static> Actor<VirtualCpu> for Asker<S> {
    fn step(&mut self, cpu: &VirtualCpu) -> Progress {
        if S::is_ready(&mut self.client) {
            if !self.was_ready && self.to_fill.size_hint().0 == 0 {
                self.was_ready = true;
                self.tally.with(|counts| counts.ready += 1);
            }
            self.submit(cpu);
        }
        let (flights, free, tally) = (&self.flights, &mut self.free, &self.tally);
        let mut take = |completion: Completion<'_>| {
            let token = completion.token as usize;
            let flight = flights[token];
            tally.with(|counts| {
                counts.done += 1;
                counts.gets += u64::from(flight.is_get);
                counts.by_partition[flight.part] += 1;
                counts.latency.saturating_record(cpu.now().since(flight.began).0);
                match completion.outcome {
                    Answer::Value(_) => counts.hits += 1,
                    Answer::Stored | Answer::NotFound => {}
                    _ => counts.failed += 1,
                }
            });
            free.push(token);
        };
        match self.client.poll(cpu, &mut take) {
            0 => Progress::Idle {
                wake_at: self.client.next_timer(),
            },
            _ => Progress::Busy,
        }
    }
}
