//! [`ShardsBed`]: the shards of a service and its clients, all in one thread, on any provider. Whose they are, the module
//! `system` of the tests that include this file says.

use crate::ground::Ground;
use crate::system::{Client, ClientOptions, Server, server_options};
use drover_base::{Actor, Cpu, Ns};
use drover_kv::KvClient;
use drover_rt::control::{Dial, LocalListener};
use drover_testkit::kv_conformance::{Bed, BedOptions};
use drover_verbs::{Context, Device, Provider};
use std::rc::Rc;

pub struct ShardsBed<P: Ground> {
    device: P::Device,
    options: BedOptions,
    shards: Vec<(Server<P>, LocalListener)>,
    ctx: Rc<P::Context>,
}

/// Steps the rest until `client` has a session with every shard.
pub fn connected<P: Provider>(mut client: Client<P>, ctx: &P::Context, mut step: impl FnMut()) -> Client<P> {
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

impl<P: Ground> ShardsBed<P> {
    /// On `device`, with its faults.
    pub fn on(device: P::Device, options: &BedOptions) -> ShardsBed<P> {
        let shard = |shard| (Self::server(&device, options, shard), LocalListener::new());
        let shards = (0..options.partition_count).map(shard).collect();
        let ctx = Rc::new(P::for_clients(&device, options).context().expect("a context"));
        ShardsBed {
            device,
            options: options.clone(),
            shards,
            ctx,
        }
    }

    fn server(device: &P::Device, options: &BedOptions, shard: usize) -> Server<P> {
        Server::new(device, &server_options(options, shard)).expect("a server")
    }
}

impl<P: Ground> Bed for ShardsBed<P> {
    type P = P;
    type Client = Client<P>;

    fn start(options: &BedOptions) -> ShardsBed<P> {
        ShardsBed::on(P::open(options), options)
    }

    fn connect(&mut self) -> Client<P> {
        let options = ClientOptions {
            window: self.options.window,
            deadline: P::DEADLINE,
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

    fn cpu(&self) -> &P::Cpu {
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
        P::pass(&self.device, Ns::from_s(seconds));
        self.step();
    }
}
