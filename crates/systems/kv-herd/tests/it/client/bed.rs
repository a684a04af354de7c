//! One client and one fake server in one thread, in virtual time.

use crate::client::fake::{FakeServer, TICK, refresh};
use drover_base::Ns;
use drover_kv::{KvClient, Op, Outcome, Refusal, SubmitError};
use drover_kv_herd::client::{ClientOptions, HerdClient, Keyed, RequestFormat};
use drover_kv_herd::layout::SlotMap;
use drover_verbs::Context;
use drover_verbs_suite::loopback::{Loopback, LoopbackDevice, LoopbackOptions};
use std::collections::BTreeMap;
use std::rc::Rc;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ended {
    Value(Vec<u8>),
    Stored,
    Deleted,
    NotFound,
    Indeterminate,
    Refused(Refusal),
}

pub struct Bed<F: RequestFormat = Keyed> {
    pub server: FakeServer,
    pub client: HerdClient<Loopback, F>,
    pub ended: BTreeMap<u64, Ended>,
    /// Tokens in the order of their completion.
    pub order: Vec<u64>,
    next_token: u64,
}

pub fn get(key: &[u8]) -> Op<'_> {
    Op::Get { key }
}

pub fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Op<'a> {
    Op::put(key, value)
}

pub fn delete(key: &[u8]) -> Op<'_> {
    Op::delete(key)
}

/// A fabric that promises no more than a network does: the server may act as if requests were lost or reordered.
pub fn lossy() -> LoopbackOptions {
    let mut fabric = LoopbackOptions::default();
    fabric.caps.writes.lossless = false;
    fabric
}

impl Bed {
    pub fn new() -> Bed {
        Bed::with(4, 1, ClientOptions::default(), |_| {})
    }

    pub fn with(
        window: usize,
        partition_count: usize,
        options: ClientOptions,
        prepare: impl FnOnce(&mut FakeServer),
    ) -> Bed {
        let mut bed = Bed::raw(window, partition_count, options, lossy(), prepare);
        bed.until(|bed| bed.client.is_ready());
        bed
    }

    /// Not connected yet.
    pub fn raw(
        window: usize,
        partition_count: usize,
        options: ClientOptions,
        fabric: LoopbackOptions,
        prepare: impl FnOnce(&mut FakeServer),
    ) -> Bed {
        Bed::of_format(window, partition_count, options, fabric, Keyed, prepare)
    }
}

impl<F: RequestFormat> Bed<F> {
    /// The same, with a client of any format.
    pub fn of_format(
        window: usize,
        partition_count: usize,
        options: ClientOptions,
        fabric: LoopbackOptions,
        format: F,
        prepare: impl FnOnce(&mut FakeServer),
    ) -> Bed<F> {
        let device = LoopbackDevice::with_options(LoopbackOptions { tick: TICK, ..fabric });
        let map = SlotMap {
            slot_bytes: options.slot_bytes,
            window,
            partition_count,
        };
        let mut server = FakeServer::new(&device, map);
        prepare(&mut server);
        let ctx = Rc::new(drover_verbs::Device::context(&device).expect("context"));
        let client = HerdClient::with_format(ctx, server.door().dial(), options, format);
        Bed {
            server,
            client,
            ended: BTreeMap::new(),
            order: Vec::new(),
            next_token: 1,
        }
    }

    pub fn try_submit(&mut self, op: Op<'_>) -> Result<u64, SubmitError> {
        let ctx = self.client.context().clone();
        self.client.submit(ctx.cpu(), &op, self.next_token)?;
        self.next_token += 1;
        Ok(self.next_token - 1)
    }

    pub fn submit(&mut self, op: Op<'_>) -> u64 {
        self.try_submit(op).expect("taken")
    }

    /// One poll of the client.
    pub fn poll(&mut self) {
        let ctx = self.client.context().clone();
        refresh(&ctx);
        let (ended, order) = (&mut self.ended, &mut self.order);
        self.client.poll(ctx.cpu(), &mut |completion| {
            let result = match completion.outcome {
                Outcome::Value(value) => Ended::Value(value.to_vec()),
                Outcome::Stored => Ended::Stored,
                Outcome::Deleted => Ended::Deleted,
                Outcome::NotFound => Ended::NotFound,
                Outcome::Refused(refusal) => Ended::Refused(refusal),
                _ => Ended::Indeterminate,
            };
            let before = ended.insert(completion.token, result);
            assert_eq!(before, None, "operation {} completed twice", completion.token);
            order.push(completion.token);
        });
    }

    pub fn step(&mut self) {
        self.poll();
        refresh(&self.server.ctx);
        self.server.step();
    }

    /// Steps until `done`; panics after a minute of virtual time.
    pub fn until(&mut self, mut done: impl FnMut(&mut Bed<F>) -> bool) {
        let start = refresh(&self.server.ctx);
        while !done(self) {
            self.step();
            let now = refresh(&self.server.ctx);
            assert!(
                now.since(start) < Ns::from_s(60),
                "nothing more happens: {:?}",
                self.client.stats()
            );
        }
    }

    /// Everything submitted is complete.
    pub fn settle(&mut self) {
        self.until(|bed| bed.client.in_flight() == 0);
        assert_eq!(self.ended.len() as u64, self.next_token - 1);
    }

    /// Lets `time` pass.
    pub fn pass(&mut self, time: Ns) {
        let start = refresh(&self.server.ctx);
        self.until(|bed| refresh(&bed.server.ctx).since(start) >= time);
    }

    /// Submits and waits for the end.
    pub fn run(&mut self, op: Op<'_>) -> Ended {
        let token = self.submit(op);
        self.until(|bed| bed.ended.contains_key(&token));
        self.ended[&token].clone()
    }
}
