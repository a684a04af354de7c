//! The model behind the provider: everything between posting and completion.
//!
//! ```text
//! core      post    MMIO      TX     payload   link out  link in     RX      DMA write
//! ----------+--------|---------|------- - - ------|---------|---------|----------|-----> visible
//!                  ingest    engine   (gather)                      engine    (PCIe)
//!                                                                     |
//!          done <-- RX <-- link in <-- link out <-- TX <-- ack / PCIe read / atomics unit
//! ```
//! Only the beginning of a service (TX, RX), visibility in memory, and fetches from the host are events. The stages
//! before an engine (ingest, link, port) are computed when the engine has its event, in the order of their times; the
//! stages after a service are known when it begins.
//!
//! [`ingest`](self::ingest) and [`out`](self::out) are the upper line up to the link, [`arrive`](self::arrive) its
//! rest, [`answer`](self::answer) the lower line, [`land`](self::land) visibility in memory,
//! [`complete`](self::complete) completions and the error state, [`reliable`](self::reliable) loss handling of RC.

pub(crate) mod answer;
pub(crate) mod arrive;
pub(crate) mod atomics;
pub(crate) mod caches;
pub(crate) mod complete;
pub(crate) mod doorbell;
pub(crate) mod ingest;
pub(crate) mod land;
pub(crate) mod memory;
pub(crate) mod objects;
pub(crate) mod op;
pub(crate) mod out;
pub(crate) mod post;
pub(crate) mod prices;
pub(crate) mod reliable;
pub(crate) mod table;

use crate::counters::Counters;
use crate::options::WorldOptions;
use atomics::AtomicUnit;
use caches::{ContextCache, WqeCache};
use doorbell::Registers;
use drover_sim::{
    AddressSpace, Alarm, ByteTime, Event, Expected, LastLevel, Model, Pipe, Ps, Queue, Station, Stream,
};
use drover_verbs::provide::Names;
use drover_verbs::{Caps, QpKind};
use objects::{Ah, Cq, Ctx, Import, Mr, Qp, RecvQueue};
use op::{Item, Ops};
use prices::Prices;
use std::sync::Arc;
use table::Table;

/// Kinds of events. The unit is a machine; the argument is an op, an item or a queue pair, as noted.
pub(crate) mod kind {
    use drover_sim::Event;
    const FIRST: u16 = Event::FIRST_KIND;
    /// The transmit engine, or the ingest before it, has work.
    pub(crate) const TX: u16 = FIRST;
    /// A list of requests (its first op) is in the card.
    pub(crate) const FETCHED: u16 = FIRST + 1;
    /// The transmit engine has served an item that now fetches its payload, or waits for one that does.
    pub(crate) const SENT: u16 = FIRST + 2;
    /// An item is ready for the link.
    pub(crate) const DEPART: u16 = FIRST + 3;
    /// The receive engine, or the port before it, has work.
    pub(crate) const RX: u16 = FIRST + 4;
    /// Bytes of a message (op) become visible at the responder.
    pub(crate) const VISIBLE: u16 = FIRST + 5;
    /// The data that a request (item) asked for has been read.
    pub(crate) const ANSWER: u16 = FIRST + 6;
    /// An atomic (op) has been executed.
    pub(crate) const ATOMIC: u16 = FIRST + 7;
    /// A request (op) is done at the requester: result and completion become visible.
    pub(crate) const DONE: u16 = FIRST + 8;
    /// A queue pair checks whether its peer still answers.
    pub(crate) const TIMEOUT: u16 = FIRST + 9;
    /// A queue pair retries after the peer had no RECV.
    pub(crate) const RNR_RETRY: u16 = FIRST + 10;
}

/// A machine's card.
#[derive(Debug)]
pub(crate) struct Nic {
    pub(crate) down: bool,
    pub(crate) pio: Pipe,
    /// Requests written by cores, or doorbells of lists (their first op), by time of arrival at the card.
    pub(crate) written: Expected<u32>,
    /// Requests being ingested, by the time when they are in the card.
    pub(crate) ingesting: Expected<u32>,
    pub(crate) tx: Station,
    pub(crate) tx_alarm: Alarm,
    /// Number of items between the transmit engine and the link that have events of their own.
    pub(crate) unsent: u32,
    /// Items from other machines, by the time when their first byte reaches our port.
    pub(crate) incoming: Expected<Arrival>,
    pub(crate) rx: Station,
    pub(crate) rx_alarm: Alarm,
    pub(crate) atomics: AtomicUnit,
    /// Bus from card to host.
    pub(crate) bus_out: Pipe,
    /// Bus from host to card.
    pub(crate) bus_in: Pipe,
    pub(crate) link_out: Pipe,
    pub(crate) link_in: Pipe,
    pub(crate) contexts: ContextCache,
    /// A smaller first-level cache for requesters' contexts, if the profile has one.
    pub(crate) near_contexts: Option<ContextCache>,
    pub(crate) wqes: WqeCache,
    pub(crate) loss: Stream,
    pub(crate) tear: Stream,
    pub(crate) counters: Counters,
    pub(crate) cores: u16,
    /// Lines written by all cores and not yet ingested.
    pub(crate) lines_ahead: u32,
    /// Last-level cache of the host, which receives the writes of peers (DDIO).
    pub(crate) last_level: LastLevel,
}

/// An item on the link, and its size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) item: Item,
    pub(crate) bytes: u32,
}

/// The simulated world without its cores.
pub(crate) struct Net {
    pub(crate) names: Names,
    pub(crate) prices: Prices,
    pub(crate) options: WorldOptions,
    pub(crate) caps: Arc<Caps>,
    pub(crate) nics: Vec<Nic>,
    pub(crate) address_space: AddressSpace,
    pub(crate) ctxs: Table<Ctx>,
    pub(crate) registers: Table<Registers>,
    pub(crate) qps: Table<Qp>,
    pub(crate) cqs: Table<Cq>,
    pub(crate) srqs: Table<RecvQueue>,
    pub(crate) mrs: Table<Mr>,
    pub(crate) imports: Table<Import>,
    pub(crate) ahs: Table<Ah>,
    pub(crate) ops: Ops,
}

impl Net {
    pub(crate) fn new(
        id: u64,
        options: WorldOptions,
        machines: u16,
        address_space: AddressSpace,
        seed: u64,
    ) -> Net {
        let prices = Prices::new(&options.parameters());
        let nics = (0..machines).map(|machine| Nic::new(&prices, u64::from(machine), seed));
        Net {
            names: Names {
                magic: *b"SIMW",
                fabric: id,
            },
            caps: Arc::new(options.caps()),
            nics: nics.collect(),
            address_space,
            prices,
            options,
            ctxs: Table::default(),
            registers: Table::default(),
            qps: Table::default(),
            cqs: Table::default(),
            srqs: Table::default(),
            mrs: Table::default(),
            imports: Table::default(),
            ahs: Table::default(),
            ops: Ops::default(),
        }
    }

    #[inline]
    pub(crate) fn nic(&mut self, machine: u16) -> &mut Nic {
        &mut self.nics[usize::from(machine)]
    }
}

impl Nic {
    fn new(prices: &Prices, machine: u64, seed: u64) -> Nic {
        let p = &prices.p;
        let pipe = |rate| Pipe::new(ByteTime::per_ns(rate));
        Nic {
            down: false,
            // This pipe carries lines instead of bytes.
            pio: pipe(1.0 / p.pio.line_ns.max(1e-6)),
            written: Expected::default(),
            ingesting: Expected::default(),
            tx: Station::default(),
            tx_alarm: Alarm::default(),
            unsent: 0,
            incoming: Expected::default(),
            rx: Station::default(),
            rx_alarm: Alarm::default(),
            atomics: AtomicUnit::new(
                Ps::from_ns(p.atomics.unit_ns),
                Ps::from_ns(p.atomics.hold_ns),
                p.atomics.buckets,
                p.atomics.waiting,
            ),
            bus_out: pipe(p.pcie.out_bytes_per_ns),
            bus_in: pipe(p.pcie.in_bytes_per_ns),
            link_out: pipe(p.link.bytes_per_ns),
            link_in: pipe(p.link.bytes_per_ns),
            contexts: ContextCache::new(p.context.capacity),
            near_contexts: match p.context.near_entries {
                0 => None,
                entries => Some(ContextCache::new(entries as f64)),
            },
            wqes: WqeCache::new(p.wqe_cache.sets, p.wqe_cache.ways),
            loss: Stream::new(seed, machine, "loss"),
            tear: Stream::new(seed, machine, "tear"),
            counters: Counters::default(),
            cores: 0,
            lines_ahead: 0,
            last_level: LastLevel::default(),
        }
    }
}

impl Nic {
    /// Cache entries for the contexts of a new queue pair, as requester and as responder. A UD queue pair has one
    /// context for both directions.
    pub(crate) fn add_contexts(&mut self, kind: QpKind, out: f64, served: f64) -> (u32, u32) {
        let mut add = |weight| {
            if let Some(near) = &mut self.near_contexts {
                near.add(1.0);
            }
            self.contexts.add(weight)
        };
        let place = add(out);
        match kind {
            QpKind::Ud => (place, place),
            QpKind::Rc | QpKind::Uc => (place, add(served)),
        }
    }
}

impl Model for Net {
    #[inline]
    fn handle(&mut self, event: Event, queue: &mut Queue) {
        let (machine, arg) = (event.unit, event.arg);
        match event.kind {
            kind::TX => self.tx(machine, queue),
            kind::FETCHED => self.fetched(machine, arg, queue),
            kind::SENT => self.sent(machine, Item(arg), queue),
            kind::DEPART => self.delayed(machine, Item(arg), queue),
            kind::RX => self.rx(machine, queue),
            kind::VISIBLE => self.visible(machine, arg, queue),
            kind::ANSWER => self.answer(machine, Item(arg), queue),
            kind::ATOMIC => self.atomic(machine, arg, queue),
            kind::DONE => self.finished(arg, queue),
            kind::TIMEOUT => self.timeout(arg, queue),
            kind::RNR_RETRY => self.rnr_retry(arg, queue),
            other => unreachable!("an event of kind {other}"),
        }
    }
}
