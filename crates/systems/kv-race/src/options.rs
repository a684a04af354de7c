//! [`RaceOptions`]: what a client chooses.

use crate::layout::TableHeader;
use crate::mistake::Mistake;
use drover_base::{HashSeed, Ns};
use drover_index::race::Shape;

/// Options of a client.
///
/// RACE and Smart-HT are this client over tasks of different [options](drover_rt::TaskOptions): RACE has the driver's
/// doorbells, no credits, and retries at once; Smart-HT has a doorbell per thread, credits, and waits before it retries.
#[derive(Clone, Copy, Debug)]
pub struct RaceOptions {
    /// Wait before the next look at a bucket that is being split, about a round trip.
    pub wait: Ns,
    /// Time after which an operation that others are in the way of gives up.
    pub deadline: Ns,
    /// Whether items are removed when memory or a table is full, so that others can be written: the oldest of a few that
    /// are drawn at random. Otherwise the write is refused. Tables that [say so](TableHeader::evicts) are used like that, whatever
    /// is chosen here.
    pub evicts: bool,
    /// Time between two looks of [`attend`](crate::Race::attend) at what other clients ask for: how long a flush takes to be
    /// known. *(our choice)*
    pub look_every: Ns,
    /// Seconds between two searches of a table for expired items, by any client. *(our choice)*
    pub sweep_every_s: u32,
    /// The tables to create at nodes that have none; `None`: they must exist.
    pub create: Option<TableHeader>,
    /// A deliberate mistake, to be found by simulations; none in service.
    pub mistake: Option<Mistake>,
}

impl Default for RaceOptions {
    fn default() -> RaceOptions {
        RaceOptions {
            wait: Ns::from_us(2),
            deadline: Ns::from_s(5),
            evicts: false,
            look_every: Ns::from_ms(10),
            sweep_every_s: 60,
            create: None,
            mistake: None,
        }
    }
}

impl TableHeader {
    /// One table per node, whose subtables have 1,024 groups, so that a split takes milliseconds, and whose directory can have 2^16
    /// entries. *(our choice)*
    pub fn usual(seed: HashSeed) -> TableHeader {
        TableHeader {
            seed,
            shape: Shape::new(1024).expect("within bounds"),
            depth_max: drover_index::race::DEPTH_MAX,
            item_bytes_max: u32::MAX,
            tables: 1,
            evicts: false,
        }
    }
}
