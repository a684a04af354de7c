//! [`RaceSystem`]: the row in the table of systems.

use crate::client::RaceClient;
use crate::costs::BUDGET;
use crate::mistake::{Mistake, PLANTED};
use crate::server::RaceNode;
use drover_base::HashKind;
use drover_control::{ControlListener, Dial};
use drover_kv::{
    Capacity, Channels, ConnectOptions, Counter, Facts, Offers, OnCore, OperationOffers, Planted, Policy,
    Service, ShardPlan, ShardedJob, ShardedSystem, Sizes, StartError, System, TableShape,
};
use drover_mem::NativeCpu;
use drover_memnode::block::BLOCK_HEADER_BYTES;
use drover_verbs::{Atomics, Provider};
use std::rc::Rc;

/// RACE: an extendible hash table in memory nodes, which clients change by themselves.
#[derive(Clone, Copy, Debug)]
pub struct RaceSystem;

/// Slots, in groups of subtables that are split when they are full.
const SLOTS: TableShape = TableShape {
    place_bytes: 8,
    places_per_block: 0,
    grows: true,
};

const COUNTERS: &[Counter] = &[
    Counter::amount("chunks", "Chunks of 16 KiB of the node."),
    Counter::amount("chunks_used", "Chunks that clients have taken."),
    Counter::amount("clients_live", "Clients whose leases run; the most of all nodes.").largest(),
    Counter::amount("clients_fencing", "Clients that are being shut out."),
    drover_one_sided::CLIENTS,
];

impl System for RaceSystem {
    const FACTS: Facts = Facts {
        name: "race",
        about: "an extendible hash table in memory nodes whose processors do nothing: clients READ, WRITE and CAS it \
                (RACE, with SMART's tasks)",
        needs: "RC queue pairs with READ, WRITE and CAS",
        reads_words: true,
        fits: |caps| caps.supports.rc && caps.supports.atomics != Atomics::None,
        table: None,
        channels: Channels::PerShard,
        offers: Offers {
            eviction: Err("nodes see no GETs"),
            operations: OperationOffers {
                flush: true,
                ..OperationOffers::POINT
            },
            // A cache refuses a value, too, where no item's block is as long as it needs.
            evicts: false,
            gateway: true,
            sends_again: false,
            // Each process of a pool may write all of its memory.
            isolates: false,
            expiry_lag_s: 1,
            ..Offers::native_only("a node that keeps its memory in a file is one of drover memory-node")
        },
        cluster: Err(
            "its clients READ and WRITE the items themselves: a pool of memory nodes spans machines",
        ),
        counters: COUNTERS,
        work: BUDGET,
    };
    type Plan = ShardPlan;
    type Client<P: Provider> = RaceClient<P>;

    fn plan(sizes: &Sizes) -> Result<ShardPlan, String> {
        let mut plan = ShardPlan::new(SLOTS, sizes)?;
        if let Capacity::Items { count, key_bytes } = sizes.capacity {
            // Blocks are powers of two, and an update writes a new one.
            let share = (count as usize).div_ceil(sizes.shard_count.max(1));
            let block = Self::record_bytes(key_bytes, sizes.value_bytes_max);
            plan.record_bytes = plan.record_bytes.max(share * 2 * block + (16 << 20));
        }
        // Until a policy says otherwise.
        plan.evicts = false;
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
        vec![
            format!(
                "{} memory node(s) of {} KiB for items and what the table grows to",
                plan.shard_count,
                plan.record_bytes >> 10
            ),
            match plan.evicts {
                true => "when full: clients remove the oldest of a few items of about the same length",
                false => "when full: clients refuse to store more (-M)",
            }
            .to_owned(),
        ]
    }

    fn start<P: Provider<Cpu = NativeCpu>>(
        device: &P::Device,
        plan: &ShardPlan,
        listeners: Vec<ControlListener>,
        on_core: OnCore,
    ) -> Result<Box<dyn Service>, StartError> {
        drover_shards::start::<P, RaceNode<P>>(device, &Self::FACTS, plan, listeners, on_core)
    }

    fn sharded<J: ShardedJob>(job: J) -> Result<J::Answer, J> {
        Ok(job.run::<RaceSystem>())
    }
}

impl ShardedSystem for RaceSystem {
    type Shard<P: Provider> = RaceNode<P>;
    type Mistake = Mistake;

    const PLANTED: &'static [Planted<Mistake>] = PLANTED;

    const TABLES: &'static [(&'static str, TableShape)] = &[("RACE", SLOTS)];

    fn record_bytes(key_bytes: usize, value_bytes: usize) -> usize {
        (BLOCK_HEADER_BYTES + key_bytes + value_bytes).next_power_of_two()
    }

    fn open_mistaken<P: Provider>(
        ctx: Rc<P::Context>,
        dials: Vec<Dial>,
        options: &ConnectOptions,
        mistake: Mistake,
    ) -> RaceClient<P> {
        RaceClient::new(ctx, dials, options, Some(mistake))
    }
}
