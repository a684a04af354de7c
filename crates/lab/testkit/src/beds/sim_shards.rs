//! [`SimBed`]: the shards of a service on virtual cores of one machine and clients on a core of another, with a
//! modelled network between them.

use super::clusters::{Cluster, Simulated};
use super::shards::{ShardOptions, connected, shard_options};
use crate::kv_conformance::{Bed, BedOptions, Faults};
use drover_control::{Dial, LocalListener};
use drover_kv::{Accepting, ConnectOptions, Offers, ServiceClient, Shard, ShardedSystem};
use drover_sim::VirtualCpu;
use drover_verbs::Context;
use std::rc::Rc;

/// A [`Bed`] (running system for tests) that owns a simulated [`Cluster`] in which the shards of a service of system
/// `S` run. It owns no clients: [`connect`](Bed::connect) returns them.
pub struct SimBed<S: ShardedSystem, P: Simulated> {
    /// The machines: the shards run on machine 0, all clients on one core of machine 1.
    pub cluster: Cluster<P>,
    shards: Vec<ShardOptions<S, P>>,
    listeners: Vec<LocalListener>,
    /// Clients connected so far.
    clients: usize,
}

impl<S: ShardedSystem, P: Simulated> SimBed<S, P> {
    /// Starts a cluster for `options` with one shard, on a core of its own, per entry of `shards`.
    ///
    /// # Panics
    /// If a shard does not open.
    pub fn with_shards(options: &BedOptions, shards: Vec<ShardOptions<S, P>>) -> SimBed<S, P> {
        let bed = SimBed {
            cluster: Cluster::new(options),
            listeners: shards.iter().map(|_| LocalListener::new()).collect(),
            shards,
            clients: 0,
        };
        bed.start_servers();
        bed
    }

    /// Starts one shard that never evicts, with options that `shard` may change. If `is_torn`, the fabric tears
    /// messages.
    ///
    /// # Panics
    /// If the shard does not open.
    pub fn of_one(
        seed: u64,
        is_torn: bool,
        shard: impl FnOnce(ShardOptions<S, P>) -> ShardOptions<S, P>,
    ) -> SimBed<S, P> {
        let options = BedOptions {
            seed,
            partition_count: 1,
            store_mode: true,
            faults: Faults {
                tear: f64::from(u8::from(is_torn)),
                ..Faults::default()
            },
            ..BedOptions::default()
        };
        SimBed::with_shards(&options, vec![shard(shard_options::<S, P>(&options, 0))])
    }

    fn start_servers(&self) {
        let device = self.cluster.server_device();
        let common = <S::Shard<P> as Shard<P>>::Common::default();
        for (options, listener) in self.shards.iter().zip(&self.listeners) {
            let shard = <S::Shard<P> as Shard<P>>::with_options(&device, options, &common).expect("a shard");
            let ctx = shard.context();
            let accepting = Accepting::new(shard, Shard::adopt, listener);
            self.cluster.world.spawn_on(ctx.cpu(), Box::new(accepting));
        }
    }

    /// Connects a client that deliberately makes `mistake`; tests use it to prove that they would find such a mistake.
    ///
    /// # Panics
    /// If it does not connect.
    pub fn client(&mut self, mistake: S::Mistake) -> S::Client<P> {
        self.connect_by(|ctx, dials, options| S::open_mistaken::<P>(ctx, dials, options, mistake))
    }

    fn connect_by(
        &mut self,
        open: impl FnOnce(Rc<P::Context>, Vec<Dial>, &ConnectOptions) -> S::Client<P>,
    ) -> S::Client<P> {
        let options = ConnectOptions {
            window: self.cluster.options.window,
            ..ConnectOptions::default()
        };
        let ctx = self.cluster.ctx.clone();
        let dials = self.listeners.iter().map(Dial::at).collect();
        let dials = S::FACTS.channels.of_client(dials, self.clients);
        self.clients += 1;
        let client = open(ctx.clone(), dials, &options);
        connected::<P, _>(client, &*ctx, || self.step())
    }
}

impl<S: ShardedSystem, P: Simulated> Bed for SimBed<S, P> {
    type P = P;
    type Client = S::Client<P>;

    fn offers() -> Offers {
        S::FACTS.offers
    }

    fn start(options: &BedOptions) -> SimBed<S, P> {
        let shards = (0..options.partition_count).map(|shard| shard_options::<S, P>(options, shard));
        SimBed::with_shards(options, shards.collect())
    }

    fn connect(&mut self) -> S::Client<P> {
        self.connect_by(S::Client::<P>::open)
    }

    fn cpu(&self) -> &VirtualCpu {
        self.cluster.ctx.cpu()
    }

    fn step(&mut self) {
        self.cluster.step();
    }

    fn crash_and_restart(&mut self) -> bool {
        let listeners = &self.listeners;
        self.cluster
            .crash(|| listeners.iter().for_each(LocalListener::clear));
        self.start_servers();
        true
    }

    fn pass_seconds(&mut self, seconds: u64) {
        self.cluster.pass_seconds(seconds);
    }
}
