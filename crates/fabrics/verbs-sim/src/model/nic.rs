//! [`Nic`]: a machine's card and its connections to the host and to the network.

use super::atomics::AtomicUnit;
use super::caches::Caches;
use super::op::Item;
use super::prices::Prices;
use crate::counters::Counters;
use drover_sim::{Alarm, ByteTime, Expected, LastLevel, Pipe, Ps, Station, Stream};

/// A machine's card.
#[derive(Debug)]
pub(crate) struct Nic {
    pub(crate) down: bool,
    pub(crate) pio: MmioIngest,
    pub(crate) tx: Transmitter,
    pub(crate) rx: Receiver,
    pub(crate) atomics: AtomicUnit,
    /// Between card and host.
    pub(crate) bus: Duplex,
    /// Between card and network.
    pub(crate) link: Duplex,
    pub(crate) caches: Caches,
    pub(crate) chance: Chance,
    pub(crate) counters: Counters,
    /// Last-level cache of the host, which receives the writes of peers (DDIO).
    pub(crate) last_level: LastLevel,
    /// Bytes of its own memory that programs have allocated.
    pub(crate) device_memory_taken: usize,
}

/// From the cores into the card.
#[derive(Debug)]
pub(crate) struct MmioIngest {
    /// It carries lines instead of bytes.
    pub(crate) pipe: Pipe,
    /// Requests written by cores, or doorbells of lists (their first op), by time of arrival at the card.
    pub(crate) written: Expected<u32>,
    /// Requests being ingested, by the time when they are in the card.
    pub(crate) ingesting: Expected<u32>,
    /// Lines written by all cores and not yet ingested.
    pub(crate) lines_ahead: u32,
}

/// The transmit engine.
#[derive(Debug, Default)]
pub(crate) struct Transmitter {
    pub(crate) station: Station,
    pub(crate) alarm: Alarm,
    /// Number of items between the engine and the link that have events of their own.
    pub(crate) unsent: u32,
}

/// The receive engine, and the port before it.
#[derive(Debug, Default)]
pub(crate) struct Receiver {
    pub(crate) station: Station,
    pub(crate) alarm: Alarm,
    /// Items from other machines, by the time when their first byte reaches our port.
    pub(crate) incoming: Expected<Arrival>,
}

/// An item on the link, and its size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) item: Item,
    pub(crate) bytes: u32,
}

/// Both directions of a connection, as seen from the card.
#[derive(Debug)]
pub(crate) struct Duplex {
    pub(crate) outbound: Pipe,
    pub(crate) inbound: Pipe,
}

/// Random streams of a card.
#[derive(Debug)]
pub(crate) struct Chance {
    pub(crate) loss: Stream,
    pub(crate) tear: Stream,
}

impl Nic {
    pub(super) fn new(prices: &Prices, machine: u64, seed: u64) -> Nic {
        let p = &prices.p;
        let pipe = |rate| Pipe::new(ByteTime::per_ns(rate));
        Nic {
            down: false,
            pio: MmioIngest {
                pipe: pipe(1.0 / p.pio.line_ns.max(1e-6)),
                written: Expected::default(),
                ingesting: Expected::default(),
                lines_ahead: 0,
            },
            tx: Transmitter::default(),
            rx: Receiver::default(),
            atomics: AtomicUnit::new(
                Ps::from_ns(p.atomics.unit_ns),
                Ps::from_ns(p.atomics.hold_ns),
                p.atomics.buckets,
                p.atomics.waiting,
            ),
            bus: Duplex {
                outbound: pipe(p.pcie.out_bytes_per_ns),
                inbound: pipe(p.pcie.in_bytes_per_ns),
            },
            link: Duplex {
                outbound: pipe(p.link.bytes_per_ns),
                inbound: pipe(p.link.bytes_per_ns),
            },
            caches: Caches::new(&p.context, &p.wqe_cache),
            chance: Chance {
                loss: Stream::new(seed, machine, "loss"),
                tear: Stream::new(seed, machine, "tear"),
            },
            counters: Counters::default(),
            last_level: LastLevel::default(),
            device_memory_taken: 0,
        }
    }
}
