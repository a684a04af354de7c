//! A client that lists the shards of a service in another order is refused. In Pilaf's released code it looks for keys in
//! the wrong place, and finds none.

use drover_base::{Actor, Cpu, HashSeed, Ns};
use drover_kv::KvClient;
use drover_kv_pilaf::client::{ClientOptions, Dial, PilafClient, SetupError};
use drover_kv_pilaf::control::WRONG_SHARD;
use drover_kv_pilaf::server::{Server, ServerOptions};
use drover_mem::PageWish;
use drover_rt::control::{ControlError, Desk};
use drover_verbs::loopback::{Loopback, LoopbackDevice, LoopbackOptions};
use drover_verbs::{Context, Device};
use std::rc::Rc;

fn server(device: &LoopbackDevice, shard: u16) -> (Server<Loopback>, Desk) {
    let options = ServerOptions {
        shard,
        shard_count: 2,
        entry_count: 64,
        memory_bytes: 1 << 16,
        pages: PageWish::Small,
        hash_seed: Some(HashSeed::new(1, 2)),
        ..ServerOptions::default()
    };
    (Server::new(device, &options).expect("a server"), Desk::new())
}

/// Connects through desks in the order `order`; whether that succeeds, or why not.
fn connect(order: [usize; 2]) -> Result<(), SetupError> {
    let device = LoopbackDevice::with_options(LoopbackOptions {
        tick: Ns::from_us(1),
        ..LoopbackOptions::default()
    });
    let mut servers = [server(&device, 0), server(&device, 1)];
    let ctx = Rc::new(device.context().expect("a context"));
    let dials = order.iter().map(|at| Dial::at(&servers[*at].1)).collect();
    let mut client = PilafClient::<Loopback>::new(ctx.clone(), dials, ClientOptions::default());
    for _ in 0..10_000 {
        ctx.cpu().refresh();
        client.poll(ctx.cpu(), &mut |_| {});
        if client.is_ready() {
            return Ok(());
        }
        if let Some(error) = client.take_error() {
            return Err(error);
        }
        for (server, desk) in &mut servers {
            while let Some(stream) = desk.accept() {
                server.adopt(stream);
            }
            let ctx = server.context();
            ctx.cpu().refresh();
            server.step(ctx.cpu());
        }
    }
    panic!("neither connected nor refused");
}

#[test]
fn pilaf_a_client_with_another_list_of_shards_is_refused() {
    assert!(connect([0, 1]).is_ok());
    match connect([1, 0]) {
        Err(SetupError::Control(ControlError::Refused { code, .. })) => assert_eq!(code, WRONG_SHARD),
        other => panic!("{other:?}"),
    }
}
