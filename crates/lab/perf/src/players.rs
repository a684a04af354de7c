//! [`Client`] and [`Server`]: the actors of a plan.

use crate::{End, Fetcher, Issuer, Metric, Outcome, Pinger, Plan, Ponger, Sink, Verb};
use drover_base::{Actor, Progress};
use drover_verbs::Provider;

/// Actor of the end that measures.
pub enum Client<P: Provider> {
    /// Latency of SEND or WRITE: sends a message and waits for the answer.
    Pinger(Box<Pinger<P>>),
    /// Latency of READ or atomics: one request at a time.
    Fetcher(Box<Fetcher<P>>),
    /// Rate: keeps many requests in flight.
    Issuer(Box<Issuer<P>>),
}

/// Actor of the end that does not measure.
pub enum Server<P: Provider> {
    /// Latency of SEND or WRITE: answers messages.
    Ponger(Box<Ponger<P>>),
    /// Rate of SEND: receives messages.
    Sink(Box<Sink<P>>),
    /// All other tests: only provides memory.
    Bystander(Box<End<P>>),
}

impl<P: Provider> Client<P> {
    /// Creates the client that the plan of `end` needs, for messages of `bytes` bytes. After the last iteration it
    /// stores its result in `outcome`.
    pub fn new(end: End<P>, bytes: usize, outcome: Outcome) -> Client<P> {
        match (end.plan.op.metric, end.plan.op.verb) {
            (Metric::Latency, Verb::Send | Verb::Write) => {
                Client::Pinger(Box::new(Pinger::new(end, bytes, outcome)))
            }
            (Metric::Latency, _) => Client::Fetcher(Box::new(Fetcher::new(end, bytes, outcome))),
            (Metric::Rate, _) => Client::Issuer(Box::new(Issuer::new(end, bytes, outcome))),
        }
    }

    /// Returns the end, for another measurement.
    pub fn into_end(self) -> End<P> {
        match self {
            Client::Pinger(actor) => actor.into_end(),
            Client::Fetcher(actor) => actor.into_end(),
            Client::Issuer(actor) => actor.into_end(),
        }
    }

    /// Number of requests that a rate test has posted so far, warm-up included; 0 in a latency test.
    pub fn posted(&self) -> u64 {
        match self {
            Client::Issuer(actor) => actor.posted(),
            Client::Pinger(_) | Client::Fetcher(_) => 0,
        }
    }
}

impl<P: Provider> Server<P> {
    /// Creates the server that the plan of `end` needs, for messages of `bytes` bytes. It never finishes: it stores
    /// only an error, if one occurs, in `outcome`.
    pub fn new(end: End<P>, bytes: usize, outcome: Outcome) -> Server<P> {
        match (end.plan.op.metric, end.plan.op.verb) {
            (Metric::Latency, Verb::Send | Verb::Write) => {
                Server::Ponger(Box::new(Ponger::new(end, bytes, outcome)))
            }
            (Metric::Rate, Verb::Send) => Server::Sink(Box::new(Sink::new(end, outcome))),
            _ => Server::Bystander(Box::new(end)),
        }
    }

    /// Returns the end, for another measurement.
    pub fn into_end(self) -> End<P> {
        match self {
            Server::Ponger(actor) => actor.into_end(),
            Server::Sink(actor) => actor.into_end(),
            Server::Bystander(end) => *end,
        }
    }

    /// Number of messages that a rate test of SEND has received so far, warm-up included; 0 in other tests.
    pub fn received(&self) -> u64 {
        match self {
            Server::Sink(actor) => actor.received(),
            Server::Ponger(_) | Server::Bystander(_) => 0,
        }
    }
}

/// Creates the client on the first of two connected ends and the server on the second, for messages of `bytes` bytes.
/// Returns each with the [`Outcome`] in which it stores its result. Both ends must have been made for `plan`.
pub fn players<P: Provider>(
    plan: &Plan,
    ends: [End<P>; 2],
    bytes: usize,
) -> ((Client<P>, Outcome), (Server<P>, Outcome)) {
    debug_assert!(ends.iter().all(|end| end.plan == *plan), "ends of one plan");
    let [here, there] = ends;
    let (ours, theirs) = (Outcome::default(), Outcome::default());
    let client = Client::new(here, bytes, ours.clone());
    let server = Server::new(there, bytes, theirs.clone());
    ((client, ours), (server, theirs))
}

impl<P: Provider> Actor<P::Cpu> for Client<P> {
    #[inline]
    fn step(&mut self, cpu: &P::Cpu) -> Progress {
        match self {
            Client::Pinger(actor) => actor.step(cpu),
            Client::Fetcher(actor) => actor.step(cpu),
            Client::Issuer(actor) => actor.step(cpu),
        }
    }
}

impl<P: Provider> Actor<P::Cpu> for Server<P> {
    #[inline]
    fn step(&mut self, cpu: &P::Cpu) -> Progress {
        match self {
            Server::Ponger(actor) => actor.step(cpu),
            Server::Sink(actor) => actor.step(cpu),
            Server::Bystander(_) => crate::IDLE,
        }
    }
}
