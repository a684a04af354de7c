//! [`Operations`]: the operations and links of a client: when an operation may begin, when it times out, and the
//! effects of a lost session.
//!
//! Most calls touch only the operations concerned. All operations are visited (a sweep) only after an event that may
//! concern any of them: space, a buffer or a session became available, or a timer expired. Operations that can begin
//! at once are in `ready`. All operations have the same timeout, so deadlines are in the order of submission.

use super::execution::State;
use super::operation::Operation;
use super::shard_link::ShardLink;
use super::{ClientOptions, OperationView, Reader, Session, Sink};
use drover_base::{Cpu, Ns};
use drover_control::Dial;
use drover_kv::{
    Completion, ItemInfo, KEY_BYTES_MAX, KeyOrder, Op, OpKind, Outcome, PartitionMap, Refusal, SizeLimits,
    SubmitError, Token,
};
use drover_verbs::{Context, Provider};
use std::collections::VecDeque;
use std::rc::Rc;

/// Maximum number of places of a client.
const OPERATIONS_MAX: usize = 1024;

#[cold]
fn detailed(answer: &[u8]) -> Outcome<'_> {
    match ItemInfo::split(answer) {
        Some((ItemInfo { version, flags }, value)) => Outcome::Found {
            value,
            version,
            flags,
        },
        None => Outcome::Refused(Refusal::BadRequest),
    }
}

/// Shortest and longest backoff after a torn READ; random, so that readers do not retry in lockstep. *(our choice)*
const REST_MIN: Ns = Ns::from_us(1);
const REST_MAX: Ns = Ns::from_us(8);

/// The operations of a client, and its links to the shards: all of a client except the system's [`Reader`]. `at` is the
/// number of an operation in flight: the index of its place.
pub struct Operations<P: Provider, R: Reader<P>> {
    /// Which shard owns a key, as of the newest map of all sessions.
    map: PartitionMap,
    /// One link per shard.
    pub(super) links: Vec<ShardLink<P, R::Session>>,
    pub(super) list: Vec<Operation<R::Wait, R::GetState>>,
    order: KeyOrder,
    /// Operations that can begin at once.
    ready: VecDeque<u32>,
    /// Whether any operation may be able to continue although nothing arrived.
    pub(super) retries_all: bool,
    /// Earliest end of a backoff.
    rest_until: Ns,
    ctx: Rc<P::Context>,
    free: Vec<u32>,
    pub(super) sequences: u64,
    in_flight: usize,
    /// Timeout of an operation.
    patience: Ns,
}

impl<P: Provider, R: Reader<P>> Operations<P, R> {
    pub(super) fn new(
        ctx: Rc<P::Context>,
        dials: Vec<Dial>,
        options: &ClientOptions<R::Miss>,
    ) -> Operations<P, R> {
        let (count, window) = (dials.len(), options.window);
        assert!(count > 0 && window > 0, "a shard and a window at least");
        let posted_max = R::operations_for(ctx.caps().send_depth_max);
        let depth = if options.depth > 0 {
            options.depth
        } else {
            usize::MAX
        };
        let slots = (window * count).min(depth).min(OPERATIONS_MAX).min(posted_max);
        let link = |(shard, dial)| {
            ShardLink::new(
                &ctx,
                dial,
                (shard, count),
                slots,
                (&options.secret, options.transfer),
            )
        };
        Operations {
            map: PartitionMap::even(count),
            links: dials.into_iter().enumerate().map(link).collect(),
            list: (0..slots).map(|_| Operation::default()).collect(),
            order: KeyOrder::new(slots),
            ready: VecDeque::with_capacity(slots),
            retries_all: false,
            rest_until: Ns::MAX,
            free: (0..slots as u32).rev().collect(),
            sequences: 0,
            in_flight: 0,
            patience: options.deadline,
            ctx,
        }
    }

    /// Number of places.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(super) fn links(&mut self) -> &mut [ShardLink<P, R::Session>] {
        &mut self.links
    }

    pub(super) fn next_look(&self) -> Ns {
        let looks = self.links.iter().map(|link| link.next_timer());
        looks.min().unwrap_or(Ns::MAX)
    }

    /// The core that the client runs on.
    #[inline]
    pub fn cpu(&self) -> &P::Cpu {
        self.ctx.cpu()
    }

    /// The current time of the core's clock.
    #[inline]
    pub fn now(&self) -> Ns {
        self.cpu().now()
    }

    /// Number of shards.
    #[inline]
    pub fn shard_count(&self) -> usize {
        self.links.len()
    }

    /// The session with `shard`, if it works.
    #[inline]
    pub fn session_with(&mut self, shard: usize) -> Option<&mut R::Session> {
        self.links[shard].session()
    }

    /// The session with the shard of operation `at`, if it works.
    #[inline]
    pub fn session(&mut self, at: usize) -> Option<&mut R::Session> {
        self.links[self.list[at].submitted.shard].session()
    }

    /// Operation `at`; `None` if its session does not work: the operation begins again with the next session.
    #[inline]
    pub fn view(&mut self, at: usize) -> Option<OperationView<'_, P, R>> {
        let Operation {
            submitted,
            execution,
            own,
        } = &mut self.list[at];
        let session = self.links[submitted.shard].session()?;
        Some(OperationView {
            at,
            session,
            own,
            key: &submitted.key,
            hash: submitted.hash,
            execution,
        })
    }

    /// State that the system's [`Reader`] keeps for operation `at`.
    #[inline]
    pub fn own(&mut self, at: usize) -> &mut R::GetState {
        &mut self.list[at].own
    }

    /// Kind of operation `at`.
    #[inline]
    pub fn kind(&self, at: usize) -> OpKind {
        self.list[at].submitted.kind
    }

    /// Sequence number of the request whose reply operation `at` waits for, and number of the buffer that it has
    /// borrowed for a long value, if any. `None` if it waits for no reply.
    #[inline]
    pub fn awaited_reply(&self, at: usize) -> Option<(u64, Option<u8>)> {
        self.list[at].execution.awaited_reply()
    }

    /// Whether operation `at` waits for a reply of `shard` to its request with this sequence number. `at` may be out of
    /// range.
    pub fn is_awaited(&self, shard: usize, at: usize, sequence: u64) -> bool {
        self.list.get(at).is_some_and(|place| {
            let awaited = place.execution.awaited_reply();
            awaited.is_some_and(|(number, _)| number == sequence) && place.submitted.shard == shard
        })
    }

    /// Makes the next poll visit all operations, because a resource became available that any of them may wait for.
    #[inline]
    pub fn retry_all(&mut self) {
        self.retries_all = true;
    }

    /// Lends operation `at` a buffer for the long record or object that it will READ. `None`: the operation waits, and
    /// [`Reader::read_long`] is called when a buffer may be free.
    ///
    /// # Panics
    /// If the operation's session does not work.
    pub fn lend_for(&mut self, at: usize, wait: R::Wait) -> Option<u8> {
        let session = self.session(at).expect("a session that works");
        let large = session.resources_mut().values.lend(at);
        if large.is_none() {
            self.list[at].execution.wait_for_buffer(wait);
        }
        large
    }

    /// Any working session. Every session knows the properties of the whole service: the item limit, and the hash
    /// seed, which determines a key's shard and is the same for all shards.
    #[inline]
    fn any_session(&mut self) -> Option<&mut R::Session> {
        self.links.iter_mut().find_map(ShardLink::session)
    }

    /// What the service takes under the key of `op`; `None` without a session.
    pub(super) fn size_limits(&mut self, op: &Op<'_>) -> Option<SizeLimits> {
        let item_bytes_max = self.any_session()?.resources().agreed.item_bytes_max;
        let item_bytes = |value_bytes: usize| R::item_bytes(op.key().len(), value_bytes);
        // Items are rounded up to words, so that the difference may be a few bytes too much.
        let most = item_bytes_max.saturating_sub(item_bytes(0));
        let value_bytes = (0..=most)
            .rev()
            .find(|&bytes| item_bytes(bytes) <= item_bytes_max);
        Some(SizeLimits {
            key_bytes: KEY_BYTES_MAX,
            value_bytes: value_bytes.unwrap_or(0),
        })
    }

    pub(super) fn submit(&mut self, cpu: &P::Cpu, op: &Op<'_>, token: Token) -> Result<(), SubmitError> {
        let key = op.key();
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Err(SubmitError::BadKey);
        }
        let item_bytes_max = self
            .any_session()
            .map(|session| session.resources().agreed.item_bytes_max);
        if item_bytes_max.is_some_and(|max| R::item_bytes(key.len(), op.value().len()) > max) {
            return Err(SubmitError::TooLarge);
        }
        let at = self.free.pop().ok_or(SubmitError::WindowFull)? as usize;
        self.sequences += 1;
        let list = &self.list;
        if self
            .order
            .enter(at, key, |other| list[other].submitted.key == key)
        {
            self.ready.push_back(at as u32);
        }
        let place = &mut self.list[at];
        place.submitted.replace(op, token, cpu.now() + self.patience);
        place.execution.submit(self.sequences);
        self.in_flight += 1;
        Ok(())
    }

    /// Passes the outcome of operation `at` to `sink`, and frees its place once none of its requests is in flight.
    ///
    /// # Panics
    /// If the operation already has an outcome.
    #[inline(always)]
    pub fn finish(&mut self, at: usize, outcome: Outcome<'_>, sink: Sink<'_>) {
        self.release_large(at);
        let Operation {
            submitted, execution, ..
        } = &mut self.list[at];
        assert!(
            execution.is_open(),
            "a second outcome, {outcome:?}, of operation {at}, which is {:?}",
            execution.state()
        );
        let token = submitted.token;
        execution.finish();
        self.in_flight -= 1;
        if !execution.is_sending() {
            self.vacate(at);
        }
        let (list, key) = (&self.list, &self.list[at].submitted.key);
        if let Some(next) = self.order.leave(at, |other| list[other].submitted.key == *key) {
            self.ready.push_back(next as u32);
        }
        sink(Completion { token, outcome });
    }

    /// Whether GET `at` asks for version and flags.
    #[inline]
    pub fn is_detailed(&self, at: usize) -> bool {
        self.list[at].submitted.is_detailed
    }

    /// As [`finish`](Operations::finish), for a GET that has found an item.
    #[inline(always)]
    pub fn finish_found(&mut self, at: usize, value: &[u8], info: ItemInfo, sink: Sink<'_>) {
        let ItemInfo { version, flags } = info;
        let outcome = match self.is_detailed(at) {
            false => Outcome::Value(value),
            true => Outcome::Found {
                value,
                version,
                flags,
            },
        };
        self.finish(at, outcome, sink);
    }

    /// As [`finish`](Operations::finish), for a GET that the server has answered with `answer`: the value, behind version
    /// and flags if they were asked for.
    #[inline(always)]
    pub fn finish_answered(&mut self, at: usize, answer: &[u8], sink: Sink<'_>) {
        let outcome = match self.is_detailed(at) {
            false => Outcome::Value(answer),
            true => detailed(answer),
        };
        self.finish(at, outcome, sink);
    }

    #[inline]
    pub(super) fn vacate(&mut self, at: usize) {
        self.list[at].execution.vacate();
        self.free.push(at as u32);
    }

    /// Takes back the buffer that operation `at` has borrowed for a long value, if it has one.
    #[inline]
    pub fn release_large(&mut self, at: usize) {
        let Some(large) = self.list[at].execution.take_large() else {
            return;
        };
        if let Some(session) = self.session(at) {
            session.resources_mut().values.take_back(large);
            self.retries_all = true;
        }
    }

    /// Lets operation `at`, whose READ was torn, pause for a random 1 to 8 us; [`Reader::again`] then restarts it.
    ///
    /// # Panics
    /// If the operation waits for no READ.
    pub fn rest(&mut self, at: usize) {
        self.release_large(at);
        let cpu = self.ctx.cpu();
        let span = REST_MAX.0 - REST_MIN.0;
        let until = cpu.now() + REST_MIN + Ns(cpu.random() % span);
        self.list[at].execution.back_off(at, until);
        self.rest_until = self.rest_until.min(until);
    }

    /// The shard of operation `at` has answered that it does not own the key: the operation begins again, with a newer map
    /// or after a pause, or is refused after too many such answers.
    #[cold]
    pub fn redirect(&mut self, at: usize, sink: Sink<'_>) {
        self.release_large(at);
        let now = self.now();
        if self.list[at].execution.redirect(now).is_none() {
            return self.finish(at, Outcome::Refused(Refusal::Elsewhere), sink);
        }
        // The map may have changed since the operation began.
        self.retries_all = true;
    }

    /// Whether operation `at`, which was redirected until `until`, begins again.
    pub(super) fn goes_on(&mut self, at: usize, until: Ns, now: Ns) -> bool {
        let Operation {
            submitted, execution, ..
        } = &mut self.list[at];
        if execution.is_sending() {
            // When its request has completed.
            return false;
        }
        let goes_on = now >= until || self.map.owner(submitted.hash) != submitted.shard;
        match goes_on {
            true => execution.restart(),
            false => self.rests_on(until),
        }
        goes_on
    }

    /// Takes over the map of the session with `shard`, if it has changed. The newest of all sessions counts: a service that
    /// has restarted begins with epoch 1 again.
    pub(super) fn look_at_map(&mut self, shard: usize) {
        let own = self.map.epoch();
        let epoch = self.links[shard]
            .session()
            .map(|session| session.map().map(PartitionMap::epoch));
        if epoch == Some(Some(own)) || epoch == Some(None) {
            return;
        }
        let sessions = self.links.iter_mut().filter_map(ShardLink::session);
        let maps = sessions.filter_map(|session| session.map());
        let newest = maps.max_by_key(|map| map.epoch());
        if let Some(map) = newest.filter(|map| map.epoch() != own) {
            self.map = map.clone();
            self.retries_all = true;
        }
    }

    /// Handles the end of the session with `shard`: operations begin again with the next session. Updates that were sent
    /// and whose deadline has passed become indeterminate.
    pub(super) fn lost(&mut self, shard: usize, sink: Sink<'_>) {
        let now = self.now();
        for at in 0..self.list.len() {
            let Operation {
                submitted, execution, ..
            } = &mut self.list[at];
            if submitted.shard != shard {
                continue;
            }
            execution.lose_session();
            match execution.state() {
                State::Free | State::Waiting => {}
                State::Sending => self.vacate(at),
                State::Reply if submitted.is_update() => match now < submitted.deadline {
                    true => execution.restart_update(),
                    false => self.finish(at, Outcome::Indeterminate, sink),
                },
                _ => execution.restart(),
            }
        }
        self.retries_all = true;
    }

    /// The new session with `shard` does not go on from the previous one: nobody can know any more what became of updates
    /// that were sent.
    pub(super) fn forget_updates(&mut self, shard: usize, sink: Sink<'_>) {
        for at in 0..self.list.len() {
            let Operation {
                submitted, execution, ..
            } = &self.list[at];
            if execution.is_open() && execution.is_unanswered() && submitted.shard == shard {
                self.finish(at, Outcome::Indeterminate, sink);
            }
        }
    }

    /// Ends an operation whose deadline has passed.
    pub(super) fn give_up(&mut self, at: usize, sink: Sink<'_>) {
        let is_idle = self.list[at].execution.is_idle();
        // Its reply or READ may still arrive, unless the session ends.
        if !is_idle && let Some(session) = self.session(at) {
            session.resources_mut().agreed.broken = true;
        }
        if is_idle || !self.list[at].submitted.is_update() {
            if let Some(session) = self.session(at) {
                session.resources_mut().values.leave(at);
            }
            // The next operation in the buffer's queue may be served now.
            self.retries_all = true;
            let outcome = match self.list[at].execution.is_unanswered() {
                true => Outcome::Indeterminate,
                false => Outcome::Refused(Refusal::Unavailable),
            };
            self.finish(at, outcome, sink);
        }
    }

    /// Whether the operation in place `at` is the first on its key, and the session with the key's shard works.
    #[inline]
    pub(super) fn may_begin(&mut self, at: usize) -> bool {
        if !self.order.is_first(at) {
            return false;
        }
        if self.list[at].execution.is_unanswered() {
            // Another shard, which a new seed of the hash may name, knows nothing of it.
            return self.session(at).is_some();
        }
        let mut sessions = self.links.iter_mut().filter_map(ShardLink::session);
        let Some(session) = sessions.next() else {
            return false;
        };
        let submitted = &mut self.list[at].submitted;
        submitted.hash = session.resources().agreed.hasher.hash(&submitted.key);
        submitted.shard = self.map.owner(submitted.hash);
        self.session(at).is_some()
    }

    /// The next operation that can begin at once.
    #[inline]
    pub(super) fn take_ready(&mut self) -> Option<usize> {
        self.ready.pop_front().map(|at| at as usize)
    }

    /// Whether the last request of operation `at` was posted and [has not completed](Operations::carried), as far as is
    /// known.
    #[inline]
    pub fn is_sending(&self, at: usize) -> bool {
        self.list[at].execution.is_sending()
    }

    /// Whether the operation in place `at` has not begun.
    #[inline]
    pub(super) fn is_waiting(&self, at: usize) -> bool {
        self.list[at].execution.state() == State::Waiting
    }

    /// Whether a sweep is due.
    #[inline]
    pub(super) fn is_due(&self, now: Ns) -> bool {
        self.retries_all || self.next_time() <= now
    }

    /// Resets the reasons for a sweep; the caller sweeps.
    pub(super) fn begin_sweep(&mut self) {
        self.retries_all = false;
        self.rest_until = Ns::MAX;
        self.ready.clear();
    }

    /// Records that the backoff of an operation lasts until `until`.
    pub(super) fn rests_on(&mut self, until: Ns) {
        self.rest_until = self.rest_until.min(until);
    }

    pub(super) fn state(&self, at: usize) -> State<R::Wait> {
        self.list[at].execution.state()
    }

    pub(super) fn is_update(&self, at: usize) -> bool {
        self.list[at].submitted.is_update()
    }

    pub(super) fn is_over(&self, at: usize, now: Ns) -> bool {
        now >= self.list[at].submitted.deadline
    }

    /// Earliest end of a backoff or deadline.
    #[inline]
    fn next_time(&self) -> Ns {
        match self.order.oldest() {
            Some(oldest) => self.list[oldest].submitted.deadline.min(self.rest_until),
            None => Ns::MAX,
        }
    }

    /// Earliest time at which an operation may continue although nothing arrives.
    pub(super) fn next_event(&self) -> Ns {
        match self.retries_all || !self.ready.is_empty() {
            true => Ns::ZERO,
            false => self.next_time(),
        }
    }
}
