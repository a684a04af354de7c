//! A server of one worker and a client on shared memory, all in one thread, which alone decides who runs when.

use drover_base::{Actor, Cpu, Progress};
use drover_control::LocalListener;
use drover_kv::KvClient;
use drover_kv_herd::client::{ClientOptions, Dial, HerdClient};
use drover_kv_herd::server::{Acceptor, Server, ServerOptions, Standard, Variant, Worker};
use drover_store::PartitionOptions;
use drover_verbs::{Context, Device};
use drover_verbs_shm::{Shm, ShmContext, ShmDevice};
use std::rc::Rc;

/// Steps that a handshake may take: many times what it takes.
const HANDSHAKE_STEPS_MAX: u32 = 1_000_000;

pub struct Pair<V: Variant = Standard> {
    pub acceptor: Acceptor<Shm, V>,
    pub worker: Worker<Shm, V>,
    pub client: HerdClient<Shm>,
    /// The client's view of the fabric.
    pub ctx: Rc<ShmContext>,
}

impl Pair {
    /// Connected. The worker sweeps once per step.
    pub fn new(partition: PartitionOptions, wishes: ClientOptions) -> Pair {
        let options = ServerOptions {
            partition,
            ..ServerOptions::default()
        };
        Pair::of(options, wishes, Standard)
    }
}

impl<V: Variant> Pair<V> {
    /// The same, of any server.
    pub fn of(options: ServerOptions, wishes: ClientOptions, variant: V) -> Pair<V> {
        let device = ShmDevice::default();
        let options = ServerOptions {
            idle_sweeps: 1,
            ..options
        };
        let (acceptor, mut workers) =
            Server::<Shm>::in_pieces_as(&device, &options, variant).expect("a server");
        let ctx = Rc::new(device.context().expect("a context"));
        let listener = LocalListener::new();
        let mut pair = Pair {
            acceptor,
            worker: workers.remove(0),
            client: HerdClient::new(ctx.clone(), Dial::at(&listener), wishes),
            ctx,
        };
        pair.client.poll(pair.ctx.cpu(), &mut |_| {});
        pair.acceptor
            .adopt(listener.accept().expect("the first poll dials"));
        for _ in 0..HANDSHAKE_STEPS_MAX {
            pair.ctx.cpu().refresh();
            pair.client.poll(pair.ctx.cpu(), &mut |_| {});
            if pair.client.is_ready() {
                return pair;
            }
            let control = pair.acceptor.context();
            control.cpu().refresh();
            pair.acceptor.step(control.cpu());
            pair.step_worker();
        }
        panic!("no session: {:?}", pair.client.take_error());
    }

    pub fn step_worker(&mut self) -> Progress {
        let ctx = self.worker.context();
        ctx.cpu().refresh();
        self.worker.step(ctx.cpu())
    }
}
