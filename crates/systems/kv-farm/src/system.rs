//! [`Farm`]: the system's row in the table of systems.

use crate::client::{ClientOptions, FarmClient};
use crate::logic::Miss;
use crate::server::{ITEM_BYTES_MAX, Server, ServerOptions};
use drover_base::{HashKind, HashSeed};
use drover_control::{ControlListener, Dial};
use drover_index::hopscotch::{SlotKind, item_bytes};
use drover_kv::{
    Capacity, Channels, ConnectOptions, Counter, Facts, KEY_BYTES_MAX, Offers, OnCore, OperationOffers,
    Planted, Policy, Service, ShardPlan, ShardedJob, ShardedSystem, Sizes, StartError, System, TableKind,
    TableShape,
};
use drover_mem::NativeCpu;
use drover_one_sided::Membership;
use drover_verbs::Provider;
use std::rc::Rc;

/// The system FaRM-KV: GETs by READs of neighbourhoods of a hopscotch table, which holds short values itself; PUTs and
/// DELETEs by WRITEs into rings.
#[derive(Clone, Copy, Debug)]
pub struct Farm;

/// Longest value that is kept in the table, bytes.
const INLINE_BYTES: usize = 32;

/// More than the header and the lines' versions of an object take whose value has up to a kilobyte.
const OBJECT_OVERHEAD_MAX: usize = 80;

const FACTS: Facts = Facts {
    name: crate::control::SYSTEM,
    about: "GETs are READs of a neighbourhood of a hopscotch table; PUT and DELETE are WRITEs into rings",
    needs: "RC queue pairs with READ",
    reads_words: false,
    fits: |caps| caps.supports.rc,
    table: Some(TableKind::Hopscotch),
    channels: Channels::PerShard,
    offers: Offers {
        operations: OperationOffers {
            value_bytes_max: ITEM_BYTES_MAX - item_bytes(KEY_BYTES_MAX, 0),
            ..OperationOffers::POINT
        },
        ..Offers::native_only("its items do not outlive the process")
    },
    cluster: Err(
        "its clients READ items without asking the server, which could not refuse them when a shard has moved",
    ),
    counters: &[
        Counter::events(
            "get_messages",
            "GETs that came as messages: misses to confirm, and readers that gave up. No server sees other GETs.",
        ),
        Counter::events("puts", "PUTs executed or refused."),
        Counter::events("deletes", "DELETEs executed."),
        Counter::events("pulls", "Long values fetched from clients by READ."),
        Counter::amount("items", "Items stored now."),
        Counter::amount("bytes", "Bytes of the items' objects."),
        Counter::events("evictions", "Items evicted to make space for others."),
        Counter::amount("places", "Home slots of the tables."),
        drover_one_sided::REFUSED_MEMORY_FULL,
        drover_one_sided::REFUSED_TABLE_FULL,
        drover_one_sided::REPEATED,
        drover_one_sided::CLIENTS,
    ],
    work: &[],
};

impl System for Farm {
    const FACTS: Facts = FACTS;
    type Plan = ShardPlan;
    type Client<P: Provider> = FarmClient<P>;

    fn plan(sizes: &Sizes) -> Result<ShardPlan, String> {
        // If values of any length may come, the table still holds the short ones.
        let inline = match sizes.capacity {
            Capacity::Memory { .. } => true,
            Capacity::Items { .. } => sizes.value_bytes_max <= INLINE_BYTES,
        };
        let table = match inline {
            true => TableShape::WIDE,
            false => TableShape::NARROW,
        };
        ShardPlan::new(table, sizes)
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
        plan.describe()
    }

    fn start<P: Provider<Cpu = NativeCpu>>(
        device: &P::Device,
        plan: &ShardPlan,
        listeners: Vec<ControlListener>,
        on_core: OnCore,
    ) -> Result<Box<dyn Service>, StartError> {
        drover_shards::start::<P, Server<P>>(device, &FACTS, plan, listeners, on_core)
    }

    fn sharded<J: ShardedJob>(job: J) -> Result<J::Answer, J> {
        Ok(job.run::<Farm>())
    }
}

impl ShardedSystem for Farm {
    type Shard<P: Provider> = Server<P>;
    type Mistake = Miss;

    const PLANTED: &'static [Planted<Miss>] = &[Planted {
        name: "trusts-misses",
        about: "a client that finds no slot of a key says that there is none, though the key may just have moved",
        scenario: "table",
        mistake: Miss::Trusted,
    }];

    const TABLES: &'static [(&'static str, TableShape)] = &[
        ("FaRM-KV", TableShape::WIDE),
        ("FaRM-KV / values outside", TableShape::NARROW),
    ];

    fn record_bytes(key_bytes: usize, value_bytes: usize) -> usize {
        (OBJECT_OVERHEAD_MAX + key_bytes + value_bytes).next_power_of_two()
    }

    fn open_mistaken<P: Provider>(
        ctx: Rc<P::Context>,
        dials: Vec<Dial>,
        options: &ConnectOptions,
        miss: Miss,
    ) -> FarmClient<P> {
        let options = ClientOptions {
            window: options.window,
            depth: options.depth,
            deadline: options.deadline,
            secret: options.secret.clone(),
            transfer: options.transfer,
            miss,
        };
        FarmClient::new(ctx, dials, options)
    }
}

/// Options of shard `index` of a service of `plan`.
pub(crate) fn options(plan: &ShardPlan, index: usize, seed: HashSeed) -> ServerOptions {
    ServerOptions {
        membership: Membership::of(plan, index, seed),
        kind: match plan.table.shape {
            TableShape::WIDE => SlotKind::Wide,
            _ => SlotKind::Narrow,
        },
        home_count: plan.table.entry_count,
        block_count: plan.table.block_count(),
        memory_bytes: plan.record_bytes,
        item_bytes_max: plan.item_bytes_max,
        evicts: plan.evicts,
        grace: plan.grace,
        pages: plan.pages,
        ..ServerOptions::default()
    }
}
