//! [`Client`]: GETs by READs; updates, and GETs that READs cannot answer, by requests.
//!
//! Each operation occupies a place. The place's index is also its slot in messages and buffers: it has its own
//! buffers, and at most one request of its own in flight. [`Operations`] alone begins and ends operations and changes
//! their states; the system's [`Reader`] decides what to READ next. Operations on the same key run one after the
//! other.

mod execution;
mod fair_buffers;
mod handshake;
mod operation;
mod operation_view;
mod operations;
mod requests;
mod service;
mod session;
mod shard_link;

pub use operation_view::OperationView;
pub use operations::Operations;
pub use session::{Agreed, ConnResources, Session, VALUES_MAX, Values};

use drover_base::{Cpu, Ns};
use drover_control::Dial;
use drover_kv::SetupError;
use drover_kv::{
    Calls, Completion, ConnectOptions, KvClient, Op, Outcome, Reads, ResultTransfer, SizeLimits, SubmitError,
    Token,
};
use drover_verbs::{Provider, Wc, WcStatus};
use execution::State;
use std::fmt::Debug;
use std::rc::Rc;

/// Maximum number of completions per poll.
const BATCH: usize = 32;

/// Callback that receives the outcome of every operation, once.
pub type Sink<'a> = &'a mut dyn FnMut(Completion<'_>);

/// Options of a client. `M` is the system's policy for keys that READs do not find.
#[derive(Clone, Debug)]
pub struct ClientOptions<M> {
    /// Number of operations in flight, divided by the number of shards; at least 1. The client admits `window` times
    /// the number of shards at a time, whichever shards they go to, but at most 1024, and at most as many as one send
    /// queue of the device suffices for.
    pub window: usize,
    /// Most operations in flight, if that is less than what `window` allows; 0: no such limit. Each session has slots for
    /// all of them, because all may go to one shard.
    pub depth: usize,
    /// Time from `submit` until an operation without a result is given up. A PUT or DELETE that was sent then completes
    /// as `Indeterminate`, any other operation as `Refused(Unavailable)`. If a READ or request of it is in flight, the
    /// client also ends the session with that shard, and connects again.
    pub deadline: Ns,
    /// What the client does about keys that READs do not find: the system's policy, such as asking the server.
    pub miss: M,
    /// The secret that the server's operator requires, at most 256 bytes; empty: none.
    pub secret: Vec<u8>,
    /// How results come to the client, in systems that know several ways.
    pub transfer: ResultTransfer,
}

impl<M: Default> Default for ClientOptions<M> {
    fn default() -> ClientOptions<M> {
        ClientOptions {
            window: 16,
            depth: 0,
            deadline: Ns::from_s(5),
            miss: M::default(),
            secret: Vec::new(),
            transfer: ResultTransfer::Auto,
        }
    }
}

/// The system's part of a client: which READs to issue, and how to handle their results. Operations in flight are
/// numbered: `at` is such a number, the operation's *place*; its session is the one with the shard of its key. A
/// session *works* if it is established and not broken.
pub trait Reader<P: Provider>: Sized {
    /// The client's state at one shard.
    type Session: Session<P>;
    /// Names the READ that an operation waits for.
    type Wait: Copy + PartialEq + Debug;
    /// The reader's state of an operation.
    type GetState: Default;
    /// Policy for keys that READs do not find.
    type Miss: Clone + Default;
    /// The reader's counters.
    type Stats: Copy;

    /// The policy that the caller's options ask for.
    fn policy(options: &ConnectOptions) -> Self::Miss {
        let _ = options;
        Self::Miss::default()
    }

    /// Number of operations at a time, at least 1, that a send queue of `depth` requests suffices for.
    fn operations_for(depth: usize) -> usize;

    /// Length of an item in bytes, counted like the server's item limit.
    fn item_bytes(key_bytes: usize, value_bytes: usize) -> usize;

    /// Creates a reader for at most `places` operations at a time, which treats keys that READs do not find by policy
    /// `miss`.
    fn new(places: usize, miss: Self::Miss) -> Self;

    /// The reader's counters.
    fn stats(&self) -> Self::Stats;

    /// Converts the system's counters to those that all one-sided systems share.
    fn reads(stats: &Self::Stats) -> Reads;

    /// What the calls took, of lost sessions and of those that work; `None` if the system's results come in one way only.
    fn calls<'a>(&self, sessions: impl Iterator<Item = &'a Self::Session>) -> Option<Calls>
    where
        Self::Session: 'a,
    {
        let _ = sessions;
        None
    }

    /// Begins GET number `at`, whose session works: stages its first READ.
    fn begin(&mut self, ops: &mut Operations<P, Self>, at: usize);

    /// Begins the READs of GET number `at` again, after a backoff.
    fn again(&mut self, ops: &mut Operations<P, Self>, at: usize);

    /// Called when a buffer may be free for the long record or object that GET number `at` waits to READ; `wait` names
    /// that READ.
    fn read_long(&mut self, ops: &mut Operations<P, Self>, at: usize, wait: Self::Wait);

    /// Called after the request of operation `at` was staged; `sent` is the result of [`Session::send`].
    fn sent(&mut self, ops: &mut Operations<P, Self>, at: usize, sent: u64);

    /// Sends a request for GET number `at` to the server, at once or as soon as there is space. If the value `is_long`,
    /// the request lends the server a buffer for it.
    fn ask(&mut self, ops: &mut Operations<P, Self>, at: usize, is_long: bool) {
        if let Some(sent) = ops.ask(at, is_long) {
            self.sent(ops, at, sent);
        }
    }

    /// Handles a successful completion from the queue pair to `shard`, whose session works.
    fn completed(&mut self, ops: &mut Operations<P, Self>, shard: usize, wc: &Wc, sink: Sink<'_>);

    /// Called after all completions of one poll of `shard` were handled.
    fn polled(&mut self, ops: &mut Operations<P, Self>, shard: usize) {
        let _ = (ops, shard);
    }

    /// Handles replies that do not arrive as completions, but in memory; called in every poll of the client.
    fn take_replies(&mut self, ops: &mut Operations<P, Self>, sink: Sink<'_>) {
        let _ = (ops, sink);
    }

    /// When the client must be polled though nothing has arrived, besides operations and links; asked after each poll.
    fn next_timer(&self) -> Ns {
        Ns::MAX
    }

    /// Called after the control channel of a session was polled.
    fn control_polled(&mut self, session: &mut Self::Session) {
        let _ = session;
    }

    /// Called after a session ended and its operations were updated.
    fn lost(&mut self, ops: &mut Operations<P, Self>) {
        let _ = ops;
    }
}

/// A client of all shards of a service, of the system to which the [`Reader`] belongs. It belongs to one thread, and
/// makes progress while that thread polls it.
pub struct Client<P: Provider, R: Reader<P>> {
    ops: Operations<P, R>,
    reader: R,
    /// Buffer for polled completions.
    wcs: Box<[Wc]>,
}

impl<P: Provider, R: Reader<P>> Client<P, R> {
    /// Creates a client of a service; `dials[i]` says how to reach shard i. The client connects while it is polled.
    ///
    /// # Panics
    /// If there are no shards, or the window is 0.
    pub fn new(ctx: Rc<P::Context>, dials: Vec<Dial>, options: ClientOptions<R::Miss>) -> Client<P, R> {
        let ops = Operations::new(ctx, dials, &options);
        let reader = R::new(ops.len(), options.miss);
        let wcs = vec![Wc::default(); BATCH].into();
        Client { ops, reader, wcs }
    }

    /// Whether the client has a session with every shard.
    pub fn is_ready(&mut self) -> bool {
        self.ops.links().iter_mut().all(|link| link.session().is_some())
    }

    fn size_limits(&mut self, op: &Op<'_>) -> Option<SizeLimits> {
        self.ops.size_limits(op)
    }

    /// Takes an error that was not taken yet: of connecting to a shard, or of a session that ended. `None` if there is
    /// none. Only the last error of each shard is kept; that of the shard with the lowest index is returned.
    pub fn take_error(&mut self) -> Option<SetupError> {
        self.ops.links().iter_mut().find_map(|link| link.take_error())
    }

    /// The system's counters of this client since its creation, all shards together.
    pub fn stats(&self) -> R::Stats {
        self.reader.stats()
    }

    /// See [`ServiceClient::calls`](drover_kv::ServiceClient::calls).
    fn calls(&mut self) -> Option<Calls> {
        let sessions = self.ops.links.iter_mut().filter_map(|link| link.session());
        self.reader.calls(sessions.map(|session| &*session))
    }

    /// Polls the link to `shard`.
    fn poll(&mut self, shard: usize, now: Ns, sink: Sink<'_>) {
        let link = &mut self.ops.links()[shard];
        if now < link.next_timer() {
            return;
        }
        let was_up = link.session().is_some();
        if link.poll(now) {
            self.ops.lost(shard, sink);
            self.reader.lost(&mut self.ops);
        }
        self.ops.look_at_map(shard);
        if let Some(session) = self.ops.session_with(shard) {
            self.reader.control_polled(session);
            if !was_up {
                if !session.resources().agreed.goes_on {
                    self.ops.forget_updates(shard, sink);
                }
                self.ops.retry_all();
            }
        }
    }

    #[inline]
    fn take_completions(&mut self, cpu: &P::Cpu, shard: usize, sink: Sink<'_>) {
        let Some(session) = self.ops.session_with(shard) else {
            return;
        };
        let count = session.resources_mut().queues.poll(cpu, &mut self.wcs);
        for wc in &self.wcs[..count] {
            // An earlier completion may have shown that the session is broken.
            let Some(session) = self.ops.session_with(shard) else {
                return;
            };
            if wc.status != WcStatus::Success {
                let session = session.resources_mut();
                tracing::debug!(
                    status = wc.status.name(),
                    shard,
                    session = session.agreed.id,
                    operation = wc.wr_id.0,
                    "the queue pair to a shard failed"
                );
                session.agreed.broken = true;
                return;
            }
            self.reader.completed(&mut self.ops, shard, wc, sink);
        }
        self.reader.polled(&mut self.ops, shard);
    }

    /// Begins all operations that can begin.
    #[inline]
    fn advance(&mut self, now: Ns, sink: Sink<'_>) {
        if self.ops.is_due(now) {
            return self.sweep(now, sink);
        }
        while let Some(at) = self.ops.take_ready() {
            // A sweep may have begun it in the meantime.
            if self.ops.is_waiting(at) {
                self.begin(at, sink);
            }
        }
    }

    /// Visits all operations: begins those that can begin, and fails those past their deadline.
    #[cold]
    #[inline(never)]
    fn sweep(&mut self, now: Ns, sink: Sink<'_>) {
        self.ops.begin_sweep();
        for at in 0..self.ops.len() {
            match self.ops.state(at) {
                State::Free | State::Sending => continue,
                State::Waiting => self.begin_in_sweep(at, sink),
                State::Asking { is_long } => self.reader.ask(&mut self.ops, at, is_long),
                State::WaitBuffer(wait) => self.reader.read_long(&mut self.ops, at, wait),
                State::Backoff { until } if now >= until => self.reader.again(&mut self.ops, at),
                State::Backoff { until } => self.ops.rests_on(until),
                State::Redirected { until } => {
                    if self.ops.goes_on(at, until, now) {
                        self.begin_in_sweep(at, sink);
                    }
                }
                State::Reading(_) | State::Reply => {}
            }
            if self.ops.is_over(at, now) {
                self.ops.give_up(at, sink);
            }
        }
    }

    /// A separate copy of `begin`, so that the compiler inlines the one on the fast path.
    #[inline(never)]
    fn begin_in_sweep(&mut self, at: usize, sink: Sink<'_>) {
        self.begin(at, sink);
    }

    #[inline(always)]
    fn begin(&mut self, at: usize, sink: Sink<'_>) {
        if !self.ops.may_begin(at) {
            return;
        }
        if !self.ops.is_update(at) {
            return self.reader.begin(&mut self.ops, at);
        }
        match self.ops.send_update(at) {
            Ok(Some(sent)) => self.reader.sent(&mut self.ops, at, sent),
            Ok(None) => {}
            Err(refusal) => self.ops.finish(at, Outcome::Refused(refusal), sink),
        }
    }
}

impl<P: Provider, R: Reader<P>> KvClient<P> for Client<P, R> {
    fn submit(&mut self, cpu: &P::Cpu, op: &Op<'_>, token: Token) -> Result<(), SubmitError> {
        self.ops.submit(cpu, op, token)
    }

    fn poll(&mut self, cpu: &P::Cpu, sink: &mut impl FnMut(Completion<'_>)) -> usize {
        let now = cpu.now();
        let mut done = 0;
        let mut sink = |completion: Completion<'_>| {
            done += 1;
            sink(completion);
        };
        for shard in 0..self.ops.links().len() {
            self.poll(shard, now, &mut sink);
            self.take_completions(cpu, shard, &mut sink);
        }
        self.reader.take_replies(&mut self.ops, &mut sink);
        self.advance(now, &mut sink);
        for link in self.ops.links() {
            if let Some(session) = link.session() {
                session.post(cpu);
            }
        }
        done
    }

    fn in_flight(&self) -> usize {
        self.ops.in_flight()
    }

    fn next_timer(&self) -> Ns {
        let ops = self.ops.next_event().min(self.ops.next_look());
        ops.min(self.reader.next_timer())
    }
}
