//! [`Rfp`]: the systems' rows in the table of systems.

use crate::client::RfpClient;
use crate::layout::REQUEST_HEADER_BYTES;
use crate::server::{Server, ServerOptions, ShardStore as _};
use crate::variant::{
    Flaw, JakiroVariant, MemcachedVariant, ServerReplyFaithfulVariant, ServerReplyVariant, Variant,
};
use drover_base::{HashKind, HashSeed};
use drover_control::ControlListener;
use drover_kv::{
    Capacity, EXTENSION_BYTES, Facts, KEY_BYTES_MAX, MistakenJob, OnCore, Planted, Policy, ResultTransfer,
    Service, ShardPlan, ShardedJob, ShardedSystem, Sizes, StartError, System, TablePlan, TableShape,
};
use drover_mem::NativeCpu;
use drover_one_sided::Membership;
use drover_rpc::fetch::Transfer;
use drover_store::{Mode, PartitionOptions};
use drover_verbs::Provider;
use std::marker::PhantomData;

/// A system of this crate.
#[derive(Clone, Copy, Debug)]
pub struct Rfp<V>(PhantomData<V>);

/// Jakiro: requests by WRITE, results by READ; pushed while the server is slow.
pub type Jakiro = Rfp<JakiroVariant>;

/// ServerReply: requests by WRITE, results by WRITE.
pub type ServerReply = Rfp<ServerReplyVariant>;

/// ServerReply that waits for each WRITE, as published.
pub type ServerReplyFaithful = Rfp<ServerReplyFaithfulVariant>;

/// RDMA-Memcached: requests by WRITE, results by WRITE, from a store that all workers share.
pub type RdmaMemcached = Rfp<MemcachedVariant>;

/// A bucket of the index is a line of eight slots.
const BUCKET_SLOTS: usize = 8;

const BUCKETS: TableShape = TableShape {
    place_bytes: 8,
    places_per_block: 0,
    grows: false,
};

/// Slots for each planned item. With so many, a cache evicts one of 7,000 items because its bucket is full, if there are
/// two items to a bucket on average (computed: the number of items in a bucket has a Poisson distribution).
const SLOTS_PER_ITEM: usize = 4;

impl<V: Variant> System for Rfp<V> {
    const FACTS: Facts = V::FACTS;
    type Plan = ShardPlan;
    type Client<P: Provider> = RfpClient<P, V::Guards>;

    fn plan(sizes: &Sizes) -> Result<ShardPlan, String> {
        let mut plan = ShardPlan::new(BUCKETS, sizes)?;
        match sizes.capacity {
            // An index of an eighth of the memory.
            Capacity::Memory { bytes } => {
                let partition = PartitionOptions::for_memory(Mode::Lru, bytes / sizes.shard_count.max(1));
                plan.table = TablePlan::fixed(BUCKETS, partition.bucket_count * BUCKET_SLOTS);
                plan.record_bytes = partition.log_bytes;
            }
            Capacity::Items { count, .. } => {
                let share = (count as usize).div_ceil(sizes.shard_count.max(1));
                let slots = (share * SLOTS_PER_ITEM).max(plan.table.entry_count);
                plan.table = TablePlan::fixed(BUCKETS, slots.next_multiple_of(BUCKET_SLOTS));
            }
        }
        Ok(plan)
    }

    fn set_policy(plan: &mut ShardPlan, policy: &Policy) {
        plan.set_policy(policy);
    }

    fn item_bytes_max(plan: &mut ShardPlan) -> (usize, &mut usize) {
        (plan.record_bytes / 2, &mut plan.item_bytes_max)
    }

    fn hash(plan: &mut ShardPlan) -> &mut HashKind {
        &mut plan.table.hash
    }

    fn footprint(plan: &ShardPlan) -> [usize; 2] {
        plan.footprint()
    }

    fn entry_count(plan: &ShardPlan) -> usize {
        plan.entry_count()
    }

    fn describe(plan: &ShardPlan) -> Vec<String> {
        let (of, shares) = match V::Store::IS_SHARED {
            true => ("that share", plan.shard_count),
            false => ("of", 1),
        };
        vec![
            format!(
                "{} shard(s) {of} {} buckets of {BUCKET_SLOTS} items and {} KiB of items",
                plan.shard_count,
                plan.table.entry_count * shares / BUCKET_SLOTS,
                (plan.record_bytes * shares) >> 10
            ),
            format!("when full: {}", when_full::<V>(plan)),
        ]
    }

    fn start<P: Provider<Cpu = NativeCpu>>(
        device: &P::Device,
        plan: &ShardPlan,
        listeners: Vec<ControlListener>,
        on_core: OnCore,
    ) -> Result<Box<dyn Service>, StartError> {
        drover_shards::start::<P, Server<P, V>>(device, &V::FACTS, plan, listeners, on_core)
    }

    fn sharded<J: ShardedJob>(job: J) -> Result<J::Answer, J> {
        Ok(job.run::<Rfp<V>>())
    }
}

impl<V: Variant> ShardedSystem for Rfp<V> {
    type Shard<P: Provider> = Server<P, V>;
    type Mistake = Flaw;

    const PLANTED: &'static [Planted<Flaw>] = V::PLANTED;

    const TABLES: &'static [(&'static str, TableShape)] = &[(V::CURVE, BUCKETS)];

    fn record_bytes(key_bytes: usize, value_bytes: usize) -> usize {
        (64 + key_bytes + value_bytes).next_power_of_two()
    }

    /// Both ends lack the protection.
    fn mistaken<J: MistakenJob>(flaw: Flaw, job: J) -> J::Answer {
        V::mistaken(flaw, job)
    }
}

/// A cache is Jakiro's own; a store has chains of buckets.
fn mode(plan: &ShardPlan) -> Mode {
    match plan.evicts {
        true => Mode::Lru,
        false => Mode::Store,
    }
}

/// The way of calls that is called so.
pub(crate) fn transfer(way: ResultTransfer) -> Transfer {
    match way {
        ResultTransfer::Auto => Transfer::Auto,
        ResultTransfer::Fetch => Transfer::Fetch,
        ResultTransfer::Reply => Transfer::Reply,
    }
}

fn when_full<V: Variant>(plan: &ShardPlan) -> &'static str {
    match V::Store::IS_SHARED && plan.evicts {
        true => "evicts the item of the same size class that was used longest ago (LRU)",
        false => mode(plan).when_full(),
    }
}

/// Options of shard `index` of a service of `plan`.
pub(crate) fn options<V: Variant>(plan: &ShardPlan, index: usize, seed: HashSeed) -> ServerOptions {
    let usual = ServerOptions::default();
    let longest_request =
        REQUEST_HEADER_BYTES + EXTENSION_BYTES + KEY_BYTES_MAX + plan.trial.slot_value_bytes;
    // A plan's sizes are shares of a shard.
    let shares = if V::Store::IS_SHARED { plan.shard_count } else { 1 };
    ServerOptions {
        membership: Membership::of(plan, index, seed),
        mode: mode(plan),
        bucket_count: (plan.table.entry_count * shares / BUCKET_SLOTS).max(1),
        memory_bytes: plan.record_bytes * shares,
        item_bytes_max: plan.item_bytes_max,
        pages: plan.pages,
        slot_bytes: usual.slot_bytes.max(longest_request),
        transfer: transfer(plan.transfer),
        has_handler: plan.trial.has_handler,
    }
}
