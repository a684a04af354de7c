//! [`Asker`]: a client that keeps a number of operations outstanding.

use crate::load::{Draw, Draws};
use crate::tally::Tally;
use crate::{Load, Setup};
use drover_base::{Actor, Cpu, KeyHasher, Ns, Progress};
use drover_kv::{Calls, Completion, Op, Outcome as Answer, ServiceClient};
use drover_sim::VirtualCpu;
use drover_verbs_sim::Sim;

/// One simulated client on a core of its own, which keeps up to [`Setup::depth`] operations outstanding.
pub(crate) struct Asker<C> {
    client: C,
    /// Number of the client.
    index: usize,
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
    /// The client's counts when an operation completed last.
    calls: Calls,
    tally: Tally,
}

/// An outstanding operation.
#[derive(Clone, Copy, Default)]
struct Flight {
    began: Ns,
    is_get: bool,
    part: usize,
}

impl<C: ServiceClient<Sim>> Asker<C> {
    /// Client number `index` of `setup` (from 0). It counts its operations in `tally`, and PUTs its share of the keys
    /// first unless the servers hold them (`is_filled`) or are to start empty.
    pub(crate) fn new(client: C, setup: &Setup, index: usize, is_filled: bool, tally: &Tally) -> Asker<C> {
        let to_fill = match setup.filled && !is_filled {
            true => index as u64..setup.load.keys,
            false => 0..0,
        };
        Asker {
            client,
            index,
            hasher: setup.hash_seed().hasher(),
            parts: setup.servers.shard_count,
            draws: Draws::new(&setup.load, setup.seed, index as u64),
            to_fill: to_fill.step_by(setup.clients.max(1)),
            value: setup.load.value(),
            flights: vec![Flight::default(); setup.depth],
            free: (0..setup.depth).collect(),
            refused: None,
            was_ready: false,
            calls: Calls::default(),
            tally: tally.clone(),
        }
    }

    fn next_draw(&mut self) -> Draw {
        if let Some(refused) = self.refused.take() {
            return refused;
        }
        match self.to_fill.next() {
            Some(index) => Draw { index, is_put: true },
            None => self.draws.next(),
        }
    }

    fn submit(&mut self, cpu: &VirtualCpu) {
        while let Some(token) = self.free.pop() {
            let draw = self.next_draw();
            let key = Load::key(draw.index);
            let op = match draw.is_put {
                true => Op::put(&key, &self.value),
                false => Op::Get { key: &key },
            };
            if self.client.submit(cpu, &op, token as u64).is_err() {
                self.free.push(token);
                self.refused = Some(draw);
                return;
            }
            self.flights[token] = Flight {
                began: cpu.now(),
                is_get: !draw.is_put,
                part: self.hasher.hash(&key).partition_index(self.parts),
            };
        }
    }
}

impl<C: ServiceClient<Sim>> Actor<VirtualCpu> for Asker<C> {
    fn step(&mut self, cpu: &VirtualCpu) -> Progress {
        let began = cpu.local();
        let progress = self.go_on(cpu);
        let worked = cpu.local() - began;
        self.tally.with(|counts| counts.worked += worked);
        progress
    }
}

impl<C: ServiceClient<Sim>> Asker<C> {
    fn go_on(&mut self, cpu: &VirtualCpu) -> Progress {
        if self.client.is_ready() {
            if !self.was_ready && self.to_fill.size_hint().0 == 0 {
                self.was_ready = true;
                self.tally.with(|counts| counts.ready += 1);
            }
            self.submit(cpu);
        }
        let (flights, free, tally) = (&self.flights, &mut self.free, &self.tally);
        let mut all_took = Ns::ZERO;
        let mut take = |completion: Completion<'_>| {
            let token = completion.token as usize;
            let flight = flights[token];
            let took = cpu.now().since(flight.began);
            all_took += took;
            tally.with(|counts| {
                counts.done += 1;
                counts.gets += u64::from(flight.is_get);
                counts.by_partition[flight.part] += 1;
                counts.latency.saturating_record(took.0);
                match completion.outcome {
                    Answer::Value(_) => counts.hits += 1,
                    Answer::Stored | Answer::NotFound => {}
                    _ => counts.failed += 1,
                }
            });
            free.push(token);
        };
        let done = self.client.poll(cpu, &mut take);
        if done > 0 {
            self.count_calls(all_took);
            return Progress::Busy;
        }
        // The completion of a request may have made space, and nothing else would wake this core.
        if self.refused.is_some() && self.client.is_ready() {
            self.submit(cpu);
            if self.refused.is_none() {
                return Progress::Busy;
            }
        }
        Progress::Idle {
            wake_at: self.client.next_timer(),
        }
    }

    /// Counts the calls since the last time, whose operations took so long together.
    fn count_calls(&mut self, took: Ns) {
        let Some(calls) = self.client.calls() else { return };
        let new = calls.since(&std::mem::replace(&mut self.calls, calls));
        let pushed = Ns(took.0 * new.pushed / new.ended().max(1));
        self.tally.with(|counts| {
            counts.calls.get_or_insert_default().add(&new);
            counts.pushed += pushed;
            if counts.by_client.len() <= self.index {
                counts.by_client.resize(self.index + 1, (0, 0));
            }
            let own = &mut counts.by_client[self.index];
            (own.0, own.1) = (own.0 + new.ended(), own.1 + new.pushed);
        });
    }
}
