//! [`Operations`]: the operations of a client and its links: who may begin, whose time is over, what a lost session means.
//!
//! Nothing here looks at all operations unless something has happened that may concern any of them: space, a buffer or a session came
//! free, or a time has come. What can go on by itself is in `ready`; deadlines are in the order of submission, because all
//! operations have equally long.

use super::handshake::{ClientHandshake, Link};
use super::key_order::KeyOrder;
use super::operation::{Operation, State};
use super::{OperationView, Reader, Session, Sink};
use drover_base::{Cpu, Ns};
use drover_kv::{Completion, KEY_BYTES_MAX, Op, OpKind, Outcome, Refusal, SubmitError, Token};
use drover_rt::control::Dial;
use drover_verbs::{Context, Provider};
use std::collections::VecDeque;
use std::rc::Rc;

/// Most places of a client.
const OPERATIONS_MAX: usize = 1024;

/// Shortest and longest rest after something torn; drawn, so that readers do not march in step. *(our choice)*
const REST_MIN: Ns = Ns::from_us(1);
const REST_MAX: Ns = Ns::from_us(8);

/// All of a client but how it reads.
pub struct Operations<P: Provider, R: Reader<P>> {
    /// One to each shard.
    pub(super) links: Vec<Link<P, R::Session>>,
    pub(super) list: Vec<Operation<R::Wait, R::GetState>>,
    order: KeyOrder,
    /// Operations that wait for nothing but to begin.
    ready: VecDeque<u32>,
    /// Any operation may be able to go on without anything arriving.
    pub(super) stirred: bool,
    /// No rest ends before.
    rest_until: Ns,
    ctx: Rc<P::Context>,
    free: Vec<u32>,
    pub(super) sequences: u64,
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
            order: KeyOrder::new(slots),
            ready: VecDeque::with_capacity(slots),
            stirred: false,
            rest_until: Ns::MAX,
            free: (0..slots as u32).rev().collect(),
            sequences: 0,
            in_flight: 0,
            patience,
            ctx,
        }
    }

    /// Places for operations.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(super) fn links(&mut self) -> &mut [Link<P, R::Session>] {
        &mut self.links
    }

    pub(super) fn next_look(&self) -> Ns {
        let looks = self.links.iter().map(|link| link.next_timer());
        looks.min().unwrap_or(Ns::MAX)
    }

    /// The time of this core.
    #[inline]
    pub fn now(&self) -> Ns {
        self.ctx.cpu().now()
    }

    /// The session with `shard`, if it works.
    #[inline]
    pub fn session_with(&mut self, shard: usize) -> Option<&mut R::Session> {
        self.links[shard].session()
    }

    /// The session of the operation in place `at`, if it works.
    #[inline]
    pub fn session(&mut self, at: usize) -> Option<&mut R::Session> {
        self.links[self.list[at].shard].session()
    }

    /// The operation in place `at`, if its session works. If not, the operation begins again with the next session.
    #[inline]
    pub fn view(&mut self, at: usize) -> Option<OperationView<'_, P, R>> {
        let place = &mut self.list[at];
        let session = self.links[place.shard].session()?;
        Some(OperationView {
            at,
            session,
            own: &mut place.own,
            key: &place.key,
            hash: place.hash,
            large: &mut place.large,
            state: &mut place.state,
        })
    }

    /// What is the system's own of the operation in place `at`.
    #[inline]
    pub fn own(&mut self, at: usize) -> &mut R::GetState {
        &mut self.list[at].own
    }

    /// GET, PUT or DELETE.
    #[inline]
    pub fn kind(&self, at: usize) -> OpKind {
        self.list[at].kind
    }

    /// The sequence number of the request whose reply the operation in place `at` waits for, and the buffer that it offers for a long
    /// value; `None`: it waits for no reply.
    #[inline]
    pub fn awaited_reply(&self, at: usize) -> Option<(u64, Option<u8>)> {
        let place = &self.list[at];
        (place.state == State::Reply).then_some((place.sequence, place.large))
    }

    /// Whether a reply of `shard` to request `sequence` of slot `at` is waited for. There need not be such a slot.
    pub fn is_awaited(&self, shard: usize, at: usize, sequence: u64) -> bool {
        let place = self.list.get(at);
        place.is_some_and(|place| {
            place.state == State::Reply && place.sequence == sequence && place.shard == shard
        })
    }

    /// Something came free that any operation may have waited for.
    #[inline]
    pub fn stir(&mut self) {
        self.stirred = true;
    }

    /// A buffer for the long thing that the operation in place `at` is about to READ; `None`: it waits for one, and
    /// [`Reader::read_long`] is called when there may be one. Its session works.
    pub fn lend_for(&mut self, at: usize, wait: R::Wait) -> Option<u8> {
        let session = self.session(at).expect("a session that works");
        let large = session.basis_mut().values.lend(at);
        if large.is_none() {
            self.list[at].state = State::WaitBuffer(wait);
        }
        large
    }

    /// Any session tells what is the service's: how long items may be, and the hash, which tells the shard. All shards of a
    /// service have one seed.
    #[inline]
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
        self.sequences += 1;
        let list = &self.list;
        if self.order.enter(at, key, |other| list[other].key == key) {
            self.ready.push_back(at as u32);
        }
        let place = &mut self.list[at];
        place.key.clear();
        place.key.extend_from_slice(key);
        place.value.clear();
        place.value.extend_from_slice(value);
        (place.kind, place.token, place.ttl_s) = (op.kind(), token, ttl_s);
        place.sequence = self.sequences;
        place.deadline = cpu.now() + self.patience;
        place.state = State::Waiting;
        self.in_flight += 1;
        Ok(())
    }

    /// Says the outcome of an operation, and frees its place as soon as nothing of it is under way.
    ///
    /// # Panics
    /// If it has one already.
    #[inline(always)]
    pub fn finish(&mut self, at: usize, outcome: Outcome<'_>, sink: Sink<'_>) {
        self.release_large(at);
        let place = &mut self.list[at];
        assert!(
            place.is_open(),
            "a second outcome, {outcome:?}, of operation {at}, which is {:?}",
            place.state
        );
        let token = place.token;
        place.state = State::Sending;
        self.in_flight -= 1;
        if !place.sending {
            self.vacate(at);
        }
        let (list, key) = (&self.list, &self.list[at].key);
        if let Some(next) = self.order.leave(at, |other| list[other].key == *key) {
            self.ready.push_back(next as u32);
        }
        sink(Completion { token, outcome });
    }

    #[inline]
    pub(super) fn vacate(&mut self, at: usize) {
        self.list[at].state = State::Free;
        self.free.push(at as u32);
    }

    /// Gives back the buffer for a long value that a place holds.
    #[inline]
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
        let place = &mut self.list[at];
        assert!(
            matches!(place.state, State::Reading(_)),
            "operation {at} rests after {:?}",
            place.state
        );
        place.state = State::Backoff { until };
        self.rest_until = self.rest_until.min(until);
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
            if let Some(session) = self.session(at) {
                session.basis_mut().values.leave(at);
            }
            // Who waits for a buffer behind it may be the next.
            self.stirred = true;
            self.finish(at, Outcome::Refused(Refusal::Unavailable), sink);
        }
    }

    /// Whether the operation in place `at` is the first on its key, and there is a session with its key's shard.
    #[inline]
    pub(super) fn may_begin(&mut self, at: usize) -> bool {
        if !self.order.is_first(at) {
            return false;
        }
        let shard_count = self.links.len();
        let mut sessions = self.links.iter_mut().filter_map(Link::session);
        let Some(session) = sessions.next() else {
            return false;
        };
        let place = &mut self.list[at];
        place.hash = session.basis().agreed.hasher.hash(&place.key);
        place.shard = place.hash.partition_index(shard_count);
        self.session(at).is_some()
    }

    /// Whether the item of the PUT in place `at` is longer than its shard takes. One that was submitted before there was any
    /// session could not be refused then.
    pub(super) fn is_too_large(&mut self, at: usize) -> bool {
        let place = &self.list[at];
        let item_bytes = R::item_bytes(place.key.len(), place.value.len());
        self.session(at)
            .is_some_and(|session| item_bytes > session.basis().agreed.item_bytes_max)
    }

    /// The next of the operations that wait for nothing but to begin.
    #[inline]
    pub(super) fn take_ready(&mut self) -> Option<usize> {
        self.ready.pop_front().map(|at| at as usize)
    }

    /// Whether the operation in place `at` has not begun.
    #[inline]
    pub(super) fn is_waiting(&self, at: usize) -> bool {
        self.list[at].state == State::Waiting
    }

    /// Whether any operation may be able to go on: all are to be looked at.
    #[inline]
    pub(super) fn is_due(&self, now: Ns) -> bool {
        self.stirred || self.next_time() <= now
    }

    /// All operations are looked at now.
    pub(super) fn begin_sweep(&mut self) {
        self.stirred = false;
        self.rest_until = Ns::MAX;
        self.ready.clear();
    }

    /// The operation in place `at` waits on.
    pub(super) fn rests_on(&mut self, until: Ns) {
        self.rest_until = self.rest_until.min(until);
    }

    pub(super) fn state(&self, at: usize) -> State<R::Wait> {
        self.list[at].state
    }

    pub(super) fn is_update(&self, at: usize) -> bool {
        self.list[at].is_update()
    }

    pub(super) fn is_over(&self, at: usize, now: Ns) -> bool {
        now >= self.list[at].deadline
    }

    /// When an operation's rest or time ends.
    #[inline]
    fn next_time(&self) -> Ns {
        match self.order.oldest() {
            Some(oldest) => self.list[oldest].deadline.min(self.rest_until),
            None => Ns::MAX,
        }
    }

    /// When any operation may go on without anything arriving.
    pub(super) fn next_event(&self) -> Ns {
        match self.stirred || !self.ready.is_empty() {
            true => Ns::ZERO,
            false => self.next_time(),
        }
    }
}
