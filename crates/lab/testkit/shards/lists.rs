//! [`connect`]: a client that lists the shards of a service in some order.

use super::system::{Client, ClientOptions, Server, ServerOptions, SetupError};
use drover_base::{Actor, Cpu, HashSeed, Ns};
use drover_kv::KvClient;
use drover_mem::PageWish;
use drover_rt::control::{Dial, LocalListener};
use drover_verbs::{Context, Device};
use drover_verbs_suite::loopback::{Loopback, LoopbackDevice, LoopbackOptions};
use std::rc::Rc;

fn server(device: &LoopbackDevice, shard: u16, small: &ServerOptions) -> (Server<Loopback>, LocalListener) {
    let options = ServerOptions {
        shard,
        shard_count: 2,
        memory_bytes: 1 << 16,
        pages: PageWish::Small,
        hash_seed: Some(HashSeed::new(1, 2)),
        ..small.clone()
    };
    (
        Server::new(device, &options).expect("a server"),
        LocalListener::new(),
    )
}

/// Connects with two shards with tables as `small` says, through listeners in the order `order`; whether that succeeds, or why not.
pub fn connect(order: [usize; 2], small: &ServerOptions) -> Result<(), SetupError> {
    let device = LoopbackDevice::with_options(LoopbackOptions {
        tick: Ns::from_us(1),
        ..LoopbackOptions::default()
    });
    let mut servers = [server(&device, 0, small), server(&device, 1, small)];
    let ctx = Rc::new(device.context().expect("a context"));
    let dials = order.iter().map(|at| Dial::at(&servers[*at].1)).collect();
    let mut client = Client::<Loopback>::new(ctx.clone(), dials, ClientOptions::default());
    for _ in 0..10_000 {
        ctx.cpu().refresh();
        client.poll(ctx.cpu(), &mut |_| {});
        if client.is_ready() {
            return Ok(());
        }
        if let Some(error) = client.take_error() {
            return Err(error);
        }
        for (server, listener) in &mut servers {
            while let Some(stream) = listener.accept() {
                server.adopt(stream);
            }
            let ctx = server.context();
            ctx.cpu().refresh();
            server.step(ctx.cpu());
        }
    }
    panic!("neither connected nor refused");
}
