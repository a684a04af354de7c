//! [`Operations`]: the operations of a client and its links: who may begin, whose time is over, what a lost session means.

use super::handshake::{ClientHandshake, Link};
use super::{Operation, Reader, Session, Sink, State};
use crate::request::{Request, RequestKind};
use drover_base::{Cpu, Ns};
use drover_kv::{Completion, KEY_BYTES_MAX, Op, OpKind, Outcome, Refusal, SubmitError, Token};
use drover_rt::control::Dial;
use drover_verbs::{Context, Provider};
use std::rc::Rc;

/// Most places of a client.
const OPERATIONS_MAX: usize = 1024;

/// Shortest and longest rest after something torn; drawn, so that readers do not march in step. *(our choice)*
const REST_MIN: Ns = Ns::from_us(1);
const REST_MAX: Ns = Ns::from_us(8);

/// All of a client but how it reads.
pub struct Operations<P: Provider, R: Reader<P>> {
    /// One to each shard.
    pub links: Vec<Link<P, R::Session>>,
    /// Operations.
    pub list: Vec<Operation<R::Wait, R::GetState>>,
    /// Some operation may be able to go on without anything arriving.
    pub stirred: bool,
    /// Its view of the fabric.
    pub ctx: Rc<P::Context>,
    free: Vec<u32>,
    orders: u64,
    in_flight: usize,
    /// What an operation may take.
    patience: Ns,
}

impl<P: Provider, R: Reader<P>> Operations<P, R> {
    pub(super) fn new(
        ctx: Rc<P::Context>,
        dials: Vec<Dial>,
        window: usize,
        patience: Ns,
    ) -> Operations<P, R> {
        let count = dials.len();
        assert!(count > 0 && window > 0, "a shard and a window at least");
        let posted_max = R::operations_for(ctx.caps().send_depth_max);
        let slots = (window * count).min(OPERATIONS_MAX).min(posted_max);
        let link = |(shard, dial)| ClientHandshake::link(&ctx, dial, shard, count, slots);
        Operations {
            links: dials.into_iter().enumerate().map(link).collect(),
            list: (0..slots).map(|_| Operation::default()).collect(),
            stirred: false,
            free: (0..slots as u32).rev().collect(),
            orders: 0,
            in_flight: 0,
            patience,
            ctx,
        }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// The session of the operation in place `at`.
    pub fn session(&mut self, at: usize) -> Option<&mut R::Session> {
        self.links[self.list[at].shard].session()
    }

    /// Any session tells what is the service's: how long items may be, and the hash, which tells the shard. All shards of a
    /// service have one seed.
    fn any_session(&mut self) -> Option<&mut R::Session> {
        self.links.iter_mut().find_map(Link::session)
    }

    pub(super) fn submit(&mut self, cpu: &P::Cpu, op: &Op<'_>, token: Token) -> Result<(), SubmitError> {
        let key = op.key();
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Err(SubmitError::BadKey);
        }
        let (value, ttl_s): (&[u8], u32) = match *op {
            Op::Put { value, ttl_s, .. } => (value, ttl_s),
            _ => (&[], 0),
        };
        let item_bytes_max = self
            .any_session()
            .map(|session| session.basis().agreed.item_bytes_max);
        if item_bytes_max.is_some_and(|max| R::item_bytes(key.len(), value.len()) > max) {
            return Err(SubmitError::TooLarge);
        }
        let at = self.free.pop().ok_or(SubmitError::WindowFull)? as usize;
        self.orders += 1;
        let place = &mut self.list[at];
        place.key.clear();
        place.key.extend_from_slice(key);
        place.value.clear();
        place.value.extend_from_slice(value);
        (place.kind, place.token, place.ttl_s) = (Some(op.kind()), token, ttl_s);
        (place.order, place.sequence) = (self.orders, self.orders);
        place.deadline = cpu.now() + self.patience;
        place.state = State::Waiting;
        self.in_flight += 1;
        self.stirred = true;
        Ok(())
    }

    /// Says the outcome of an operation, and frees its place as soon as nothing of it is under way.
    pub fn finish(&mut self, at: usize, outcome: Outcome<'_>, sink: Sink<'_>) {
        self.release_large(at);
        if let Some(session) = self.session(at) {
            session.basis_mut().values.leave(at);
        }
        let place = &mut self.list[at];
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
        self.list[at].state = State::Free;
        self.free.push(at as u32);
    }

    /// Gives back the buffer for a long value that a place holds.
    pub fn release_large(&mut self, at: usize) {
        let Some(large) = self.list[at].large.take() else {
            return;
        };
        if let Some(session) = self.session(at) {
            session.basis_mut().values.take_back(large);
            self.stirred = true;
        }
    }

    /// What was read is torn: from the beginning, later.
    pub fn rest(&mut self, at: usize) {
        self.release_large(at);
        let cpu = self.ctx.cpu();
        let span = REST_MAX.0 - REST_MIN.0;
        let until = cpu.now() + REST_MIN + Ns(cpu.random() % span);
        self.list[at].state = State::Backoff { until };
    }

    /// The request of place `at` has been carried.
    pub fn carried(&mut self, at: usize) {
        let place = &mut self.list[at];
        place.sending = false;
        match place.state {
            State::Sending => self.vacate(at),
            State::Asking { .. } => self.stirred = true,
            _ => {}
        }
    }

    /// The session with `shard` is over: reads begin again with the next; updates that were sent are unknown for ever.
    pub(super) fn lost(&mut self, shard: usize, sink: Sink<'_>) {
        for at in 0..self.list.len() {
            let place = &mut self.list[at];
            if place.shard != shard {
                continue;
            }
            (place.sending, place.large) = (false, None);
            match place.state {
                State::Free | State::Waiting => {}
                State::Sending => self.vacate(at),
                State::Reply if place.is_update() => self.finish(at, Outcome::Indeterminate, sink),
                _ => place.state = State::Waiting,
            }
        }
        self.stirred = true;
    }

    /// Its time is over.
    pub(super) fn give_up(&mut self, at: usize, sink: Sink<'_>) {
        let is_idle = self.list[at].is_idle();
        // Whatever it waits for may still come, unless the session ends.
        if !is_idle && let Some(session) = self.session(at) {
            session.basis_mut().agreed.broken = true;
        }
        if is_idle || !self.list[at].is_update() {
            self.finish(at, Outcome::Refused(Refusal::Unavailable), sink);
        }
    }

    /// Whether earlier operations on its key have ended, and there is a session with its key's shard.
    pub(super) fn may_begin(&mut self, at: usize) -> bool {
        let shard_count = self.links.len();
        let mut sessions = self.links.iter_mut().filter_map(Link::session);
        let Some(session) = sessions.next() else {
            return false;
        };
        let place = &mut self.list[at];
        place.hash = session.basis().agreed.hasher.hash(&place.key);
        place.shard = place.hash.partition_index(shard_count);
        if self.session(at).is_none() {
            return false;
        }
        let place = &self.list[at];
        let is_before =
            |other: &Operation<_, _>| other.is_open() && other.order < place.order && other.key == place.key;
        !self.list.iter().any(is_before)
    }

    /// Whether the item of the PUT in place `at` is longer than its shard takes. One that was submitted before there was any
    /// session could not be refused then.
    pub(super) fn is_too_large(&mut self, at: usize) -> bool {
        let place = &self.list[at];
        let item_bytes = R::item_bytes(place.key.len(), place.value.len());
        self.session(at)
            .is_some_and(|session| item_bytes > session.basis().agreed.item_bytes_max)
    }

    /// Sends an update for the only time, and returns what [`Session::send`] did; without space it goes on waiting.
    pub(super) fn send_update(&mut self, at: usize) -> Option<u64> {
        let place = &mut self.list[at];
        let session = self.links[place.shard].session()?;
        let mut request = Request {
            kind: RequestKind::Delete,
            slot: at as u16,
            key_bytes: place.key.len(),
            value_bytes: place.value.len(),
            ttl_s: place.ttl_s,
            sequence: place.sequence,
            value_offset: 0,
        };
        let (mut large, mut value) = (None, &place.value[..]);
        if place.kind == Some(OpKind::Put) {
            request.kind = RequestKind::Put;
            if !session.basis().agreed.fits_message(place.key.len(), value.len()) {
                let values = &mut session.basis_mut().values;
                let buffer = values.lend(at)?;
                values.copy_in(buffer, value);
                (request.kind, request.value_offset) = (RequestKind::PutLarge, values.offset(buffer) as u64);
                (large, value) = (Some(buffer), &[]);
            }
        }
        let sent = session.send(at, &request, &place.key, value);
        self.sent(at, sent, large)
    }

    /// Asks the server what the key has, with space for the value if it `is_long`, and returns what [`Session::send`] did. Without
    /// space, or while the last question of its is still being sent, it goes on wanting to.
    pub(super) fn ask(&mut self, at: usize, is_long: bool) -> Option<u64> {
        self.release_large(at);
        let place = &mut self.list[at];
        place.state = State::Asking { is_long };
        if place.sending {
            return None;
        }
        let session = self.links[place.shard].session()?;
        let large = match is_long {
            false => None,
            true => Some(session.basis_mut().values.lend(at)?),
        };
        self.orders += 1;
        // A question of this place may have been answered before.
        place.sequence = self.orders;
        let values = &mut session.basis_mut().values;
        let request = Request {
            kind: RequestKind::Get,
            slot: at as u16,
            key_bytes: place.key.len(),
            value_bytes: large.map_or(0, |_| values.bytes()),
            ttl_s: 0,
            sequence: place.sequence,
            value_offset: large.map_or(0, |large| values.offset(large) as u64),
        };
        let sent = session.send(at, &request, &place.key, &[]);
        self.sent(at, sent, large)
    }

    fn sent(&mut self, at: usize, sent: Option<u64>, large: Option<u8>) -> Option<u64> {
        let place = &mut self.list[at];
        match sent {
            Some(_) => {
                (place.sending, place.large) = (true, large);
                place.state = State::Reply;
            }
            None => {
                if let (Some(large), Some(session)) = (large, self.session(at)) {
                    session.basis_mut().values.take_back(large);
                }
            }
        }
        sent
    }

    /// Whether some operation waits for time alone, and that has come.
    pub(super) fn is_due(&self, now: Ns) -> bool {
        self.stirred || self.in_flight > 0 && self.next_event() <= now
    }

    /// When an operation's rest or time ends.
    pub(super) fn next_event(&self) -> Ns {
        let open = self.list.iter().filter(|place| place.is_open());
        open.map(Operation::next_event).min().unwrap_or(Ns::MAX)
    }
}
