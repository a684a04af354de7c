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
pub(crate) mod keys;
pub(crate) mod land;
pub(crate) mod memory;
pub(crate) mod nic;
pub(crate) mod objects;
pub(crate) mod op;
pub(crate) mod order;
pub(crate) mod out;
pub(crate) mod post;
pub(crate) mod prices;
pub(crate) mod reliable;
pub(crate) mod send_queue;
pub(crate) mod shared;
pub(crate) mod table;

use crate::options::WorldOptions;
use doorbell::Registers;
use drover_sim::{AddressSpace, Event, Locks, Model, Queue};
use drover_verbs::provide::Names;
use drover_verbs::{Caps, DomainOptions};
use keys::Keys;
use nic::Nic;
use objects::{Cq, Ctx, Qp, RecvQueue};
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

/// The simulated world without its cores.
pub(crate) struct Net {
    pub(crate) fabric: Fabric,
    pub(crate) prices: Prices,
    pub(crate) options: WorldOptions,
    pub(crate) nics: Vec<Nic>,
    pub(crate) ctxs: Table<Ctx>,
    pub(crate) registers: Table<Registers>,
    domains: u32,
    pub(crate) qps: Table<Qp>,
    pub(crate) cqs: Table<Cq>,
    pub(crate) srqs: Table<RecvQueue>,
    pub(crate) keys: Keys,
    pub(crate) ops: Ops,
}

/// What all machines have in common.
pub(crate) struct Fabric {
    pub(crate) names: Names,
    pub(crate) caps: Arc<Caps>,
    pub(crate) address_space: AddressSpace,
    /// The locks that cores share.
    pub(crate) locks: Locks,
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
        let locks = match options.ablations.locks {
            true => Locks::default(),
            false => Locks::new(prices.lock.per_waiter),
        };
        let nics = (0..machines).map(|machine| Nic::new(&prices, u64::from(machine), seed));
        Net {
            fabric: Fabric {
                names: Names {
                    magic: *b"SIMW",
                    fabric: id,
                },
                caps: Arc::new(options.caps()),
                address_space,
                locks,
            },
            nics: nics.collect(),
            prices,
            options,
            ctxs: Table::default(),
            registers: Table::default(),
            domains: 0,
            qps: Table::default(),
            cqs: Table::default(),
            srqs: Table::default(),
            keys: Keys::default(),
            ops: Ops::default(),
        }
    }

    /// Number of a new domain.
    pub(crate) fn new_domain(&mut self) -> u32 {
        self.domains += 1;
        self.domains
    }

    /// The doorbell registers of a new process or domain.
    pub(crate) fn new_registers(&mut self, options: &DomainOptions) -> u32 {
        let lock = &self.prices.p.lock;
        let registers = Registers::new(options, lock.low_registers, lock.shared_registers);
        self.registers.add(registers)
    }

    #[inline]
    pub(crate) fn nic(&mut self, machine: u16) -> &mut Nic {
        &mut self.nics[usize::from(machine)]
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
