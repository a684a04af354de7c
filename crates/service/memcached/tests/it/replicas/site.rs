//! [`Site`]: a core of a member, and the replies that its clients wait for.

use super::network::{CoreId, TestLinks};
use super::{Clock, Flaw, KEYS, NOW_S, name};
use crate::bed::take;
use drover_base::{Cpu, KeyHash, Ns};
use drover_memcached::replicas::Hold;
use drover_memcached::{Core, Executor, MemberCounters, Outbound, Server, Source};
use drover_net::{Output, PendingReply};
use drover_store::{Exclusive, Hint, Key, Partition};
use std::sync::Arc;

/// State of a key: its value.
pub type State = Option<Vec<u8>>;

pub struct Site {
    pub id: CoreId,
    pub partition: Partition,
    pub core: Core,
    pub server: Arc<Server>,
    pub outbound: Outbound,
    pub clock: Clock,
    pub links: TestLinks,
    pub flaw: Option<Flaw>,
    /// What the replies that have not left say: keys, with the number of their state.
    pub waiting: Vec<(usize, usize)>,
    /// Steps that ended held, and void.
    pub held: u64,
    pub void: u64,
    pub held_time: HeldTime,
}

/// How long a core was held, as counted here and by the core.
#[derive(Default)]
pub struct HeldTime {
    pub counters: Arc<MemberCounters>,
    since: Option<Ns>,
    sum_ns: u64,
}

impl HeldTime {
    /// A step has ended.
    fn count(&mut self, is_held: bool, now: Ns) {
        match is_held {
            true => _ = self.since.get_or_insert(now),
            false => self.sum_ns += self.since.take().map_or(0, |since| now.since(since).0),
        }
        assert_eq!(self.counters.held_ns.get(), self.sum_ns);
    }
}

impl Site {
    pub fn hash(&self, key: usize) -> KeyHash {
        self.server.hasher.hash(name(key).as_bytes())
    }

    /// The keys that are this core's.
    pub fn keys(&self, core_count: usize) -> Vec<usize> {
        let is_own = |key: &usize| self.hash(*key).partition_index(core_count) == self.id.1;
        (0..KEYS).filter(is_own).collect()
    }

    pub fn state(&mut self, key: usize) -> State {
        let (hash, bytes) = (self.hash(key), name(key));
        let bytes = bytes.as_bytes();
        let found = self.partition.get(&self.clock, Key { hash, bytes }, NOW_S);
        found.map(|item| item.to_value())
    }

    pub fn delete(&mut self, key: usize) {
        let (hash, bytes) = (self.hash(key), name(key));
        let bytes = bytes.as_bytes();
        self.partition.delete(&self.clock, Key { hash, bytes }, NOW_S);
    }

    fn run<T>(&mut self, run: impl FnOnce(&mut Executor<'_, Clock, Exclusive>, &mut TestLinks) -> T) -> T {
        let mut executor = Executor {
            partition: &mut self.partition,
            cpu: &self.clock,
            now_s: NOW_S,
            core: &mut self.core,
            server: &self.server,
            router: &mut self.outbound,
        };
        run(&mut executor, &mut self.links)
    }

    fn serve(&mut self, source: Source, message: &[u8]) -> Vec<u8> {
        self.run(|executor, _| {
            executor.begin_round();
            executor.begin_arrivals();
            executor.set_source(source);
            let mut reply = Output::new(0, usize::MAX);
            executor.serve(message, Hint::NONE, &mut reply);
            take(&mut reply)
        })
    }

    /// Serves a message about copies, of a peer or of its own member.
    pub fn serve_copies(&mut self, message: &[u8]) -> Vec<u8> {
        self.serve(Source::Copies, message)
    }

    /// Executes a request about a key. Returns its reply.
    pub fn execute(&mut self, key: usize, request: &str) -> Vec<u8> {
        let mut message = self.hash(key).to_bytes().to_vec();
        message.extend_from_slice(b"r\0\0\0\0");
        message.extend_from_slice(request.as_bytes());
        self.serve(Source::Core(7), &message)
    }

    /// Deletes all items that are not another member's.
    pub fn flush(&mut self) {
        let message = [&[0; 16][..], b"f\0\0\0\0", &[0; 4]].concat();
        self.serve(Source::Core(7), &message);
    }

    /// Takes the end of a message.
    pub fn take_reply(&mut self, pending: PendingReply, reply: Option<&[u8]>) {
        let mut taken = [0; 24];
        taken[0] = 1;
        let reply = match (self.flaw, reply) {
            (Some(Flaw::TrustsLosses), None) => Some(&taken[..]),
            (Some(Flaw::TrustsRefusals), Some(_)) => Some(&taken[..]),
            (_, reply) => reply,
        };
        self.run(|executor, _| executor.take_copy_reply(pending, reply));
    }

    /// Sends what has changed. Returns what may leave, or `None` while replies must wait.
    pub fn settle(&mut self) -> Option<Vec<(usize, usize)>> {
        let hold = self.run(|executor, links| {
            executor.begin_round();
            executor.step_copies(links)
        });
        if hold == Hold::Void {
            self.void += 1;
            self.waiting.clear();
        }
        let is_held = self.core.is_held();
        assert_eq!(is_held, hold == Hold::Held || is_held && hold == Hold::Void);
        self.held += u64::from(is_held);
        self.held_time.count(is_held, self.clock.now());
        match is_held && self.flaw != Some(Flaw::RepliesAtOnce) {
            true => None,
            false => Some(std::mem::take(&mut self.waiting)),
        }
    }
}
