//! [`FarmClient`]: GETs by READs, everything else by records in a ring.
//!
//! An operation has a place, whose index is its slot: it has its own buffers, and at most one request of its own at a time.
//! What it waits for is its state (`operation.rs`); what is read next, [`Lookup`] decides (`reads.rs`); what is asked of the server
//! stands in `messages.rs`. Operations on one key go one after the other.

mod error;
mod link;
mod mailbox;
mod messages;
mod operation;
mod reads;
mod session;

pub use drover_rt::control::Dial;
pub use error::SetupError;

use crate::logic::{Lookup, Miss};
use drover_base::{Cpu, Ns};
use drover_index::hopscotch::{Object, item_bytes};
use drover_kv::{Completion, KEY_BYTES_MAX, KvClient, Op, Outcome, Refusal, SubmitError, Token};
use drover_verbs::{CompletionQueue, Context, Provider, Wc, WcStatus};
use link::Link;
use operation::{Operation, State};
use session::{MOVES, OBJECT, SENT, Session, WHICH};
use std::rc::Rc;

/// Completions taken at a time.
const BATCH: usize = 32;

/// Most places of a client.
const PLACES_MAX: usize = 1024;

type Sink<'a> = &'a mut dyn FnMut(Completion<'_>);

/// How a client wants to work.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Operations under way per shard, at most 1024 in all.
    pub window: usize,
    /// An operation that has no result after this time gets `Indeterminate` or `Refused(Unavailable)`.
    pub deadline: Ns,
    /// What to do when a key is nowhere.
    pub miss: Miss,
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions {
            window: 16,
            deadline: Ns::from_s(5),
            miss: Miss::Confirmed,
        }
    }
}

/// What a client did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClientStats {
    /// GETs that found their value.
    pub hits: u64,
    /// READs of neighbourhoods.
    pub neighbourhood_reads: u64,
    /// READs of overflow blocks.
    pub overflow_reads: u64,
    /// READs of objects.
    pub object_reads: u64,
    /// READs of the count of moves.
    pub moves_reads: u64,
    /// Torn slots and objects, stale pointers, and what took too long: read once more, or asked for.
    pub retries: u64,
    /// Misses that the server, or the count of moves, confirmed.
    pub confirmed_misses: u64,
    /// Misses for which the server had a value: keys that moved, or came just then.
    pub false_misses: u64,
    /// Records WRITTEN.
    pub messages: u64,
}

impl ClientStats {
    /// READs of all kinds.
    pub fn reads(&self) -> u64 {
        self.neighbourhood_reads + self.overflow_reads + self.object_reads + self.moves_reads
    }
}

/// A client of all shards of a service, for one thread.
pub struct FarmClient<P: Provider> {
    links: Vec<Link<P>>,
    places: Vec<Operation>,
    free: Vec<u32>,
    /// Places that wait for a reply.
    asked: Vec<u32>,
    options: ClientOptions,
    orders: u64,
    in_flight: usize,
    /// Some operation may be able to go on without anything arriving.
    stirred: bool,
    scratch: Vec<u8>,
    object: Object,
    stats: ClientStats,
    ctx: Rc<P::Context>,
}

impl<P: Provider> FarmClient<P> {
    /// A client of the shards behind `dials`, in the order of the service's shards. Connects while it is polled.
    ///
    /// # Panics
    /// If there are no shards, or the window is 0.
    pub fn new(ctx: Rc<P::Context>, dials: Vec<Dial>, options: ClientOptions) -> FarmClient<P> {
        let count = dials.len();
        assert!(count > 0 && options.window > 0, "a shard and a window at least");
        let posted_max = session::places_for(ctx.caps().send_depth_max);
        let slots = (options.window * count).min(PLACES_MAX).min(posted_max);
        let link = |(shard, dial)| link::link(&ctx, dial, shard, count, slots);
        FarmClient {
            links: dials.into_iter().enumerate().map(link).collect(),
            places: (0..slots).map(|_| Operation::default()).collect(),
            free: (0..slots as u32).rev().collect(),
            asked: Vec::with_capacity(slots),
            options,
            orders: 0,
            in_flight: 0,
            stirred: false,
            scratch: Vec::new(),
            object: Object::default(),
            stats: ClientStats::default(),
            ctx,
        }
    }

    /// Whether it has a session with every shard.
    pub fn is_ready(&mut self) -> bool {
        self.links.iter_mut().all(|link| link.session().is_some())
    }

    /// Why a shard could not be reached last.
    pub fn take_error(&mut self) -> Option<SetupError> {
        self.links.iter_mut().find_map(Link::take_error)
    }

    /// Counters.
    pub fn stats(&self) -> ClientStats {
        self.stats
    }

    /// The session of the operation in place `at`.
    fn session_of(&mut self, at: usize) -> Option<&mut Session<P>> {
        self.links[self.places[at].shard].session()
    }

    /// Says the outcome of an operation, and frees its place as soon as nothing of it is under way.
    fn finish(&mut self, at: usize, outcome: Outcome<'_>, sink: Sink<'_>) {
        self.release_large(at);
        let place = &mut self.places[at];
        let token = place.token;
        place.state = State::Sending;
        self.in_flight -= 1;
        self.stirred = true;
        if !place.sending {
            self.vacate(at);
        }
        sink(Completion { token, outcome });
    }

    fn vacate(&mut self, at: usize) {
        self.places[at].state = State::Free;
        self.free.push(at as u32);
    }

    fn release_large(&mut self, at: usize) {
        let (State::Reply { large } | State::Object { large }) = &mut self.places[at].state else {
            return;
        };
        let large = large.take();
        if let (Some(large), Some(session)) = (large, self.session_of(at)) {
            session.free_large.push(large);
            self.stirred = true;
        }
    }

    /// The session with `shard` is over: reads begin again with the next; updates that were sent are unknown for ever.
    fn lost(&mut self, shard: usize, sink: Sink<'_>) {
        for at in 0..self.places.len() {
            let place = &mut self.places[at];
            if place.shard != shard {
                continue;
            }
            place.sending = false;
            match place.state {
                State::Free | State::Waiting => {}
                State::Sending => self.vacate(at),
                State::Reply { .. } if place.is_update() => self.finish(at, Outcome::Indeterminate, sink),
                _ => place.state = State::Waiting,
            }
        }
        self.forget_answered();
        self.stirred = true;
    }

    /// Begins whatever can begin, and ends what took too long.
    fn stir(&mut self, cpu: &P::Cpu, sink: Sink<'_>) {
        self.stirred = false;
        let now = cpu.now();
        for at in 0..self.places.len() {
            match self.places[at].state {
                State::Free | State::Sending => continue,
                State::Waiting => self.begin(at),
                State::Asking { is_long } => self.try_to_ask(at, is_long),
                State::Resting { until } if now >= until => self.look_up(at),
                _ => {}
            }
            if now >= self.places[at].deadline {
                self.give_up(at, sink);
            }
        }
    }

    /// Its time is over.
    fn give_up(&mut self, at: usize, sink: Sink<'_>) {
        let place = &self.places[at];
        let is_idle = matches!(
            place.state,
            State::Waiting | State::Resting { .. } | State::Asking { .. }
        );
        // Whatever it waits for may still come, unless the session ends.
        if !is_idle && let Some(session) = self.session_of(at) {
            session.broken = true;
        }
        if is_idle || !self.places[at].is_update() {
            self.places[at].state = State::Waiting;
            self.finish(at, Outcome::Refused(Refusal::Unavailable), sink);
        }
    }

    /// Earlier operations on its key have ended.
    fn is_first(&self, at: usize) -> bool {
        let place = &self.places[at];
        let is_before =
            |other: &Operation| other.is_open() && other.order < place.order && other.key == place.key;
        !self.places.iter().any(is_before)
    }

    fn begin(&mut self, at: usize) {
        let shard_count = self.links.len();
        let mut hashers = self.links.iter_mut().filter_map(|link| link.session());
        // Any session tells the hash, and the hash the shard; all shards of a service have one seed.
        let Some(session) = hashers.next() else { return };
        let place = &mut self.places[at];
        place.hash = session.hasher.hash(&place.key);
        place.shard = place.hash.partition_index(shard_count);
        if self.session_of(at).is_none() || !self.is_first(at) {
            return;
        }
        if self.places[at].is_update() {
            return self.send_update(at);
        }
        let place = &mut self.places[at];
        place.lookup = Some(Lookup::new(place.hash, self.options.miss));
        self.look_up(at);
    }

    /// What has completed at `shard`.
    fn take_completions(&mut self, cpu: &P::Cpu, shard: usize, sink: Sink<'_>) {
        let mut wcs = [Wc::default(); BATCH];
        let Some(session) = self.links[shard].session() else {
            return;
        };
        let count = session.cq.poll(cpu, &mut wcs);
        for wc in &wcs[..count] {
            if wc.status != WcStatus::Success {
                tracing::debug!(status = ?wc.status, shard, "a queue pair failed");
                if let Some(session) = self.links[shard].session() {
                    session.broken = true;
                }
                return;
            }
            let at = (wc.wr_id.0 & WHICH) as usize;
            match wc.wr_id.0 & !WHICH {
                SENT => self.sent(at),
                MOVES => self.moves_came(at, sink),
                OBJECT => self.object_came(at, sink),
                _ => self.slots_came(at, sink),
            }
        }
    }

    /// When an operation's rest or time ends.
    fn next_event(&self) -> Ns {
        let open = self.places.iter().filter(|place| place.is_open());
        let event = |place: &Operation| match place.state {
            State::Resting { until } => until.min(place.deadline),
            _ => place.deadline,
        };
        open.map(event).min().unwrap_or(Ns::MAX)
    }
}

impl<P: Provider> KvClient<P> for FarmClient<P> {
    fn submit(&mut self, cpu: &P::Cpu, op: &Op<'_>, token: Token) -> Result<(), SubmitError> {
        let key = op.key();
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Err(SubmitError::BadKey);
        }
        let (value, ttl_s): (&[u8], u32) = match *op {
            Op::Put { value, ttl_s, .. } => (value, ttl_s),
            _ => (&[], 0),
        };
        let mut sessions = self.links.iter_mut().filter_map(|link| link.session());
        let item_bytes_max = sessions.next().map(|session| session.item_bytes_max);
        if item_bytes_max.is_some_and(|max| item_bytes(key.len(), value.len()) > max) {
            return Err(SubmitError::TooLarge);
        }
        let at = self.free.pop().ok_or(SubmitError::WindowFull)? as usize;
        self.orders += 1;
        let place = &mut self.places[at];
        place.key.clear();
        place.key.extend_from_slice(key);
        place.value.clear();
        place.value.extend_from_slice(value);
        (place.kind, place.token, place.ttl_s) = (Some(op.kind()), token, ttl_s);
        (place.order, place.sequence) = (self.orders, self.orders);
        place.deadline = cpu.now() + self.options.deadline;
        place.state = State::Waiting;
        self.in_flight += 1;
        self.stirred = true;
        Ok(())
    }

    fn poll(&mut self, cpu: &P::Cpu, sink: &mut impl FnMut(Completion<'_>)) -> usize {
        let now = cpu.now();
        let mut done = 0;
        let mut sink = |completion: Completion<'_>| {
            done += 1;
            sink(completion);
        };
        for shard in 0..self.links.len() {
            if now >= self.links[shard].next_timer() {
                let was_up = self.links[shard].session().is_some();
                if self.links[shard].look(now) {
                    self.lost(shard, &mut sink);
                }
                self.stirred |= !was_up && self.links[shard].session().is_some();
            }
            self.take_completions(cpu, shard, &mut sink);
            if let Some(session) = self.links[shard].session()
                && session.is_blocked
                && session.hear_notice()
            {
                session.is_blocked = false;
                self.stirred = true;
            }
        }
        self.take_replies(&mut sink);
        if self.stirred || self.in_flight > 0 && self.next_event() <= now {
            self.stir(cpu, &mut sink);
        }
        for link in &mut self.links {
            if let Some(session) = link.session() {
                session.post(cpu);
            }
        }
        done
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn next_timer(&self) -> Ns {
        if self.stirred {
            return Ns::ZERO;
        }
        let links = self.links.iter().map(Link::next_timer).min();
        self.next_event().min(links.unwrap_or(Ns::MAX))
    }
}
