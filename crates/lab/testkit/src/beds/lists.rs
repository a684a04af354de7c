//! [`connect_in_order`]: connects a client that lists the shards of a service in a given order.

use super::shards::{ShardOptions, shard_options};
use crate::kv_conformance::BedOptions;
use drover_base::{Actor, Cpu, Ns};
use drover_control::{Dial, LocalListener};
use drover_kv::{ConnectOptions, KvClient, ServiceClient, SetupError, Shard, ShardedSystem};
use drover_verbs::{Context, Device};
use drover_verbs_suite::loopback::{Loopback, LoopbackDevice, LoopbackOptions};
use std::rc::Rc;

/// Starts shards 0 and 1 of a service over loopback, each with options that `small` may change, and connects a client
/// whose list of shards is `order`, such as `[1, 0]`.
///
/// # Errors
/// Why the client could not connect.
///
/// # Panics
/// If a shard does not open, or the client neither connects nor fails.
pub fn connect_in_order<S: ShardedSystem>(
    order: [usize; 2],
    small: impl Fn(ShardOptions<S, Loopback>) -> ShardOptions<S, Loopback>,
) -> Result<(), SetupError> {
    let options = BedOptions {
        memory_bytes: 1 << 16,
        ..BedOptions::default()
    };
    let device = LoopbackDevice::with_options(LoopbackOptions {
        tick: Ns::from_us(1),
        ..LoopbackOptions::default()
    });
    let common = <S::Shard<Loopback> as Shard<Loopback>>::Common::default();
    let mut servers = [0, 1].map(|shard| {
        let options = small(shard_options::<S, Loopback>(&options, shard));
        let server = <S::Shard<Loopback> as Shard<Loopback>>::with_options(&device, &options, &common);
        (server.expect("a server"), LocalListener::new())
    });
    let ctx = Rc::new(device.context().expect("a context"));
    let dials = order.iter().map(|at| Dial::at(&servers[*at].1)).collect();
    let mut client = S::Client::<Loopback>::open(ctx.clone(), dials, &ConnectOptions::default());
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
