//! [`PilafClient`]: GETs by READs, everything else by messages.
//!
//! An operation has a place, whose index is its slot: it has its own buffers, and at most one request of its own at a time.
//! What it waits for is its state (`operation.rs`); what is read next, [`Lookup`] decides. Operations on
//! one key go one after the other.

mod link;
mod operation;
mod session;

pub use drover_rt::control::Dial;

use crate::layout::{Reply, Request, RequestKind, Status, record_bytes};
use crate::logic::{Lookup, Miss, Step, is_within};
use drover_base::{Cpu, Ns};
use drover_index::cuckoo::RecordRef;
use drover_kv::{Completion, KEY_BYTES_MAX, KvClient, Op, OpKind, Outcome, Refusal, SubmitError, Token};
use drover_mem::AllocError;
use drover_rt::control::{ControlError, DecodeError, DialError};
use drover_verbs::{
    CompletionQueue, ConnectError, Context, CreateError, ImportError, MemoryRegion, PostError, Provider,
    RegisterError, Wc, WcStatus,
};
use link::Link;
use operation::{Operation, State};
use session::{ENTRY, RECORD, SENT, SHORT_RECORD_BYTES, Session, WHICH};
use std::rc::Rc;

/// Completions taken at a time.
const BATCH: usize = 32;

/// Shortest and longest rest after something torn; drawn, so that readers do not march in step. *(our choice)*
const REST_MIN: Ns = Ns::from_us(1);
const REST_MAX: Ns = Ns::from_us(8);

type Sink<'a> = &'a mut dyn FnMut(Completion<'_>);

/// How a client wants to work.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Operations under way per shard, at most 1024 in all.
    pub window: usize,
    /// An operation that has no result after this time gets `Indeterminate` or `Refused(Unavailable)`.
    pub deadline: Ns,
    /// What to do when no place has a key.
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

/// Why there is no session with a shard. The client goes on trying.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// Nobody there.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// The control channel ended.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The server said what it cannot say.
    #[error("the server sent nonsense: {0}")]
    Message(#[from] DecodeError),
    /// The server's numbers do not fit together.
    #[error("unusable answer of the server: {what}")]
    Unusable {
        /// Which.
        what: &'static str,
    },
    /// No answer in time.
    #[error("the server did not answer in time")]
    Timeout,
    /// The queue pair failed.
    #[error("the session ended")]
    Ended,
    /// No memory.
    #[error(transparent)]
    Alloc(#[from] AllocError),
    /// No queue.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// Memory could not be registered.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// The server's memory could not be used.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The queue pairs do not match.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// RECVs could not be posted.
    #[error(transparent)]
    Post(#[from] PostError),
}

/// What a client did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClientStats {
    /// GETs that found their value.
    pub hits: u64,
    /// READs of entries.
    pub entry_reads: u64,
    /// READs of records.
    pub record_reads: u64,
    /// Torn entries and records.
    pub torn: u64,
    /// Messages asking for a key: misses confirmed, and readers who gave up.
    pub asked: u64,
    /// Misses by READs for which the server had a value: keys that moved, or came just then.
    pub false_misses: u64,
}

/// A client of all shards of a service, for one thread.
pub struct PilafClient<P: Provider> {
    links: Vec<Link<P>>,
    places: Vec<Operation>,
    free: Vec<u32>,
    options: ClientOptions,
    orders: u64,
    in_flight: usize,
    /// Some operation may be able to go on without anything arriving.
    stirred: bool,
    scratch: Vec<u8>,
    stats: ClientStats,
    ctx: Rc<P::Context>,
}

impl<P: Provider> PilafClient<P> {
    /// A client of the shards behind `dials`, in the order of the service's shards. Connects while it is polled.
    ///
    /// # Panics
    /// If there are no shards, or the window is 0.
    pub fn new(ctx: Rc<P::Context>, dials: Vec<Dial>, options: ClientOptions) -> PilafClient<P> {
        let count = dials.len();
        assert!(count > 0 && options.window > 0, "a shard and a window at least");
        let slots = (options.window * count).min(1024);
        let link = |(shard, dial)| link::link(&ctx, dial, shard, count, slots);
        PilafClient {
            links: dials.into_iter().enumerate().map(link).collect(),
            places: (0..slots).map(|_| Operation::default()).collect(),
            free: (0..slots as u32).rev().collect(),
            options,
            orders: 0,
            in_flight: 0,
            stirred: false,
            scratch: Vec::new(),
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

    /// Says the outcome of an operation, and frees its place as soon as nothing of it is under way.
    fn finish(&mut self, at: usize, outcome: Outcome<'_>, sink: Sink<'_>) {
        let place = &mut self.places[at];
        let token = place.token;
        self.release_large(at);
        let place = &mut self.places[at];
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
        let place = &mut self.places[at];
        let (State::Reply { large } | State::Record { large, .. }) = &mut place.state else {
            return;
        };
        if let (Some(large), Some(session)) = (large.take(), self.links[place.shard].session()) {
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
        let shard = place.shard;
        if matches!(place.state, State::Waiting | State::Resting { .. }) {
            return self.finish(at, Outcome::Refused(Refusal::Unavailable), sink);
        }
        // Whatever it waits for may still come: with the session it never will.
        if !place.is_update() {
            self.places[at].state = State::Waiting;
            self.finish(at, Outcome::Refused(Refusal::Unavailable), sink);
        }
        if let Some(session) = self.links[shard].session() {
            session.broken = true;
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
        let place = &mut self.places[at];
        // Any session tells the hash, and the hash the shard; all shards of a service have one seed.
        let Some(hasher) = self
            .links
            .iter_mut()
            .find_map(|link| link.session().map(|s| s.hasher.clone()))
        else {
            return;
        };
        place.hash = hasher.hash(&place.key);
        place.shard = place.hash.partition_index(shard_count);
        if self.links[place.shard].session().is_none() || !self.is_first(at) {
            return;
        }
        match self.places[at].is_update() {
            true => self.send_update(at),
            false => {
                let place = &mut self.places[at];
                let session = self.links[place.shard].session().expect("looked at above");
                place.lookup = Some(Lookup::new(place.hash, &session.shape, self.options.miss));
                self.look_up(at);
            }
        }
    }

    fn send_update(&mut self, at: usize) {
        let place = &mut self.places[at];
        let Some(session) = self.links[place.shard].session() else {
            return;
        };
        let mut request = Request {
            kind: RequestKind::Delete,
            slot: at as u16,
            key_bytes: place.key.len(),
            value_bytes: place.value.len(),
            ttl_s: place.ttl_s,
            sequence: place.sequence,
            value_offset: 0,
        };
        let mut large = None;
        let mut value = &place.value[..];
        if place.kind == Some(OpKind::Put) {
            request.kind = RequestKind::Put;
            if !session.fits_message(place.key.len(), value.len()) {
                let Some(buffer) = session.free_large.pop() else {
                    return;
                };
                let offset = session.large_offset(buffer);
                session.values.region().copy_in(offset, value);
                (request.kind, request.value_offset) = (RequestKind::PutLarge, offset as u64);
                (large, value) = (Some(buffer), &[]);
            }
        }
        session.send(at, &request, &place.key, value);
        place.sending = true;
        place.state = State::Reply { large };
    }

    /// Asks the server what the key has.
    fn ask(&mut self, at: usize) {
        self.release_large(at);
        self.stats.asked += 1;
        self.orders += 1;
        let place = &mut self.places[at];
        // A question of this place may have been answered before.
        place.sequence = self.orders;
        let Some(session) = self.links[place.shard].session() else {
            return;
        };
        if place.sending {
            // The last question's buffer is still being sent from.
            place.state = State::Resting { until: Ns::ZERO };
            self.stirred = true;
            return;
        }
        let request = Request {
            kind: RequestKind::Get,
            slot: at as u16,
            key_bytes: place.key.len(),
            value_bytes: 0,
            ttl_s: 0,
            sequence: place.sequence,
            value_offset: 0,
        };
        session.send(at, &request, &place.key, &[]);
        place.sending = true;
        place.state = State::Reply { large: None };
    }

    fn look_up(&mut self, at: usize) {
        let lookup = self.places[at].lookup.as_mut();
        let step = lookup.expect("a GET that has begun").begin();
        self.go(at, step, &mut |_| unreachable!("it only reads"));
    }

    /// Does what [`Lookup`] says.
    fn go(&mut self, at: usize, step: Step, sink: Sink<'_>) {
        let shard = self.places[at].shard;
        match step {
            Step::Entry(index) => {
                self.release_large(at);
                self.stats.entry_reads += 1;
                if let Some(session) = self.links[shard].session() {
                    session.read_entry(at, index);
                }
                self.places[at].state = State::Entry;
            }
            Step::Record(record) => self.read_record(at, &record, false),
            Step::Retry => {
                self.release_large(at);
                self.stats.torn += 1;
                self.rest(at);
            }
            Step::Ask => self.ask(at),
            Step::Miss => self.finish(at, Outcome::NotFound, sink),
            Step::Found => self.found(at, sink),
        }
    }

    fn rest(&mut self, at: usize) {
        let cpu = self.ctx.cpu();
        let span = REST_MAX.0 - REST_MIN.0;
        let until = cpu.now() + REST_MIN + Ns(cpu.random() % span);
        self.places[at].state = State::Resting { until };
    }

    fn read_record(&mut self, at: usize, record: &RecordRef, told: bool) {
        let shard = self.places[at].shard;
        let Some(session) = self.links[shard].session() else {
            return;
        };
        let large = match record.len as usize > SHORT_RECORD_BYTES {
            false => None,
            true => match session.free_large.pop() {
                Some(large) => Some(large),
                // All are taken: from the beginning, later.
                None => return self.rest(at),
            },
        };
        self.stats.record_reads += 1;
        session.read_record(at, record, large);
        self.places[at].state = State::Record { large, told };
    }

    /// The record in `scratch` has the value.
    fn found(&mut self, at: usize, sink: Sink<'_>) {
        self.stats.hits += 1;
        let scratch = std::mem::take(&mut self.scratch);
        let key_bytes = self.places[at].key.len();
        self.finish(at, Outcome::Value(&scratch[record_bytes(key_bytes, 0)..]), sink);
        self.scratch = scratch;
    }

    /// A completion that is none of a SEND's or RECV's.
    fn entry_came(&mut self, at: usize, sink: Sink<'_>) {
        let place = &mut self.places[at];
        let (State::Entry, Some(session)) = (place.state, self.links[place.shard].session()) else {
            return;
        };
        let entry = session.entry(at);
        let lookup = place.lookup.as_mut().expect("a GET that has begun");
        let step = lookup.entry(&entry, &session.shape);
        self.go(at, step, sink);
    }

    fn record_came(&mut self, at: usize, sink: Sink<'_>) {
        let now = self.ctx.cpu().now();
        let place = &mut self.places[at];
        let State::Record { large, told } = place.state else {
            return;
        };
        let Some(session) = self.links[place.shard].session() else {
            return;
        };
        let lookup = place.lookup.as_mut().expect("a GET that has begun");
        session.record(at, lookup.record().len as usize, large, &mut self.scratch);
        let step = match lookup.read(&self.scratch, &place.key, session.now_s(now)) {
            // The server said where it is, and it has changed since: what counts is what the server says now.
            Step::Retry | Step::Entry(_) if told => Step::Ask,
            step => step,
        };
        self.go(at, step, sink);
    }

    /// A reply, in `scratch`.
    fn reply_came(&mut self, shard: usize, sink: Sink<'_>) {
        let scratch = std::mem::take(&mut self.scratch);
        if let Some((reply, value)) = Reply::decode(&scratch) {
            self.take_reply(shard, &reply, value, sink);
        }
        self.scratch = scratch;
    }

    fn take_reply(&mut self, shard: usize, reply: &Reply, value: &[u8], sink: Sink<'_>) {
        let at = usize::from(reply.slot);
        let Some(place) = self.places.get_mut(at) else {
            return;
        };
        let is_awaited = matches!(place.state, State::Reply { .. }) && place.sequence == reply.sequence;
        if !is_awaited || place.shard != shard {
            return;
        }
        let outcome = match (reply.status, place.kind) {
            (Status::Stored, Some(OpKind::Put)) => Outcome::Stored,
            (Status::Deleted, Some(OpKind::Delete)) => Outcome::Deleted,
            (Status::NotFound, Some(OpKind::Get | OpKind::Delete)) => Outcome::NotFound,
            (Status::Value, Some(OpKind::Get)) => {
                self.stats.hits += 1;
                self.stats.false_misses += 1;
                Outcome::Value(value)
            }
            (Status::Location, Some(OpKind::Get)) => return self.told(at, &reply.record),
            (Status::Full, _) => Outcome::Refused(Refusal::Full),
            (Status::TooLarge, _) => Outcome::Refused(Refusal::TooLarge),
            _ => Outcome::Refused(Refusal::BadRequest),
        };
        self.finish(at, outcome, sink);
    }

    /// The server says where the record is.
    fn told(&mut self, at: usize, record: &RecordRef) {
        let place = &mut self.places[at];
        let Some(session) = self.links[place.shard].session() else {
            return;
        };
        if !is_within(record, &session.shape) {
            session.broken = true;
            return;
        }
        let lookup = place.lookup.as_mut().expect("a GET that has begun");
        lookup.told(*record);
        self.read_record(at, record, true);
    }

    /// What has completed at `shard`; returns how much.
    fn take_completions(&mut self, cpu: &P::Cpu, shard: usize, sink: Sink<'_>) -> usize {
        let mut wcs = [Wc::default(); BATCH];
        let Some(session) = self.links[shard].session() else {
            return 0;
        };
        let count = session.cq.poll(cpu, &mut wcs);
        for wc in &wcs[..count] {
            self.take_completion(wc, shard, sink);
        }
        count
    }

    fn take_completion(&mut self, wc: &Wc, shard: usize, sink: Sink<'_>) {
        let Some(session) = self.links[shard].session() else {
            return;
        };
        let at = (wc.wr_id.0 & WHICH) as usize;
        if wc.status != WcStatus::Success {
            tracing::debug!(status = ?wc.status, shard, "a queue pair failed");
            session.broken = true;
            return;
        }
        match wc.wr_id.0 & !WHICH {
            SENT => {
                let place = &mut self.places[at];
                place.sending = false;
                if place.state == State::Sending {
                    self.vacate(at);
                }
            }
            ENTRY => self.entry_came(at, sink),
            RECORD => self.record_came(at, sink),
            _ => {
                Session::reply(session, at, wc.byte_len as usize, &mut self.scratch);
                session.expect(at);
                self.reply_came(shard, sink);
            }
        }
    }

    /// Whether some operation waits for time alone.
    fn is_due(&self, now: Ns) -> bool {
        self.stirred || self.in_flight > 0 && self.next_event() <= now
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

impl<P: Provider> KvClient<P> for PilafClient<P> {
    fn submit(&mut self, cpu: &P::Cpu, op: &Op<'_>, token: Token) -> Result<(), SubmitError> {
        let key = op.key();
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Err(SubmitError::BadKey);
        }
        let (value, ttl_s): (&[u8], u32) = match *op {
            Op::Put { value, ttl_s, .. } => (value, ttl_s),
            _ => (&[], 0),
        };
        let item_bytes_max = self
            .links
            .iter_mut()
            .find_map(|link| link.session().map(|s| s.shape.record_bytes_max));
        if item_bytes_max.is_some_and(|max| record_bytes(key.len(), value.len()) > max as usize) {
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
        }
        if self.is_due(now) {
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
