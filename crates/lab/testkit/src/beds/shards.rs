//! [`ShardsBed`]: the shards of a service and its clients, all in one thread, on any ground. Whose they are, a [`ShardSystem`] says.

use super::ground::Ground;
use crate::kv_conformance::{Bed, BedOptions};
use drover_base::{Actor, Cpu, Ns};
use drover_kv::KvClient;
use drover_one_sided::{Client, ClientOptions, Reader, Server, ShardLogic};
use drover_rt::control::{Dial, LocalListener};
use drover_verbs::{Context, Device, Provider};
use std::rc::Rc;

/// A system whose servers are one shard each, as the beds set it up.
pub trait ShardSystem: 'static {
    /// How a shard is set up.
    type ServerOptions;
    /// What a client does when it finds nothing. The default confirms that there is nothing.
    type Miss: Clone + Default;
    /// Its half of a server.
    type ShardLogic<P: Provider>: ShardLogic<P, Options = Self::ServerOptions> + 'static;
    /// Its half of a client.
    type Reader<P: Provider>: Reader<P, Miss = Self::Miss> + 'static;

    /// Shard `shard` of a service that a rule wants.
    fn server_options(options: &BedOptions, shard: usize) -> Self::ServerOptions;
}

/// The server of a shard.
pub type ShardServer<S, P> = Server<P, <S as ShardSystem>::ShardLogic<P>>;
/// A client of all shards.
pub type ShardClient<S, P> = Client<P, <S as ShardSystem>::Reader<P>>;

/// Shards on a ground.
pub struct ShardsBed<S: ShardSystem, G: Ground> {
    device: <G::P as Provider>::Device,
    options: BedOptions,
    shards: Vec<(ShardServer<S, G::P>, LocalListener)>,
    ctx: Rc<<G::P as Provider>::Context>,
}

/// Steps the rest until `client` has a session with every shard.
pub(super) fn connected<P: Provider, R: Reader<P>>(
    mut client: Client<P, R>,
    ctx: &P::Context,
    mut step: impl FnMut(),
) -> Client<P, R> {
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

impl<S: ShardSystem, G: Ground> ShardsBed<S, G> {
    /// On `device`, with its faults.
    pub fn on(device: <G::P as Provider>::Device, options: &BedOptions) -> ShardsBed<S, G> {
        let shard = |shard| (Self::server(&device, options, shard), LocalListener::new());
        let shards = (0..options.partition_count).map(shard).collect();
        let ctx = Rc::new(G::for_clients(&device, options).context().expect("a context"));
        ShardsBed {
            device,
            options: options.clone(),
            shards,
            ctx,
        }
    }

    fn server(
        device: &<G::P as Provider>::Device,
        options: &BedOptions,
        shard: usize,
    ) -> ShardServer<S, G::P> {
        Server::new(device, &S::server_options(options, shard)).expect("a server")
    }
}

impl<S: ShardSystem, G: Ground> Bed for ShardsBed<S, G> {
    type P = G::P;
    type Client = ShardClient<S, G::P>;

    fn start(options: &BedOptions) -> ShardsBed<S, G> {
        ShardsBed::on(G::open(options), options)
    }

    fn connect(&mut self) -> ShardClient<S, G::P> {
        let options = ClientOptions {
            window: self.options.window,
            deadline: G::DEADLINE,
            ..ClientOptions::default()
        };
        let dials = self
            .shards
            .iter()
            .map(|(_, listener)| Dial::at(listener))
            .collect();
        let client = Client::new(self.ctx.clone(), dials, options);
        let ctx = self.ctx.clone();
        connected(client, &*ctx, || self.step())
    }

    fn cpu(&self) -> &<G::P as Provider>::Cpu {
        self.ctx.cpu()
    }

    fn step(&mut self) {
        self.ctx.cpu().refresh();
        for (server, listener) in &mut self.shards {
            while let Some(stream) = listener.accept() {
                server.adopt(stream);
            }
            let ctx = server.context();
            ctx.cpu().refresh();
            server.step(ctx.cpu());
        }
    }

    fn crash_and_restart(&mut self) -> bool {
        for (shard, (server, _)) in self.shards.iter_mut().enumerate() {
            *server = Self::server(&self.device, &self.options, shard);
        }
        true
    }

    fn pass_seconds(&mut self, seconds: u64) {
        G::pass(&self.device, Ns::from_s(seconds));
        self.step();
    }
}
