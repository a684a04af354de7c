//! A sample system: a table of 64-byte slots that verify themselves, as in example 08, with a server that executes updates
//! and knows what no slot holds.
//!
//! ```text
//! GET           READ of a slot; a message, if the slot is not the key's
//! PUT, DELETE   a message; the server writes the slot
//! ```
//! It is everything that a system must be to have all that is built on the table of systems.

mod client;
mod layout;
mod server;

use client::Client;
use drover_base::HashKind;
use drover_control::{ControlListener, Dial};
use drover_kv::{
    Channels, ConnectOptions, Counter, Facts, Offers, OnCore, OperationOffers, Planted, Policy, Service,
    ShardPlan, ShardedJob, ShardedSystem, Sizes, StartError, System, TableShape,
};
use drover_mem::NativeCpu;
use drover_one_sided::ClientOptions;
use drover_verbs::Provider;
use layout::{SLOT_BYTES, Trust};
use server::Server;
use std::rc::Rc;

/// The sample.
#[derive(Clone, Copy, Debug)]
pub struct Sample;

const FACTS: Facts = Facts {
    name: "sample",
    about: "GETs are READs of self-verifying slots of 64 bytes; PUT and DELETE are messages",
    needs: "RC queue pairs with READ",
    reads_words: false,
    fits: |caps| caps.supports.rc,
    table: None,
    channels: Channels::PerShard,
    offers: Offers {
        operations: OperationOffers {
            conditions: false,
            versions: false,
            flags: false,
            touch: false,
            ..OperationOffers::POINT
        },
        ..Offers::native_only("its items do not outlive the process")
    },
    cluster: Err("its clients READ items without asking the server"),
    counters: &[
        Counter::events("get_messages", "GETs that a slot did not answer."),
        Counter::events("puts", "PUTs executed."),
        Counter::events("deletes", "DELETEs executed."),
        Counter::amount("items", "Items stored now."),
        Counter::events("evictions", "Items evicted to make space for others."),
        drover_one_sided::CLIENTS,
    ],
    work: &[],
};

const SLOTS: TableShape = TableShape {
    place_bytes: SLOT_BYTES,
    places_per_block: 0,
    grows: false,
};

impl System for Sample {
    const FACTS: Facts = FACTS;
    type Plan = ShardPlan;
    type Client<P: Provider> = Client<P>;

    fn plan(sizes: &Sizes) -> Result<ShardPlan, String> {
        ShardPlan::new(SLOTS, sizes)
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
        Ok(job.run::<Sample>())
    }
}

impl ShardedSystem for Sample {
    type Shard<P: Provider> = Server<P>;
    type Mistake = Trust;

    const PLANTED: &'static [Planted<Trust>] = &[Planted {
        name: "trusts-slots",
        about: "a client takes the value of a slot without a look at whose it is",
        scenario: "table",
        mistake: Trust::Any,
    }];

    const TABLES: &'static [(&'static str, TableShape)] = &[("Sample", SLOTS)];

    fn record_bytes(key_bytes: usize, value_bytes: usize) -> usize {
        (64 + key_bytes + value_bytes).next_power_of_two()
    }

    fn open_mistaken<P: Provider>(
        ctx: Rc<P::Context>,
        dials: Vec<Dial>,
        options: &ConnectOptions,
        trust: Trust,
    ) -> Client<P> {
        let options = ClientOptions {
            window: options.window,
            depth: options.depth,
            deadline: options.deadline,
            secret: options.secret.clone(),
            transfer: options.transfer,
            miss: trust,
        };
        Client::new(ctx, dials, options)
    }
}
