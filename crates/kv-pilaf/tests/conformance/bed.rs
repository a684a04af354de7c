//! [`ShardsBed`]: the shards of a Pilaf service and its clients, all in one thread, on any provider.

use crate::ground::Ground;
use drover_base::{Actor, Cpu, HashSeed};
use drover_kv::KvClient;
use drover_kv_pilaf::client::{ClientOptions, Dial, PilafClient};
use drover_kv_pilaf::server::{Server, ServerOptions};
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
        // As few as may be: whatever the suite does, it does while tables grow.
        entry_count: 64,
        memory_bytes: options.memory_bytes,
        item_bytes_max: options.item_bytes_max,
        evicts: !options.store_mode,
        pages: PageWish::Small,
        hash_seed: Some(HashSeed::new(options.seed, 7)),
        ..ServerOptions::default()
    }
}

impl<P: Ground> ShardsBed<P> {
    fn server(device: &P::Device, options: &BedOptions, shard: usize) -> Server<P> {
        Server::new(device, &server_options(options, shard)).expect("a server")
    }
}

impl<P: Ground> Bed for ShardsBed<P> {
    type P = P;
    type Client = PilafClient<P>;

    fn start(options: &BedOptions) -> ShardsBed<P> {
        let device = P::open(options);
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

    fn connect(&mut self) -> PilafClient<P> {
        let options = ClientOptions {
            window: self.options.window,
            deadline: P::DEADLINE,
            ..ClientOptions::default()
        };
        let dials = self.shards.iter().map(|(_, desk)| Dial::at(desk)).collect();
        let mut client = PilafClient::new(self.ctx.clone(), dials, options);
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
