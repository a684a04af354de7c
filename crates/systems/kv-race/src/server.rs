//! [`RaceNode`]: a shard of a service: a memory node that is part of a pool from its start, with an empty table in it. Nothing of it
//! knows of the table afterwards.

use crate::POOL_KIND;
use crate::layout::{TABLE_ROOT, TableHeader};
use drover_base::{Actor, HashSeed, Ns, Progress};
use drover_control::ControlStream;
use drover_index::race::{BUCKET_BYTES, DEPTH_MAX, ENTRIES_OFFSET, Entry, Shape};
use drover_kv::{Shard, ShardPlan, StartError};
use drover_memnode::header::{CLIENT_BYTES, CLIENTS_MAX};
use drover_memnode::node::{Loader, Node, NodeOptions};
use drover_memnode::{LeaseTimes, PoolMembership, chunks};
use drover_verbs::Provider;
use std::rc::Rc;

/// Most groups of a subtable, so that splitting one takes milliseconds. *(our choice)*
const GROUPS_MAX: usize = 1024;
/// Slots of a group that are in use, on average, when a subtable is split.
const SLOTS_PER_GROUP: usize = 16;
/// Chunks beside the items' memory, for what clients have taken and not used yet.
const SPARE_CHUNKS: usize = 16;
/// Time between two renewals of a client's lease, and between two polls of control channels, relative to each other.
const RENEWALS: u64 = 20;

/// Options of a node, and of the table in it.
#[derive(Clone, Debug)]
pub struct RaceNodeOptions {
    /// The node.
    pub node: NodeOptions,
    /// The table.
    pub table: TableHeader,
}

/// Options of node `index` of a service of `plan`, whose keys are hashed under `seed`.
pub(crate) fn options(plan: &ShardPlan, index: usize, seed: HashSeed) -> RaceNodeOptions {
    let table = table(plan, seed);
    let clients = plan.clients_max.clamp(16, CLIENTS_MAX);
    let data = plan.record_bytes + table.table_bytes() + SPARE_CHUNKS * chunks::CHUNK_BYTES;
    // A word of the chunk table for each chunk; the reserve is 2 %.
    let beside = clients * CLIENT_BYTES + data / chunks::CHUNK_BYTES * 8 + 4 * chunks::CHUNK_BYTES;
    let bytes = (data + data / 32 + beside).next_multiple_of(chunks::CHUNK_BYTES);
    let (k0, k1) = seed.halves();
    RaceNodeOptions {
        node: NodeOptions {
            pages: plan.pages,
            client_count: clients as u32,
            times: times(plan.look_every),
            place: Some(PoolMembership {
                pool: drover_base::mix(k0 ^ k1.rotate_left(32)) | 1,
                index: index as u32,
                count: plan.shard_count as u32,
                kind: POOL_KIND,
            }),
            look_every: plan.look_every,
            ..NodeOptions::new(bytes)
        },
        table,
    }
}

/// The usual times, but that leases are renewed more often where control channels are polled so often that nobody means
/// them to be cheap: in tests.
fn times(look_every: Ns) -> LeaseTimes {
    let usual = LeaseTimes::default();
    LeaseTimes {
        renew_every: usual.renew_every.min(look_every * RENEWALS),
        ..usual
    }
}

fn table(plan: &ShardPlan, seed: HashSeed) -> TableHeader {
    let groups = (plan.table.entry_count / SLOTS_PER_GROUP).clamp(2, GROUPS_MAX);
    let shape = Shape::new(groups as u32).expect("within bounds");
    // As many subtables as the planned entries need, and as the memory could hold, whichever is more.
    let by_entries = plan.table.entry_count_max / (groups * SLOTS_PER_GROUP) * 2;
    let by_memory = plan.record_bytes / (shape.bytes() as usize).max(1);
    let subtables = by_entries.min(by_memory * 4).max(by_memory).max(1);
    TableHeader {
        seed,
        shape,
        tables: 1,
        evicts: plan.evicts,
        depth_max: (subtables.next_power_of_two().ilog2() as u8 + 1).min(DEPTH_MAX),
        item_bytes_max: u32::try_from(plan.item_bytes_max).unwrap_or(u32::MAX),
    }
}

/// A node of a service.
pub struct RaceNode<P: Provider>(Node<P>);

impl<P: Provider> RaceNode<P> {
    /// The node.
    pub fn node(&self) -> &Node<P> {
        &self.0
    }
}

/// Writes an empty table.
fn load(mut loader: Loader<'_>, table: &TableHeader) -> Result<(), StartError> {
    let mut alloc = |bytes| {
        loader.alloc(bytes).map_err(|_| StartError::Options {
            what: "memory",
            why: "not enough for an empty table",
        })
    };
    let at = alloc(table.table_bytes())?;
    let subtable = alloc(table.shape.bytes() as usize)?;
    // The headers of buckets of depth 0 are 0, and so are empty slots.
    debug_assert_eq!(table.shape.bytes() as usize % BUCKET_BYTES, 0);
    let first = Entry {
        subtable: subtable.offset(),
        depth: 0,
        locked: false,
    };
    loader.write(at, &table.encode());
    loader.write(at.add(ENTRIES_OFFSET as u64), &first.word().to_le_bytes());
    loader.set_root(TABLE_ROOT, at.offset());
    Ok(())
}

impl<P: Provider> Shard<P> for RaceNode<P> {
    type Options = RaceNodeOptions;
    type Common = ();

    fn options(plan: &ShardPlan, index: usize, seed: HashSeed) -> RaceNodeOptions {
        options(plan, index, seed)
    }

    fn with_options(device: &P::Device, options: &RaceNodeOptions, (): &()) -> Result<Self, StartError> {
        let mut node = Node::<P>::new(device, &options.node)?;
        // A file may hold a table already.
        if node.host().header().roots[TABLE_ROOT] == 0 {
            node.change(|state| load(state.loader(), &options.table))?;
        }
        Ok(RaceNode(node))
    }

    fn context(&self) -> Rc<P::Context> {
        self.0.context()
    }

    fn adopt(&mut self, stream: ControlStream) {
        self.0.adopt(stream);
    }

    fn client_count(&self) -> usize {
        self.0.client_count()
    }

    fn counters(&self) -> Vec<u64> {
        Shard::<P>::counters(&self.0)
    }
}

impl<P: Provider> Actor<P::Cpu> for RaceNode<P> {
    fn step(&mut self, cpu: &P::Cpu) -> Progress {
        self.0.step(cpu)
    }
}
