//! [`Pilaf`]: the system's row in the table of systems.

use crate::client::{ClientOptions, PilafClient};
use crate::layout::record_bytes;
use crate::logic::Miss;
use crate::server::{Server, ServerOptions};
use drover_base::{HashKind, HashSeed};
use drover_control::{ControlListener, Dial};
use drover_index::cuckoo::RECORD_BYTES_MAX;
use drover_kv::{
    Channels, ConnectOptions, Counter, Facts, KEY_BYTES_MAX, Offers, OnCore, OperationOffers, Planted,
    Policy, Service, ShardPlan, ShardedJob, ShardedSystem, Sizes, StartError, System, TableKind, TableShape,
};
use drover_mem::NativeCpu;
use drover_one_sided::Membership;
use drover_verbs::Provider;
use std::rc::Rc;

/// The system Pilaf: GETs by READs of a cuckoo table and of records, PUTs and DELETEs by messages.
#[derive(Clone, Copy, Debug)]
pub struct Pilaf;

const FACTS: Facts = Facts {
    name: crate::control::SYSTEM,
    about: "GETs are READs of a cuckoo table and of records; PUT and DELETE are messages",
    needs: "RC queue pairs with READ",
    reads_words: false,
    fits: |caps| caps.supports.rc,
    table: Some(TableKind::Cuckoo),
    channels: Channels::PerShard,
    offers: Offers {
        operations: OperationOffers {
            value_bytes_max: RECORD_BYTES_MAX - record_bytes(KEY_BYTES_MAX, 0),
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
        Counter::amount("bytes", "Bytes of the items' records."),
        Counter::events("evictions", "Items evicted to make space for others."),
        Counter::amount("places", "Entries of the tables."),
        Counter::events("growths", "Tables replaced by larger ones."),
        drover_one_sided::REFUSED_MEMORY_FULL,
        drover_one_sided::REFUSED_TABLE_FULL,
        drover_one_sided::REPEATED,
        drover_one_sided::CLIENTS,
    ],
    work: &[],
};

impl System for Pilaf {
    const FACTS: Facts = FACTS;
    type Plan = ShardPlan;
    type Client<P: Provider> = PilafClient<P>;

    fn plan(sizes: &Sizes) -> Result<ShardPlan, String> {
        ShardPlan::new(TableShape::SINGLE, sizes)
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
        Ok(job.run::<Pilaf>())
    }
}

impl ShardedSystem for Pilaf {
    type Shard<P: Provider> = Server<P>;
    type Mistake = Miss;

    const PLANTED: &'static [Planted<Miss>] = &[Planted {
        name: "trusts-misses",
        about: "a client that finds no entry of a key says that there is none, though the key may just have moved",
        scenario: "table",
        mistake: Miss::Trusted,
    }];

    const TABLES: &'static [(&'static str, TableShape)] = &[("Pilaf", TableShape::SINGLE)];

    fn record_bytes(key_bytes: usize, value_bytes: usize) -> usize {
        crate::layout::record_bytes(key_bytes, value_bytes).next_power_of_two()
    }

    fn open_mistaken<P: Provider>(
        ctx: Rc<P::Context>,
        dials: Vec<Dial>,
        options: &ConnectOptions,
        miss: Miss,
    ) -> PilafClient<P> {
        let options = ClientOptions {
            window: options.window,
            depth: options.depth,
            deadline: options.deadline,
            secret: options.secret.clone(),
            transfer: options.transfer,
            miss,
        };
        PilafClient::new(ctx, dials, options)
    }
}

/// Options of shard `index` of a service of `plan`.
pub(crate) fn options(plan: &ShardPlan, index: usize, seed: HashSeed) -> ServerOptions {
    ServerOptions {
        membership: Membership::of(plan, index, seed),
        entry_count: plan.table.entry_count,
        entry_count_max: plan.table.entry_count_max,
        grows_into_records: plan.table.grows_into_records,
        memory_bytes: plan.record_bytes,
        item_bytes_max: plan.item_bytes_max,
        evicts: plan.evicts,
        grace: plan.grace,
        pages: plan.pages,
        ..ServerOptions::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_kv::Shard;
    use drover_verbs::Device;

    #[test]
    fn a_shard_has_a_value_for_every_counter() {
        let sizes = Sizes {
            shard_count: 1,
            capacity: drover_kv::Capacity::Memory { bytes: 1 << 20 },
            value_bytes_max: 100,
            window: 1,
        };
        let plan = Pilaf::plan(&sizes).expect("enough memory");
        let device = drover_verbs_suite::loopback::LoopbackDevice::new();
        let seed = HashSeed::new(1, 2);
        let shard: Server<drover_verbs_suite::loopback::Loopback> =
            Shard::open(&device, &plan, 0, seed, &()).expect("a shard");
        assert_eq!(shard.counters().len(), FACTS.counters.len());
        assert!((FACTS.fits)(device.caps()));
    }
}
