//! [`SimBed`]: the shards of a service on virtual cores of one machine, clients on a core of another, and a modelled network
//! between them.

use super::clusters::{Cluster, Simulated};
use super::shards::{ShardClient, ShardServer, ShardSystem, connected};
use crate::kv_conformance::{Bed, BedOptions, Faults};
use drover_base::{Actor, Progress};
use drover_one_sided::{Client, ClientOptions};
use drover_rt::control::{Dial, LocalListener};
use drover_sim::VirtualCpu;
use drover_verbs::{Context, Provider};

/// A shard that accepts the clients that connect.
struct Open<S: ShardSystem, P: Provider> {
    server: ShardServer<S, P>,
    listener: LocalListener,
}

impl<S: ShardSystem, P: Provider<Cpu = VirtualCpu>> Actor<VirtualCpu> for Open<S, P> {
    fn step(&mut self, cpu: &VirtualCpu) -> Progress {
        while let Some(stream) = self.listener.accept() {
            self.server.adopt(stream);
        }
        self.server.step(cpu)
    }
}

/// Shards in a simulated cluster.
pub struct SimBed<S: ShardSystem, P: Simulated> {
    /// The cluster.
    pub cluster: Cluster<P>,
    shards: Vec<S::ServerOptions>,
    listeners: Vec<LocalListener>,
}

impl<S: ShardSystem, P: Simulated> SimBed<S, P> {
    /// Shards that are set up as `shards` say.
    pub fn with_shards(options: &BedOptions, shards: Vec<S::ServerOptions>) -> SimBed<S, P> {
        let bed = SimBed {
            cluster: Cluster::new(options),
            listeners: shards.iter().map(|_| LocalListener::new()).collect(),
            shards,
        };
        bed.start_servers();
        bed
    }

    /// One shard that never forgets a key, set up as `shard` says, on a network that tears what it carries if `is_torn`.
    pub fn of_one(
        seed: u64,
        is_torn: bool,
        shard: impl FnOnce(S::ServerOptions) -> S::ServerOptions,
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
        SimBed::with_shards(&options, vec![shard(S::server_options(&options, 0))])
    }

    fn start_servers(&self) {
        let device = self.cluster.server_device();
        for (options, listener) in self.shards.iter().zip(&self.listeners) {
            let server = ShardServer::<S, P>::new(&device, options).expect("a server");
            let (ctx, listener) = (server.context(), listener.clone());
            let open = Box::new(Open::<S, P> { server, listener });
            self.cluster.world.spawn_on(ctx.cpu(), open);
        }
    }

    /// A client that does `miss` when it finds nothing.
    pub fn client(&mut self, miss: S::Miss) -> ShardClient<S, P> {
        let options = ClientOptions {
            window: self.cluster.options.window,
            miss,
            ..ClientOptions::default()
        };
        let ctx = self.cluster.ctx.clone();
        let dials = self.listeners.iter().map(Dial::at).collect();
        connected(Client::new(ctx.clone(), dials, options), &*ctx, || self.step())
    }
}

impl<S: ShardSystem, P: Simulated> Bed for SimBed<S, P> {
    type P = P;
    type Client = ShardClient<S, P>;

    fn start(options: &BedOptions) -> SimBed<S, P> {
        let shards = (0..options.partition_count).map(|shard| S::server_options(options, shard));
        SimBed::with_shards(options, shards.collect())
    }

    fn connect(&mut self) -> ShardClient<S, P> {
        self.client(S::Miss::default())
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
