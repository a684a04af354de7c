//! [`Asker`]: a HERD client that keeps a number of operations under way.

use crate::load::{Draw, Draws};
use crate::{Setup, Tally};
use drover_base::{Actor, Cpu, KeyHasher, Ns, Progress};
use drover_kv::{Completion, KvClient, Op, Outcome as Answer};
use drover_kv_herd::client::{Dial, HerdClient};
use drover_rt::control::Desk;
use drover_sim::VirtualCpu;
use drover_verbs::Device;
use drover_verbs_sim::{Sim, World};
use std::rc::Rc;

/// A client process: one core, one HERD client, as much under way as [`Setup::depth`] says.
pub struct Asker {
    client: HerdClient<Sim>,
    draws: Draws,
    value: Vec<u8>,
    hasher: KeyHasher,
    flights: Vec<Flight>,
    free: Vec<usize>,
    /// Drawn, but the client had no room for it.
    refused: Option<Draw>,
    was_ready: bool,
    tally: Tally,
}

/// An operation under way.
#[derive(Clone, Copy, Default)]
struct Flight {
    began: Ns,
    is_get: bool,
    partition: usize,
}

impl Asker {
    /// Client number `client` of `setup`, on a core of its own of its machine.
    pub fn enter(world: &World, setup: &Setup, client: usize, desk: &Desk, tally: &Tally) {
        let machine = 1 + client % setup.machines;
        let ctx = world.device(machine).context().expect("a core of this world");
        let ctx = Rc::new(ctx);
        let asker = Asker {
            client: HerdClient::new(ctx.clone(), Dial::at(desk), setup.client.clone()),
            draws: Draws::new(&setup.load, setup.seed, client as u64),
            value: setup.load.value(),
            hasher: setup.hash_seed().hasher(),
            flights: vec![Flight::default(); setup.depth],
            free: (0..setup.depth).collect(),
            refused: None,
            was_ready: false,
            tally: tally.clone(),
        };
        world.spawn(&ctx, Box::new(asker));
    }

    fn submit(&mut self, cpu: &VirtualCpu) {
        while let Some(token) = self.free.pop() {
            let draw = self.refused.take().unwrap_or_else(|| self.draws.next());
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
            let partitions = self.tally.with(|counts| counts.by_partition.len());
            self.flights[token] = Flight {
                began: cpu.now(),
                is_get: !draw.is_put,
                partition: self.hasher.hash(&draw.key).partition_index(partitions),
            };
        }
    }
}

impl Actor<VirtualCpu> for Asker {
    fn step(&mut self, cpu: &VirtualCpu) -> Progress {
        if self.client.is_ready() {
            if !std::mem::replace(&mut self.was_ready, true) {
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
                counts.by_partition[flight.partition] += 1;
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
