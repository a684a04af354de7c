//! [`OneShard`]: a service of one shard, with honest clients, and with others that a test plays.

use super::shards::{ShardOptions, connected, shard_options};
use crate::kv_conformance::BedOptions;
use drover_base::{Actor, Cpu};
use drover_control::{ControlStream, Dial, Frame, LocalListener};
use drover_kv::{
    Completion, ConnectOptions, KvClient, Op, Outcome, ServiceClient, Shard, ShardedSystem, System,
};
use drover_verbs::{Context, Device, Provider};
use std::rc::Rc;

/// Steps of the shard after which something counts as hanging.
const STEPS_MAX: usize = 100_000;

/// One shard of system `S` and a core for all its clients, stepped in one thread.
pub struct OneShard<S: ShardedSystem, P: Provider> {
    device: P::Device,
    /// The shard.
    pub server: S::Shard<P>,
    listener: LocalListener,
    /// The context of all clients.
    pub ctx: Rc<P::Context>,
}

impl<S: ShardedSystem, P: Provider> OneShard<S, P> {
    /// A shard without clients.
    ///
    /// # Panics
    /// If it does not open.
    pub fn new(device: P::Device) -> OneShard<S, P> {
        OneShard::with_options(device, |options| options)
    }

    /// As [`new`](OneShard::new), with options that `change` has changed; a [restarted](OneShard::restart) shard has the
    /// usual ones.
    ///
    /// # Panics
    /// If it does not open.
    pub fn with_options(
        device: P::Device,
        change: impl FnOnce(ShardOptions<S, P>) -> ShardOptions<S, P>,
    ) -> OneShard<S, P> {
        OneShard {
            server: OneShard::<S, P>::open(&device, change),
            ctx: Rc::new(device.context().expect("a context")),
            device,
            listener: LocalListener::new(),
        }
    }

    fn open(
        device: &P::Device,
        change: impl FnOnce(ShardOptions<S, P>) -> ShardOptions<S, P>,
    ) -> S::Shard<P> {
        let options = BedOptions {
            partition_count: 1,
            ..BedOptions::default()
        };
        let options = change(shard_options::<S, P>(&options, 0));
        Shard::with_options(device, &options, &Default::default()).expect("a shard")
    }

    /// The server goes without a word, and another one comes.
    pub fn restart(&mut self) {
        self.server = OneShard::<S, P>::open(&self.device, |options| options);
    }

    /// Lets the server make so many steps.
    pub fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            self.ctx.cpu().refresh();
            while let Some(stream) = self.listener.accept() {
                self.server.adopt(stream);
            }
            let ctx = self.server.context();
            ctx.cpu().refresh();
            self.server.step(ctx.cpu());
        }
    }

    /// Runs until the server has `count` clients.
    ///
    /// # Panics
    /// If it never has.
    pub fn run_until_clients(&mut self, count: usize) {
        for _ in 0..STEPS_MAX {
            if self.server.client_count() == count {
                return;
            }
            self.run(1);
        }
        panic!("{} clients instead of {count}", self.server.client_count());
    }

    /// An honest client, connected.
    pub fn client(&mut self) -> S::Client<P> {
        self.client_with(&ConnectOptions::default())
    }

    /// An honest client with these options, connected.
    pub fn client_with(&mut self, options: &ConnectOptions) -> S::Client<P> {
        let dials = vec![Dial::at(&self.listener)];
        let client = <S as System>::Client::<P>::open(self.ctx.clone(), dials, options);
        let ctx = self.ctx.clone();
        connected::<P, _>(client, &*ctx, || self.run(1))
    }

    /// The client does what it does without operations.
    pub fn poll(&mut self, client: &mut impl KvClient<P>) {
        self.run(1);
        client.poll(self.ctx.cpu(), &mut |_| {});
    }

    /// What comes of `op`: the bytes of a value, or a word.
    ///
    /// # Panics
    /// If nothing does.
    pub fn ask(&mut self, client: &mut impl KvClient<P>, op: Op<'_>) -> String {
        client
            .submit(self.ctx.cpu(), &op, 0)
            .expect("space in the window");
        let mut answer = None;
        for _ in 0..STEPS_MAX {
            client.poll(self.ctx.cpu(), &mut |done: Completion<'_>| {
                answer = Some(match done.outcome {
                    Outcome::Value(value) => format!("{value:?}"),
                    Outcome::Stored => "stored".into(),
                    other => format!("{other:?}"),
                });
            });
            if let Some(answer) = answer {
                return answer;
            }
            self.run(1);
        }
        panic!("{op:?} hangs");
    }

    /// A control channel to the server, for a client that a test plays itself.
    pub fn dial(&self) -> ControlStream {
        self.listener.connect()
    }

    /// The next frame that the server sends on such a channel.
    ///
    /// # Panics
    /// If it sends none.
    pub fn receive(&mut self, stream: &mut ControlStream) -> Frame {
        for _ in 0..STEPS_MAX {
            if let Some(frame) = stream.recv(self.ctx.cpu().now()).expect("a whole stream") {
                return frame;
            }
            self.run(1);
        }
        panic!("the server says nothing");
    }
}

/// A PUT without time to live.
pub fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Op<'a> {
    Op::put(key, value)
}
