//! [`Cluster`]: a server, clients on contexts of their own, and a clock that is moved by hand.

use drover_base::{Actor, Cpu, HashSeed, Ns};
use drover_control::LocalListener;
use drover_kv::{Completion, KvClient, Op, SubmitError, Token};
use drover_kv_pilaf::client::{ClientOptions, Dial, PilafClient};
use drover_kv_pilaf::server::{Server, ServerOptions};
use drover_mem::PageWish;
use drover_one_sided::Membership;
use drover_verbs::{Context, Device, Provider};
use drover_verbs_suite::loopback::{Loopback, LoopbackDevice, LoopbackOptions};
use std::rc::Rc;

/// What became of an operation.
pub use drover_testkit::kv_conformance::Answer as Ended;

pub fn value(value: &[u8]) -> Ended {
    Ended::Value(value.to_vec())
}

pub fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Op<'a> {
    Op::put(key, value)
}

pub fn get(key: &[u8]) -> Op<'_> {
    Op::Get { key }
}

/// A small server that may grow.
pub fn small() -> ServerOptions {
    ServerOptions {
        entry_count: 64,
        memory_bytes: 1 << 20,
        pages: PageWish::Small,
        membership: Membership::alone_with(HashSeed::new(1, 2)),
        ..ServerOptions::default()
    }
}

/// A fabric whose clock goes on by `tick` at every look.
pub fn fabric(tick: Ns) -> LoopbackDevice {
    LoopbackDevice::with_options(LoopbackOptions {
        tick,
        ..LoopbackOptions::default()
    })
}

pub struct Cluster<P: Provider = Loopback> {
    pub device: P::Device,
    pub server: Server<P>,
    pub listener: LocalListener,
    pub options: ServerOptions,
}

impl Cluster<Loopback> {
    pub fn new(options: ServerOptions) -> Cluster<Loopback> {
        Cluster::on(fabric(Ns::from_us(1)), options)
    }
}

impl<P: Provider> Cluster<P> {
    pub fn on(device: P::Device, options: ServerOptions) -> Cluster<P> {
        Cluster {
            server: Server::new(&device, &options).expect("a server"),
            listener: LocalListener::new(),
            options,
            device,
        }
    }

    /// The server dies without a word; another one, empty, takes its place.
    pub fn restart(&mut self) {
        self.listener.clear();
        self.server = Server::new(&self.device, &self.options).expect("a server");
    }

    pub fn step(&mut self) {
        while let Some(stream) = self.listener.accept() {
            self.server.adopt(stream);
        }
        let ctx = self.server.context();
        ctx.cpu().refresh();
        self.server.step(ctx.cpu());
    }

    /// A client that is connected.
    pub fn client(&mut self) -> Player<P> {
        self.client_with(ClientOptions::default())
    }

    pub fn client_with(&mut self, options: ClientOptions) -> Player<P> {
        let listener = self.listener.clone();
        self.client_over(
            options,
            Dial::new("this process", move || Ok(listener.connect())),
            |cluster| cluster.step(),
        )
    }

    /// A client that dials so, with `step` to let what is between go on.
    pub fn client_over(
        &mut self,
        options: ClientOptions,
        dial: Dial,
        mut step: impl FnMut(&mut Cluster<P>),
    ) -> Player<P> {
        let ctx = Rc::new(self.device.context().expect("a context"));
        let mut player = Player {
            client: PilafClient::new(ctx.clone(), vec![dial], options),
            ended: Vec::new(),
            next: 0,
            ctx,
        };
        for _ in 0..100_000 {
            player.poll();
            if player.client.is_ready() {
                return player;
            }
            step(self);
        }
        panic!("no connection: {:?}", player.client.take_error());
    }
}

pub struct Player<P: Provider = Loopback> {
    pub client: PilafClient<P>,
    pub ended: Vec<(Token, Ended)>,
    next: Token,
    ctx: Rc<P::Context>,
}

impl<P: Provider> Player<P> {
    pub fn try_submit(&mut self, op: &Op<'_>) -> Result<Token, SubmitError> {
        self.ctx.cpu().refresh();
        self.client.submit(self.ctx.cpu(), op, self.next)?;
        self.next += 1;
        Ok(self.next - 1)
    }

    pub fn submit(&mut self, op: &Op<'_>) -> Token {
        self.try_submit(op).expect("space in the window")
    }

    pub fn poll(&mut self) -> usize {
        self.ctx.cpu().refresh();
        let ended = &mut self.ended;
        let mut sink = |completion: Completion<'_>| {
            ended.push((completion.token, completion.outcome.into()));
        };
        self.client.poll(self.ctx.cpu(), &mut sink)
    }

    /// What became of `token`, once that is known.
    pub fn wait(&mut self, cluster: &mut Cluster<P>, token: Token) -> Ended {
        for _ in 0..1_000_000 {
            if let Some(at) = self.ended.iter().position(|(ended, _)| *ended == token) {
                return self.ended.swap_remove(at).1;
            }
            self.poll();
            cluster.step();
        }
        panic!("operation {token} does not end");
    }

    pub fn run(&mut self, cluster: &mut Cluster<P>, op: &Op<'_>) -> Ended {
        let token = self.submit(op);
        self.wait(cluster, token)
    }

    /// Puts keys `keys`, each with itself for a value.
    pub fn fill(&mut self, cluster: &mut Cluster<P>, keys: std::ops::Range<u32>) {
        for key in keys {
            let key = key.to_le_bytes();
            assert_eq!(self.run(cluster, &put(&key, &key)), Ended::Stored);
        }
    }

    /// GETs keys `keys`, each of which has itself for a value.
    pub fn check(&mut self, cluster: &mut Cluster<P>, keys: std::ops::Range<u32>) {
        for key in keys {
            let key = key.to_le_bytes();
            assert_eq!(self.run(cluster, &get(&key)), value(&key));
        }
    }
}
