//! [`Model`]: the workers, and what a round of each does and costs.
//!
//! ```text
//! a round   rings of the other workers: replies to own connections, requests for own keys
//!           connections with requests: read, then per request execute, read in place, or send
//!           at its end: replies are written, messages become visible, sleepers are woken
//! ```
//! Everything that a round does is visible at its end. A worker without work polls for a while, then sleeps.

use super::Sockets;
use crate::micro::Outcome;
use drover_base::Ns;
use drover_sim::{Event, Ps, Queue, Stream};
use std::collections::VecDeque;

/// A connection's requests arrive.
pub(super) const ARRIVE: u16 = Event::FIRST_KIND;
/// A worker makes a round.
const ROUND: u16 = Event::FIRST_KIND + 1;
/// Messages of a worker become visible.
const VISIBLE: u16 = Event::FIRST_KIND + 2;

/// Instructions of work on several requests at once: for the first, and for each.
#[derive(Clone, Copy)]
struct Price {
    once: f64,
    each: f64,
}

/// From the counts for one request and for 32 at once, of `docs/instructions.toml`.
const fn price(one: f64, of_32: f64) -> Price {
    Price {
        once: one - of_32,
        each: of_32,
    }
}

/// *(all measured from code: the meters `memcached ask`, `serve` and `fill`)*
const ASK_OWN: Price = price(2322.0, 2014.0);
const ASK_IN_PLACE: Price = price(2333.0, 2055.0);
const ASK_FORWARD: Price = price(2544.0, 2168.0);
const ASK_SET: Price = price(2478.0, 2213.0);
const ASK_SET_FORWARD: Price = price(2248.0, 1952.0);
const SERVE_GET: Price = price(1903.0, 1622.0);
const SERVE_SET: Price = price(2941.0, 2684.0);
const FILL_GET: Price = price(1314.0, 509.0);
const FILL_SET: Price = price(1182.0, 467.0);
/// An empty ring, of which a worker has two for each other worker *(our estimate: a load, a comparison and the loop)*.
const RING: f64 = 6.0;

/// System calls and a sleeper's way back to work, nanoseconds *(measured by us: Unix sockets of 32-byte messages, Linux 6.18
/// in a virtual machine; a poll of the sockets: `docs/decisions/0012-epoll.md`)*.
const READ_NS: f64 = 630.0;
const WRITE_NS: f64 = 600.0;
const POLL_NS: f64 = 250.0;
/// From a wake-up to the sleeper's first instruction: half a ping-pong of two threads by a socket takes 3.7 us, of which the
/// calls are a third.
const WAKE_NS: f64 = 2500.0;
/// A cache line that another core has written, nanoseconds *(measured by us: half of the round trip of `bench --bound`)*.
const LINE_NS: f64 = 190.0;
/// Time that an idle worker polls before it sleeps: `--spin-us`.
const SPIN: Ns = Ns::from_us(50);
/// Time from a reply to the client's next requests *(our choice: a network and a client)*.
const CLIENT_NS: f64 = 20_000.0;
/// Messages that a round takes from the rings of one worker, and connections that it serves.
const MESSAGES: usize = 128;
const CONNECTIONS: usize = 32;

/// A message between workers.
#[derive(Clone, Copy)]
struct Message {
    connection: u32,
    from: u16,
    to: u16,
    is_set: bool,
    is_reply: bool,
}

#[derive(Default)]
struct Worker {
    /// Connections whose requests have arrived.
    ready: VecDeque<u32>,
    /// Messages by the worker that they are from.
    mail: Vec<VecDeque<Message>>,
    /// Sent in this round, visible at its end.
    sent: Vec<Message>,
    /// Connections whose replies are written in this round.
    finished: Vec<u32>,
    /// A round is due or under way until then.
    busy_until: Option<Ps>,
    idle_since: Ps,
    busy: Ps,
}

#[derive(Clone, Copy, Default)]
struct Connection {
    /// Replies that have to come from other workers.
    missing: u32,
    asked_at: Ps,
}

pub(super) struct Model {
    plan: Sockets,
    /// Instructions per nanosecond.
    pace: f64,
    stream: Stream,
    workers: Vec<Worker>,
    connections: Vec<Connection>,
    done: u64,
    latency: Ps,
    batches: u64,
    wakes: u64,
    span_start: Ps,
}

impl Model {
    pub(super) fn new(plan: Sockets, pace: f64, seed: u64) -> Model {
        let worker = || Worker {
            mail: (0..plan.workers).map(|_| VecDeque::new()).collect(),
            ..Worker::default()
        };
        Model {
            plan,
            pace,
            stream: Stream::new(seed, 0, "sockets"),
            workers: (0..plan.workers).map(|_| worker()).collect(),
            connections: vec![Connection::default(); plan.connections],
            done: 0,
            latency: Ps::ZERO,
            batches: 0,
            wakes: 0,
            span_start: Ps::ZERO,
        }
    }

    pub(super) fn first_arrival(&self) -> Ps {
        Ps::from_ns(self.stream.unit() * CLIENT_NS)
    }

    /// From now on everything counts.
    pub(super) fn begin_span(&mut self, now: Ps) {
        self.span_start = now;
        (self.done, self.batches, self.wakes, self.latency) = (0, 0, 0, Ps::ZERO);
        for worker in &mut self.workers {
            // What a round that is under way has left counts.
            worker.busy = worker.busy_until.unwrap_or(now).since(now);
        }
    }

    pub(super) fn outcome(&self, span: Ns) -> Outcome {
        let span_ns = Ps::from(span).as_ns();
        let share = |worker: &Worker| (worker.busy.as_ns() / span_ns).min(1.0);
        let busiest = self.workers.iter().map(share).fold(0.0, f64::max);
        let name = match busiest > 0.85 {
            true => "cpu",
            false => "latency (clients)",
        };
        Outcome {
            mops: self.done as f64 / span_ns * 1e3,
            latency_us: self.latency.as_ns() / self.batches.max(1) as f64 / 1e3,
            binding: Some((name.to_owned(), busiest)),
            named: vec![(
                "wake-ups per operation",
                self.wakes as f64 / self.done.max(1) as f64,
            )],
            ..Outcome::default()
        }
    }

    fn home(&self, connection: u32) -> usize {
        connection as usize % self.plan.workers
    }

    /// Something for `worker` is there: it makes a round, `wake` later if it sleeps. Returns whether it had to be woken.
    fn notify(&mut self, worker: usize, queue: &mut Queue) -> bool {
        let now = queue.now();
        let slot = &mut self.workers[worker];
        if slot.busy_until.is_some() {
            return false;
        }
        let sleeps = now.since(slot.idle_since) > Ps::from(SPIN);
        let wake = Ps::from_ns(if sleeps { WAKE_NS } else { 0.0 });
        let at = now + wake;
        slot.busy_until = Some(at);
        queue.schedule(at, Event::new(ROUND, worker as u16, 0));
        sleeps
    }

    fn round(&mut self, worker: usize, queue: &mut Queue) {
        let others = (self.plan.workers - 1) as f64;
        let mut ns = POLL_NS;
        let mut instructions = 2.0 * others * RING;
        let mut finished = Vec::new();
        for from in 0..self.plan.workers {
            let (in_messages, in_ns) = self.take_mail(worker, from, &mut finished);
            (instructions, ns) = (instructions + in_messages, ns + in_ns);
        }
        let ready = &mut self.workers[worker].ready;
        let ready: Vec<u32> = ready.drain(..ready.len().min(CONNECTIONS)).collect();
        for connection in ready {
            ns += READ_NS;
            instructions += self.ask(worker, connection);
            if self.connections[connection as usize].missing == 0 {
                finished.push(connection);
            }
        }
        ns += WRITE_NS * finished.len() as f64;
        let mut asleep = vec![false; self.plan.workers];
        for message in &self.workers[worker].sent {
            let other = &self.workers[usize::from(message.to)];
            asleep[usize::from(message.to)] |=
                other.busy_until.is_none() && queue.now().since(other.idle_since) > Ps::from(SPIN);
        }
        // A wake-up is a write to a descriptor.
        ns += WRITE_NS * asleep.iter().filter(|&&asleep| asleep).count() as f64;
        let spent = Ps::from_ns(ns + instructions / self.pace);
        let end = queue.now() + spent;
        let slot = &mut self.workers[worker];
        slot.busy += spent;
        slot.busy_until = Some(end);
        slot.finished = finished;
        queue.schedule(end, Event::new(VISIBLE, worker as u16, 0));
    }

    /// Takes messages of `from`; returns instructions and nanoseconds. Appends connections that have all their replies.
    fn take_mail(&mut self, worker: usize, from: usize, finished: &mut Vec<u32>) -> (f64, f64) {
        let (mut instructions, mut requests, mut replies) = (0.0, 0, 0);
        let count = self.workers[worker].mail[from].len().min(MESSAGES);
        let messages: Vec<Message> = self.workers[worker].mail[from].drain(..count).collect();
        for message in messages {
            let (price, first) = match (message.is_reply, message.is_set) {
                (false, false) => (SERVE_GET, requests == 0),
                (false, true) => (SERVE_SET, requests == 0),
                (true, false) => (FILL_GET, replies == 0),
                (true, true) => (FILL_SET, replies == 0),
            };
            instructions += price.each + if first { price.once } else { 0.0 };
            if message.is_reply {
                replies += 1;
                let state = &mut self.connections[message.connection as usize];
                state.missing -= 1;
                if state.missing == 0 {
                    finished.push(message.connection);
                }
            } else {
                requests += 1;
                self.workers[worker].sent.push(Message {
                    from: message.to,
                    to: message.from,
                    is_reply: true,
                    ..message
                });
            }
        }
        // The lines of a ring follow each other, so only the first one is waited for.
        let rings = usize::from(requests > 0) + usize::from(replies > 0);
        (instructions, LINE_NS * rings as f64)
    }

    /// A worker parses and answers a connection's requests, or sends them on; returns instructions.
    fn ask(&mut self, worker: usize, connection: u32) -> f64 {
        let mut instructions = 0.0;
        for nth in 0..self.plan.depth {
            let owner = self.stream.below(self.plan.workers as u64) as usize;
            let is_set = self.stream.below(100) < self.plan.set_percent;
            let is_own = owner == worker;
            let price = match (is_set, is_own, self.plan.in_place) {
                (false, true, _) => ASK_OWN,
                (false, false, true) => ASK_IN_PLACE,
                (false, false, false) => ASK_FORWARD,
                (true, true, _) => ASK_SET,
                (true, false, _) => ASK_SET_FORWARD,
            };
            instructions += price.each + if nth == 0 { price.once } else { 0.0 };
            if !is_own && (is_set || !self.plan.in_place) {
                self.connections[connection as usize].missing += 1;
                self.workers[worker].sent.push(Message {
                    connection,
                    from: worker as u16,
                    to: owner as u16,
                    is_set,
                    is_reply: false,
                });
            }
        }
        instructions
    }

    /// The end of a round: its messages are there, and the worker goes on or is idle.
    fn end_round(&mut self, worker: usize, queue: &mut Queue) {
        for message in std::mem::take(&mut self.workers[worker].sent) {
            let to = usize::from(message.to);
            self.workers[to].mail[usize::from(message.from)].push_back(message);
            if self.notify(to, queue) {
                self.wakes += 1;
            }
        }
        let now = queue.now();
        for connection in std::mem::take(&mut self.workers[worker].finished) {
            let state = self.connections[connection as usize];
            self.done += self.plan.depth as u64;
            self.batches += 1;
            self.latency += now.since(state.asked_at);
            let next = now + Ps::from_ns(CLIENT_NS);
            queue.schedule(next, Event::new(ARRIVE, 0, connection));
        }
        let slot = &mut self.workers[worker];
        if slot.ready.is_empty() && slot.mail.iter().all(VecDeque::is_empty) {
            (slot.busy_until, slot.idle_since) = (None, now);
        } else {
            queue.schedule(now, Event::new(ROUND, worker as u16, 0));
        }
    }
}

impl drover_sim::Model for Model {
    fn handle(&mut self, event: Event, queue: &mut Queue) {
        let worker = usize::from(event.unit);
        match event.kind {
            ARRIVE => {
                self.connections[event.arg as usize].asked_at = queue.now();
                let home = self.home(event.arg);
                self.workers[home].ready.push_back(event.arg);
                self.notify(home, queue);
            }
            ROUND => self.round(worker, queue),
            VISIBLE => self.end_round(worker, queue),
            other => unreachable!("an event of kind {other}"),
        }
    }
}
