//! [`Asker`]: a client and its load: draws operations, submits them and records their outcomes.

use crate::actors::Fabric;
use crate::load::Load;
use crate::record::{End, Entry, HOT_KEY, Record, key_text};
use crate::wish::{Demand, SeenItems, Wish};
use crate::workers::SimClient;
use drover_base::{Actor, Cpu, Ns, Progress};
use drover_kv::{Completion, KvClient, Op, OpKind, Outcome, SubmitError};
use drover_sim::{Stream, VirtualCpu};
use drover_testkit::history::Call;
use drover_testkit::kv_conformance::value_bytes;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Functions by which a client requests statistics from its server, for systems that support it.
pub struct ServerStats<C> {
    /// Sends a request for statistics.
    pub ask: fn(&mut C),
    /// Takes the reply, if it has arrived.
    pub take: fn(&mut C) -> Option<String>,
}

/// An actor that owns a client: draws operations, submits them to the client, and records how they end.
pub struct Asker<C> {
    /// Number of the client; numbers of crashed clients are not reused.
    pub id: u32,
    pub client: C,
    /// If set, the client sometimes requests statistics from its server.
    pub server_stats: Option<ServerStats<C>>,
    load: Load,
    dice: Stream,
    /// Number of operations still to be drawn.
    pub left: usize,
    /// Whether the client draws no more operations.
    pub closing: bool,
    /// Operations to submit as soon as the client accepts them, before any drawn ones.
    pub wishes: VecDeque<Wish>,
    /// Earliest time of the next drawn operation.
    next_at: Ns,
    /// Mean pause, chosen so that the operations fill the available time.
    pause: Ns,
    /// Longest key that fits into a request, bytes.
    key_bytes_max: usize,
    seen: SeenItems,
    record: Rc<RefCell<Record>>,
}

impl<C: KvClient<Fabric>> Asker<C> {
    /// Creates a client with number `id` that draws `load.ops` operations, spread over `span`, and records them in
    /// `record`.
    pub fn new(
        id: u32,
        client: C,
        load: Load,
        span: Ns,
        key_bytes_max: usize,
        seed: u64,
        record: Rc<RefCell<Record>>,
    ) -> Asker<C> {
        let pauses = (load.ops as u64 * load.pause_percent / 100).max(1);
        Asker {
            id,
            client,
            server_stats: None,
            load,
            dice: Stream::new(seed, u64::from(id), "asker"),
            left: load.ops,
            closing: false,
            wishes: VecDeque::new(),
            next_at: Ns::ZERO,
            pause: Ns(span.0 / pauses),
            key_bytes_max,
            seen: SeenItems::default(),
            record,
        }
    }

    fn draw(&self) -> Wish {
        let (load, dice) = (&self.load, &self.dice);
        if load.hot_key {
            return self.next_of_hot_key();
        }
        let key = (dice.unit().powf(load.skew) * load.keys as f64) as u64;
        let roll = dice.below(100);
        let kind = match () {
            () if roll < load.put_percent => OpKind::Put,
            () if roll < load.put_percent + load.delete_percent => OpKind::Delete,
            () => OpKind::Get,
        };
        let large = dice.below(100) < load.values.large_percent;
        let longest = if large {
            load.values.large_bytes_max
        } else {
            load.values.bytes_max
        };
        let value_len = 8 + dice.below(longest.max(9) - 7) as usize;
        let expires = dice.below(100) < load.ttl.percent;
        let ttl_s = 1 + dice.below(u64::from(load.ttl.s_max.max(1))) as u32;
        Wish {
            kind,
            key,
            value_len,
            ttl_s: if expires { ttl_s } else { 0 },
            demand: Demand::draw(load.conditions, dice, kind, self.seen.at(key)),
        }
    }

    /// The next operation of a load of a hot key: PUTs, each followed by a GET of that key. One PUT in four is of a key that
    /// the client has put before, and that may have been evicted lately.
    fn next_of_hot_key(&self) -> Wish {
        let done = (self.load.ops - self.left) as u64;
        let (number, back) = (done / 2, 8 + self.dice.below(52));
        let (kind, key) = match done % 2 {
            0 if number > back && self.dice.chance(0.25) => (OpKind::Put, number - back),
            0 => (OpKind::Put, number),
            _ => (OpKind::Get, HOT_KEY),
        };
        Wish {
            kind,
            key,
            value_len: self.load.values.bytes_max as usize,
            ttl_s: 0,
            demand: Demand::Nothing,
        }
    }

    /// Submits an operation; false: the client's window is full.
    fn ask(&mut self, cpu: &VirtualCpu, wish: Wish) -> bool {
        let mut record = self.record.borrow_mut();
        let token = record.entries.len() as u64;
        let key = key_text(wish.key, self.key_bytes_max);
        let value = match wish.kind {
            OpKind::Put => value_bytes(token, wish.value_len),
            _ => Vec::new(),
        };
        let (op, call) = match wish.kind {
            OpKind::Get if self.load.conditions.percent > 0 => (Op::GetItem { key: &key }, Call::Get(None)),
            OpKind::Get => (Op::Get { key: &key }, Call::Get(None)),
            OpKind::Delete => {
                let condition = wish.demand.condition();
                let delete = Op::Delete { key: &key, condition };
                (delete, wish.demand.delete())
            }
            OpKind::Touch => unreachable!("no wish is a touch"),
            OpKind::Put => {
                let put = Op::Put {
                    key: &key,
                    value: &value,
                    ttl_s: wish.ttl_s,
                    flags: 0,
                    condition: wish.demand.condition(),
                    keep: false,
                };
                (put, wish.demand.put(token))
            }
        };
        record.call(Entry {
            client: self.id,
            key: wish.key,
            call,
            value_len: value.len() as u32,
            ttl_s: wish.ttl_s,
            called_at: cpu.local().0,
            end: End::Pending,
        });
        match self.client.submit(cpu, &op, token) {
            Ok(()) => true,
            Err(error) => {
                record.undo();
                if error == SubmitError::TooLarge && value.len() as u64 > self.load.values.refused_above {
                    return true;
                }
                if error != SubmitError::WindowFull {
                    record
                        .nonsense
                        .push(format!("{:?} was refused: {error}", wish.kind));
                    return true;
                }
                false
            }
        }
    }

    /// Submits the operations that are due. Returns the time of its next call.
    fn submit(&mut self, cpu: &VirtualCpu) -> Ns {
        while let Some(&wish) = self.wishes.front() {
            if !self.ask(cpu, wish) {
                return Ns::MAX; // a completion will make space
            }
            self.wishes.pop_front();
        }
        while !self.closing && self.left > 0 && self.client.in_flight() < self.load.in_flight {
            if cpu.now() < self.next_at {
                return self.next_at;
            }
            if self.load.stats_percent > 0
                && self.dice.below(100) < self.load.stats_percent
                && let Some(stats) = &self.server_stats
            {
                (stats.ask)(&mut self.client);
            }
            let wish = self.draw();
            if !self.ask(cpu, wish) {
                return Ns::MAX;
            }
            self.left -= 1;
            if self.dice.below(100) < self.load.pause_percent {
                self.next_at = cpu.now() + Ns(self.dice.exponential(self.pause.0 as f64) as u64);
            }
        }
        Ns::MAX
    }

    /// Whether all operations have been submitted (drawn ones only until closing) and have ended.
    pub fn is_done(&self) -> bool {
        self.client.in_flight() == 0 && self.wishes.is_empty() && (self.closing || self.left == 0)
    }
}

impl<C: SimClient> Asker<C> {
    /// Closes the client, which ends its operations in flight. Returns the number of operations that it has not drawn.
    pub fn close(&mut self, cpu: &VirtualCpu) -> usize {
        let record = &self.record;
        self.client.close(&mut |completion: Completion<'_>| {
            let now = cpu.local().0;
            record
                .borrow_mut()
                .complete(completion.token, completion.outcome, now);
        });
        self.closing = true;
        self.left
    }
}

/// An actor that other code also has a handle to.
pub struct Shared<A>(pub Rc<RefCell<A>>);

impl<C: Cpu, A: Actor<C>> Actor<C> for Shared<A> {
    fn step(&mut self, cpu: &C) -> Progress {
        self.0.borrow_mut().step(cpu)
    }
}

impl<C: KvClient<Fabric>> Actor<VirtualCpu> for Asker<C> {
    fn step(&mut self, cpu: &VirtualCpu) -> Progress {
        let again_at = self.submit(cpu);
        let (record, seen) = (&self.record, &mut self.seen);
        let mut take = |completion: Completion<'_>| {
            let mut record = record.borrow_mut();
            record.complete(completion.token, completion.outcome, cpu.local().0);
            if let Outcome::Found { version, .. } = completion.outcome
                && let Some(entry) = record.entries.get(completion.token as usize)
            {
                seen.learn(entry, version);
            }
        };
        let done = self.client.poll(cpu, &mut take);
        if let Some(stats) = &self.server_stats
            && let Some(text) = (stats.take)(&mut self.client)
            && !text.contains("curr_connections ")
        {
            let text = format!("statistics without connections: {text}");
            self.record.borrow_mut().nonsense.push(text);
        }
        match done {
            0 => Progress::Idle {
                wake_at: self.client.next_timer().min(again_at),
            },
            _ => Progress::Busy,
        }
    }
}
