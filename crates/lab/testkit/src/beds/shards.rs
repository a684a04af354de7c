//! [`ShardsBed`]: the shards and clients of a service of any [`ShardedSystem`], all stepped in one thread, on any
//! [`Ground`].

use super::ground::Ground;
use crate::kv_conformance::{Bed, BedOptions};
use drover_base::{Actor, Cpu, HashSeed, Ns};
use drover_control::{Dial, LocalListener};
use drover_kv::{
    Capacity, ConnectOptions, Offers, ServiceClient, Shard, ShardPlan, ShardedSystem, Sizes, TablePlan,
};
use drover_mem::PageWish;
use drover_verbs::{Context, Device, Provider};
use std::rc::Rc;

/// Options of a shard of system `S` on provider `P`.
pub type ShardOptions<S, P> = <<S as ShardedSystem>::Shard<P> as Shard<P>>::Options;

/// Initial entries of a table that grows: so few that tables grow throughout the suite.
const GROWING_ENTRIES: usize = 64;
/// Maximum entries of a table that grows.
const ENTRIES_MAX: usize = 1 << 28;
/// A table that does not grow has one entry per this many bytes of record memory.
const BYTES_PER_ENTRY: usize = 64;

/// The plan of a service for the options of a rule.
fn plan<S: ShardedSystem>(options: &BedOptions) -> ShardPlan {
    let sizes = Sizes {
        shard_count: options.partition_count,
        capacity: Capacity::Items {
            count: 1000,
            key_bytes: 60,
        },
        value_bytes_max: 32,
        window: options.window,
    };
    let usual = S::plan(&sizes).expect("a plan by items has the memory it needs");
    let (entry_count, entry_count_max) = match usual.table.shape.grows {
        true => (GROWING_ENTRIES, ENTRIES_MAX),
        false => {
            let count = (options.memory_bytes / BYTES_PER_ENTRY).next_power_of_two();
            (count, count)
        }
    };
    ShardPlan {
        table: TablePlan {
            entry_count,
            entry_count_max,
            ..usual.table
        },
        record_bytes: options.memory_bytes,
        item_bytes_max: options.item_bytes_max,
        evicts: !options.store_mode,
        pages: PageWish::Small,
        look_every: Ns::from_us(20),
        ..usual
    }
}

/// Returns the options of shard number `shard` (from 0) of a service with the sizes of `options`: small tables, which
/// grow from 64 entries if the system's tables can grow.
pub fn shard_options<S: ShardedSystem, P: Provider>(
    options: &BedOptions,
    shard: usize,
) -> ShardOptions<S, P> {
    let seed = HashSeed::new(options.seed, 7);
    <S::Shard<P> as Shard<P>>::options(&plan::<S>(options), shard, seed)
}

/// A [`Bed`] (running system for tests) that owns the shards of a service of system `S` on the fabric `G`, and the core
/// that all clients share. It owns no clients: [`connect`](Bed::connect) returns them.
pub struct ShardsBed<S: ShardedSystem, G: Ground> {
    device: <G::P as Provider>::Device,
    options: BedOptions,
    shards: Vec<(S::Shard<G::P>, LocalListener)>,
    ctx: Rc<<G::P as Provider>::Context>,
    /// Clients connected so far.
    clients: usize,
}

/// Polls `client` on `ctx` and calls `step`, which must run the servers, until the client has a session with every shard;
/// returns it.
///
/// # Panics
/// If it is not connected after a million rounds.
pub fn connected<P: Provider, C: ServiceClient<P>>(
    mut client: C,
    ctx: &P::Context,
    mut step: impl FnMut(),
) -> C {
    for _ in 0..1_000_000 {
        ctx.cpu().refresh();
        client.poll(ctx.cpu(), &mut |_| {});
        if client.is_ready() {
            return client;
        }
        step();
    }
    panic!("no connection: {:?}", client.take_error());
}

impl<S: ShardedSystem, G: Ground> ShardsBed<S, G> {
    /// Starts the shards of a service for `options` on `device`, which is already open: the faults of `options` are
    /// ignored.
    ///
    /// # Panics
    /// If a shard does not open.
    pub fn on(device: <G::P as Provider>::Device, options: &BedOptions) -> ShardsBed<S, G> {
        let shards = Self::shards(&device, options)
            .map(|shard| (shard, LocalListener::new()))
            .collect();
        let ctx = Rc::new(G::for_clients(&device, options).context().expect("a context"));
        ShardsBed {
            device,
            options: options.clone(),
            shards,
            ctx,
            clients: 0,
        }
    }

    /// All shards of a service, which start empty.
    fn shards(
        device: &<G::P as Provider>::Device,
        options: &BedOptions,
    ) -> impl Iterator<Item = S::Shard<G::P>> {
        let common = <S::Shard<G::P> as Shard<G::P>>::Common::default();
        (0..options.partition_count).map(move |shard| {
            let options = shard_options::<S, G::P>(options, shard);
            Shard::with_options(device, &options, &common).expect("a shard")
        })
    }
}

impl<S: ShardedSystem, G: Ground> Bed for ShardsBed<S, G> {
    type P = G::P;
    type Client = S::Client<G::P>;

    fn offers() -> Offers {
        S::FACTS.offers
    }

    fn start(options: &BedOptions) -> ShardsBed<S, G> {
        ShardsBed::on(G::open(options), options)
    }

    fn connect(&mut self) -> S::Client<G::P> {
        let options = ConnectOptions {
            window: self.options.window,
            deadline: G::DEADLINE,
            ..ConnectOptions::default()
        };
        let dials = self
            .shards
            .iter()
            .map(|(_, listener)| Dial::at(listener))
            .collect();
        let dials = S::FACTS.channels.of_client(dials, self.clients);
        self.clients += 1;
        let client = S::Client::<G::P>::open(self.ctx.clone(), dials, &options);
        let ctx = self.ctx.clone();
        connected::<G::P, _>(client, &*ctx, || self.step())
    }

    fn cpu(&self) -> &<G::P as Provider>::Cpu {
        self.ctx.cpu()
    }

    fn step(&mut self) {
        self.ctx.cpu().refresh();
        for (shard, listener) in &mut self.shards {
            while let Some(stream) = listener.accept() {
                shard.adopt(stream);
            }
            let ctx = shard.context();
            ctx.cpu().refresh();
            shard.step(ctx.cpu());
        }
    }

    fn crash_and_restart(&mut self) -> bool {
        let new = Self::shards(&self.device, &self.options);
        self.shards
            .iter_mut()
            .zip(new)
            .for_each(|((shard, _), new)| *shard = new);
        true
    }

    fn pass_seconds(&mut self, seconds: u64) {
        G::pass(&self.device, Ns::from_s(seconds));
        self.step();
    }
}
