//! [`Report`]: usage of every part, and the bottleneck.

use crate::counters::Counters;
use crate::world::SimNet;
use drover_sim::{CoreReport, Ps, Usage};
use std::fmt;

/// Usage and counters of one machine: its card and its cores, over the period of the [`Report`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct MachineReport {
    /// Usage of the card's engines, its bus and its link.
    pub parts: PartUsages,
    /// Bytes over the bus between card and host, headers included: (card to host, host to card).
    pub bus_bytes: (u64, u64),
    /// Bytes over the card's link, headers included: (outgoing, incoming). Lost packets count as outgoing only.
    pub link_bytes: (u64, u64),
    /// Lookups in the card's cache of queue-pair contexts: (hits, misses). Every use of a context counts here, also if
    /// the profile has a smaller first-level cache, whose own hits and misses are not reported.
    pub contexts: (u64, u64),
    /// Time for which each lock of the card's unit for CAS and FAA was held. A lock is that of all words whose
    /// addresses, divided by 8, have its index as remainder by the number of locks (`atomics.buckets`).
    pub atomic_locks: Vec<Ps>,
    /// The card's counters.
    pub counters: Counters,
    /// Report of each core of the machine, in the order of their creation, crashed ones included.
    pub cores: Vec<CoreReport>,
}

/// Usage of the engines of a card, its bus and its link.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct PartUsages {
    /// The card's ingest of lines that cores write by MMIO.
    pub pio: Usage,
    /// The card's transmit engine.
    pub tx: Usage,
    /// The card's receive engine.
    pub rx: Usage,
    /// The card's unit for CAS and FAA. `busy` is the unit's own time, without [its locks](MachineReport::atomic_locks).
    pub atomics: Usage,
    /// The bus from card to host.
    pub bus_out: Usage,
    /// The bus from host to card.
    pub bus_in: Usage,
    /// The outgoing link.
    pub link_out: Usage,
    /// The incoming link.
    pub link_in: Usage,
}

/// Usage and counters of all machines of a world, from its creation to a time
/// ([`World::report`](crate::World::report)) or between two times ([`since`](Report::since)).
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Length of the period that the report covers, in virtual time.
    pub time: Ps,
    /// One report per machine, by machine index.
    pub machines: Vec<MachineReport>,
    /// Total time that the lock of the busiest doorbell register of all machines was held; which one it is, is not
    /// recorded. After [`since`](Report::since): how much this maximum has grown.
    pub doorbell: Ps,
    /// As `doorbell`, of the locks of shared queues.
    pub shared_queue: Ps,
}

/// The bottleneck of a cluster or machine: the part that is busy for the largest share of the time.
#[derive(Clone, PartialEq, Debug)]
pub struct Binding {
    /// Index of the busiest part's machine; `None` if that part is a lock: of a doorbell register or a shared queue.
    pub machine: Option<usize>,
    /// Name of the busiest part: a field of [`PartUsages`] (`pio` to `link_in`), `cpu` (a core), `atomic lock` (that of
    /// a word in memory), `doorbell` (the lock of a doorbell register) or `shared queue` (its lock). It is `latency` instead if that part is busy for less than nine tenths of the time.
    pub resource: &'static str,
    /// Fraction of the time, from 0 to 1, for which the busiest part was busy, also if `resource` is `latency`. A
    /// service still in progress counts in full, so it may be slightly above 1.
    pub share: f64,
}

/// Name of a lock of the unit for CAS and FAA in reports.
pub const ATOMIC_LOCK: &str = "atomic lock";
/// Share below which only the latency of round trips limits.
const BINDS: f64 = 0.9;

impl Report {
    pub(crate) fn of(cluster: &SimNet) -> Report {
        let cores = cluster.cores();
        cluster.with(|net, queue| {
            let mut machines: Vec<MachineReport> = net
                .nics
                .iter()
                .map(|nic| MachineReport {
                    parts: PartUsages {
                        pio: nic.pio.pipe.usage(queue.now()),
                        tx: nic.tx.station.usage(),
                        rx: nic.rx.station.usage(),
                        atomics: nic.atomics.usage(),
                        bus_out: nic.bus.outbound.usage(queue.now()),
                        bus_in: nic.bus.inbound.usage(queue.now()),
                        link_out: nic.link.outbound.usage(queue.now()),
                        link_in: nic.link.inbound.usage(queue.now()),
                    },
                    bus_bytes: (nic.bus.outbound.bytes(), nic.bus.inbound.bytes()),
                    link_bytes: (nic.link.outbound.bytes(), nic.link.inbound.bytes()),
                    contexts: nic.caches.hits_and_misses(),
                    atomic_locks: nic.atomics.locked(queue.now()),
                    counters: nic.counters,
                    cores: Vec::new(),
                })
                .collect();
            for core in cores {
                machines[usize::from(core.machine())].cores.push(core.report());
            }
            Report {
                time: queue.now(),
                machines,
                doorbell: net
                    .registers
                    .iter()
                    .map(|(_, r)| r.busiest())
                    .max()
                    .unwrap_or_default(),
                shared_queue: net.busiest_queue(),
            }
        })
    }

    /// This report minus `earlier`, an older report of the same world. Of a core only `busy`, `waited` and `idle` are
    /// differences; its other numbers, and `high_water` of all parts, stay those since the creation of the world.
    pub fn since(&self, earlier: &Report) -> Report {
        let mut report = self.clone();
        report.time = self.time - earlier.time;
        report.doorbell = self.doorbell - earlier.doorbell;
        report.shared_queue = self.shared_queue - earlier.shared_queue;
        for (now, before) in report.machines.iter_mut().zip(&earlier.machines) {
            now.parts = now.parts.since(&before.parts);
            now.counters = now.counters.since(&before.counters);
            let pairs = |now: (u64, u64), before: (u64, u64)| (now.0 - before.0, now.1 - before.1);
            now.bus_bytes = pairs(now.bus_bytes, before.bus_bytes);
            now.link_bytes = pairs(now.link_bytes, before.link_bytes);
            now.contexts = pairs(now.contexts, before.contexts);
            for (held, before) in now.atomic_locks.iter_mut().zip(&before.atomic_locks) {
                *held = held.since(*before);
            }
            for (core, before) in now.cores.iter_mut().zip(&before.cores) {
                core.busy = core.busy - before.busy;
                core.waited = core.waited - before.waited;
                core.idle = core.idle - before.idle;
            }
        }
        report
    }

    /// The bottleneck of the cluster: the busiest part of all machines, cores and doorbell registers included. A core
    /// counts as busy in steps that found work, without the time it waited in them.
    pub fn binding(&self) -> Binding {
        let machines = (0..self.machines.len()).map(|machine| self.busiest_of(machine));
        let lock = |resource, busy| Binding {
            machine: None,
            resource,
            share: self.share(busy),
        };
        let doorbell = lock("doorbell", self.doorbell);
        let others = machines.chain([lock("shared queue", self.shared_queue)]);
        named(others.fold(
            doorbell,
            |best, next| if next.share > best.share { next } else { best },
        ))
    }

    /// The bottleneck of one machine, as [`binding`](Report::binding) but without doorbell registers.
    ///
    /// # Panics
    /// If there is no such machine.
    pub fn binding_of(&self, machine: usize) -> Binding {
        named(self.busiest_of(machine))
    }

    fn share(&self, busy: Ps) -> f64 {
        busy.0 as f64 / self.time.0.max(1) as f64
    }

    fn busiest_of(&self, machine: usize) -> Binding {
        let report = &self.machines[machine];
        let usages = report
            .parts
            .by_name()
            .into_iter()
            .map(|(name, usage)| (name, usage.busy));
        let lock = report.busiest_atomic_lock().map(|(_, held)| (ATOMIC_LOCK, held));
        let (resource, busy) = usages
            .chain(lock)
            .chain([("cpu", report.busiest_core())])
            .max_by_key(|(_, busy)| *busy)
            .expect("a card has parts");
        Binding {
            machine: Some(machine),
            resource,
            share: self.share(busy),
        }
    }
}

/// Replaces a part that has time to spare by `latency`.
fn named(mut binding: Binding) -> Binding {
    if binding.share < BINDS {
        binding.resource = "latency";
    }
    binding
}

impl MachineReport {
    /// Busy time of the machine's busiest core, without the time it waited; zero without cores.
    pub fn busiest_core(&self) -> Ps {
        let work = self.cores.iter().map(|core| core.busy - core.waited);
        work.max().unwrap_or_default()
    }

    /// Index of the [atomic lock](MachineReport::atomic_locks) that was held for the longest time, and that time: on a
    /// card with many locks, those of the hottest word. `None` if none was held.
    pub fn busiest_atomic_lock(&self) -> Option<(usize, Ps)> {
        let held = self.atomic_locks.iter().copied().enumerate();
        held.filter(|(_, held)| *held > Ps::ZERO)
            .max_by_key(|(_, held)| *held)
    }
}

impl PartUsages {
    /// Name and usage of every part; the names are those of [`Binding::resource`].
    pub fn by_name(&self) -> [(&'static str, Usage); 8] {
        [
            ("pio", self.pio),
            ("tx", self.tx),
            ("rx", self.rx),
            ("atomics", self.atomics),
            ("bus_out", self.bus_out),
            ("bus_in", self.bus_in),
            ("link_out", self.link_out),
            ("link_in", self.link_in),
        ]
    }

    /// Usage since the older copy `earlier`; only `high_water` is that of all time.
    pub fn since(&self, earlier: &PartUsages) -> PartUsages {
        PartUsages {
            pio: self.pio.since(&earlier.pio),
            tx: self.tx.since(&earlier.tx),
            rx: self.rx.since(&earlier.rx),
            atomics: self.atomics.since(&earlier.atomics),
            bus_out: self.bus_out.since(&earlier.bus_out),
            bus_in: self.bus_in.since(&earlier.bus_in),
            link_out: self.link_out.since(&earlier.link_out),
            link_in: self.link_in.since(&earlier.link_in),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.time.0.max(1) as f64;
        for (machine, report) in self.machines.iter().enumerate() {
            write!(f, "machine {machine}:")?;
            for (name, usage) in report.parts.by_name() {
                write!(f, " {name} {:.0} %", 100.0 * usage.busy.0 as f64 / total)?;
            }
            let cpu = report
                .cores
                .iter()
                .map(|core| core.busy)
                .max()
                .unwrap_or_default();
            write!(f, " busiest core {:.0} %", 100.0 * cpu.0 as f64 / total)?;
            if let Some((index, held)) = report.busiest_atomic_lock() {
                write!(f, " {ATOMIC_LOCK} {index} {:.0} %", 100.0 * held.0 as f64 / total)?;
            }
            writeln!(f)?;
        }
        let binding = self.binding();
        write!(f, "binds: {} ({:.0} %)", binding.resource, 100.0 * binding.share)
    }
}
