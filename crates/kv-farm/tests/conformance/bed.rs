//! [`ShardsBed`]: the shards of a FaRM-KV service and its clients, all in one thread, on any provider.

use crate::ground::Ground;
use drover_base::{Actor, Cpu, HashSeed};
use drover_kv::KvClient;
use drover_kv_farm::client::{ClientOptions, Dial, FarmClient};
use drover_kv_farm::server::{Server, ServerOptions};
use drover_mem::PageWish;
use drover_rt::control::Desk;
use drover_testkit::kv_conformance::{Bed, BedOptions};
use drover_verbs::{Context, Device};
use std::rc::Rc;

pub struct ShardsBed<P: Ground> {
    device: P::Device,
    options: BedOptions,
    shards: Vec<(Server<P>, Desk)>,
    ctx: Rc<P::Context>,
}

pub fn server_options(options: &BedOptions, shard: usize) -> ServerOptions {
    ServerOptions {
        shard: shard as u16,
        shard_count: options.partition_count as u16,
        home_count: (options.memory_bytes / 64).next_power_of_two(),
        block_count: options.memory_bytes / 1024,
        memory_bytes: options.memory_bytes,
        item_bytes_max: options.item_bytes_max,
        evicts: !options.store_mode,
        pages: PageWish::Small,
        hash_seed: Some(HashSeed::new(options.seed, 7)),
        ..ServerOptions::default()
    }
}

impl<P: Ground> ShardsBed<P> {
    /// On `device`, with its faults.
    pub fn on(device: P::Device, options: &BedOptions) -> ShardsBed<P> {
        let shard = |shard| (Self::server(&device, options, shard), Desk::new());
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
    type Client = FarmClient<P>;

    fn start(options: &BedOptions) -> ShardsBed<P> {
        ShardsBed::on(P::open(options), options)
    }
    fn connect(&mut self) -> FarmClient<P> {
        let options = ClientOptions {
            window: self.options.window,
            deadline: P::DEADLINE,
            ..ClientOptions::default()
        };
        let dials = self.shards.iter().map(|(_, desk)| Dial::at(desk)).collect();
        let mut client = FarmClient::new(self.ctx.clone(), dials, options);
        for _ in 0..1_000_000 {
            self.ctx.cpu().refresh();
            client.poll(self.ctx.cpu(), &mut |_| {});
            if client.is_ready() {
                return client;
            }
            self.step();
        }
        panic!("no connection: {:?}", client.take_error());
    }

    fn cpu(&self) -> &P::Cpu {
        self.ctx.cpu()
    }

    fn step(&mut self) {
        self.ctx.cpu().refresh();
        for (server, desk) in &mut self.shards {
            while let Some(stream) = desk.accept() {
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
        P::pass(&self.device, drover_base::Ns::from_s(seconds));
        self.step();
    }
}
