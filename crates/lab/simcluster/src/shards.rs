//! [`Shards`]: services of any [`ShardedSystem`] in a cluster, each shard on a core of the server.

use crate::service::Core;
use crate::{Load, Service, Setup};
use drover_base::{Actor, Ns, Progress};
use drover_control::{Dial, LocalListener};
use drover_kv::{
    Capacity, ConnectOptions, ServiceClient, Shard, ShardPlan, ShardedSystem, Sizes, TablePlan, TableShape,
};
use drover_mem::PageWish;
use drover_sim::VirtualCpu;
use drover_verbs_sim::{Doorbells, Sim, World};
use std::marker::PhantomData;
use std::rc::Rc;

/// Shards of system `S`.
#[derive(Clone)]
pub struct Shards<S> {
    shard_count: usize,
    /// Places of each shard's table, a power of two: how full it is follows from the load's keys.
    entry_count: usize,
    table: TableShape,
    client: ConnectOptions,
    system: PhantomData<fn() -> S>,
}

impl<S: ShardedSystem> Shards<S> {
    /// `shard_count` shards, each on a core, with the system's usual table, which is three quarters full `[HERD §5.1]` of
    /// `keys` in all.
    pub fn for_keys(shard_count: usize, keys: u64) -> Shards<S> {
        let share = keys as usize / shard_count;
        Shards {
            shard_count,
            entry_count: (share * 4).div_ceil(3).next_power_of_two(),
            table: S::TABLES[0].1,
            client: ConnectOptions::default(),
            system: PhantomData,
        }
    }

    /// The same with another of the system's [tables](ShardedSystem::TABLES).
    pub fn with_table(self, table: TableShape) -> Shards<S> {
        Shards { table, ..self }
    }

    /// With space for four times the load's records.
    fn plan(&self, setup: &Setup) -> ShardPlan {
        let key_bytes = Load::key(0).len();
        let sizes = Sizes {
            shard_count: self.shard_count,
            capacity: Capacity::Items {
                count: setup.load.keys,
                key_bytes,
            },
            value_bytes_max: setup.load.value_bytes,
            window: self.client.window,
        };
        let usual = S::plan(&sizes).expect("a plan by items has the memory it needs");
        let record_bytes = S::record_bytes(key_bytes, setup.load.value_bytes);
        ShardPlan {
            // What a figure assumes of its load stays true.
            table: TablePlan::fixed(self.table, self.entry_count),
            record_bytes: (4 * self.entry_count * record_bytes).max(MEMORY_MIN),
            item_bytes_max: ITEM_BYTES_MAX,
            evicts: false,
            pages: PageWish::Small,
            look_every: LOOK_EVERY,
            ..usual
        }
    }
}

/// Cluster for chunks of every size.
const MEMORY_MIN: usize = 64 << 20;
/// Longer than any item of a load.
const ITEM_BYTES_MAX: usize = 1 << 20;
/// How often a shard looks at its control channels: nobody waits for a client to connect.
const LOOK_EVERY: Ns = Ns::from_us(20);

/// Clients fill it.
impl<S: ShardedSystem> Service for Shards<S> {
    type Client = S::Client<Sim>;

    fn open(&self, world: &World, setup: &Setup) -> Vec<LocalListener> {
        // As over libibverbs, where every context opens the device and so has registers of its own.
        let device = world.device_with(0, Doorbells::PerContext);
        let plan = self.plan(setup);
        let open = |index| {
            let shard = <S::Shard<Sim> as Shard<Sim>>::open(&device, &plan, index, setup.hash_seed());
            let shard = shard.expect("a shard");
            let (core, listener) = (shard.context(), LocalListener::new());
            let there = listener.clone();
            world.spawn(
                &core,
                Box::new(Open {
                    shard,
                    listener: there,
                }),
            );
            listener
        };
        (0..self.shard_count).map(open).collect()
    }

    fn is_filled_when_open(&self) -> bool {
        false
    }

    fn client(&self, core: Rc<Core>, listeners: &[LocalListener]) -> S::Client<Sim> {
        let dials = listeners.iter().map(Dial::at).collect();
        S::Client::<Sim>::open(core, dials, &self.client)
    }

    fn is_ready(client: &mut S::Client<Sim>) -> bool {
        client.is_ready()
    }

    fn part_count(&self) -> usize {
        self.shard_count
    }
}

/// A shard that accepts the clients that connect to its listener.
struct Open<S> {
    shard: S,
    listener: LocalListener,
}

impl<S: Shard<Sim>> Actor<VirtualCpu> for Open<S> {
    fn step(&mut self, cpu: &VirtualCpu) -> Progress {
        while let Some(stream) = self.listener.accept() {
            self.shard.adopt(stream);
        }
        self.shard.step(cpu)
    }
}
