//! [`Client`]: GETs by READs, everything else by requests.
//!
//! An operation has a place, whose index is its slot: it has its own buffers, and at most one request of its own at a time.
//! What it waits for, and how it begins and ends, the [`Operations`] know and nobody else changes; what is read next, the system's
//! [`Reader`] says. Operations on one key go one after the other.

mod fair_buffers;
mod handshake;
mod key_order;
mod operation;
mod operation_view;
mod operations;
mod requests;
mod service;
mod session;

pub use operation_view::OperationView;
pub use operations::Operations;
pub use session::{Agreed, ConnResources, Session, VALUES_MAX, Values};

use drover_base::{Cpu, Ns};
use drover_kv::SetupError;
use drover_kv::{Completion, KvClient, Op, Outcome, Reads, Refusal, SubmitError, Token};
use drover_rt::control::Dial;
use drover_verbs::{Provider, Wc, WcStatus};
use operation::State;
use std::fmt::Debug;
use std::rc::Rc;

/// Completions taken at a time.
const BATCH: usize = 32;

/// Where outcomes go.
pub type Sink<'a> = &'a mut dyn FnMut(Completion<'_>);

/// How a client wants to work. `M` says what to do when a key is nowhere.
#[derive(Clone, Debug)]
pub struct ClientOptions<M> {
    /// Operations under way per shard, at most 1024 in all.
    pub window: usize,
    /// An operation that has no result after this time gets `Indeterminate` or `Refused(Unavailable)`.
    pub deadline: Ns,
    /// What to do when a key is nowhere.
    pub miss: M,
}

impl<M: Default> Default for ClientOptions<M> {
    fn default() -> ClientOptions<M> {
        ClientOptions {
            window: 16,
            deadline: Ns::from_s(5),
            miss: M::default(),
        }
    }
}

/// A system's own half of a client: what it reads, and how it takes what comes back.
pub trait Reader<P: Provider>: Sized {
    /// What it has with each shard.
    type Session: Session<P>;
    /// What an operation may wait for by READ.
    type Wait: Copy + PartialEq + Debug;
    /// What it keeps for an operation.
    type GetState: Default;
    /// What to do when a key is nowhere.
    type Miss: Clone + Default;
    /// What it counts.
    type Stats: Copy;

    /// How many places a send queue of `depth` requests is enough for, at least 1.
    fn operations_for(depth: usize) -> usize;

    /// Bytes of an item, as the server counts them against its longest.
    fn item_bytes(key_bytes: usize, value_bytes: usize) -> usize;

    /// A reader for as many places.
    fn new(places: usize, miss: Self::Miss) -> Self;

    /// Counters.
    fn stats(&self) -> Self::Stats;

    /// Those of them that every such system has.
    fn reads(stats: &Self::Stats) -> Reads;

    /// The GET in place `at` begins; its session stands.
    fn begin(&mut self, ops: &mut Operations<P, Self>, at: usize);

    /// It begins again, after a rest.
    fn again(&mut self, ops: &mut Operations<P, Self>, at: usize);

    /// There may be a buffer for the long thing that place `at` was about to READ.
    fn read_long(&mut self, ops: &mut Operations<P, Self>, at: usize, wait: Self::Wait);

    /// The request of place `at` is staged; `sent` is what [`Session::send`] said.
    fn sent(&mut self, ops: &mut Operations<P, Self>, at: usize, sent: u64);

    /// Asks the server what the key has, with space for the value if it `is_long`.
    fn ask(&mut self, ops: &mut Operations<P, Self>, at: usize, is_long: bool) {
        if let Some(sent) = ops.ask(at, is_long) {
            self.sent(ops, at, sent);
        }
    }

    /// Something has completed at `shard`, with which there is a session that works.
    fn completed(&mut self, ops: &mut Operations<P, Self>, shard: usize, wc: &Wc, sink: Sink<'_>);

    /// All that has completed at `shard` has been taken.
    fn polled(&mut self, ops: &mut Operations<P, Self>, shard: usize) {
        let _ = (ops, shard);
    }

    /// Takes replies that do not come as completions.
    fn take_replies(&mut self, ops: &mut Operations<P, Self>, sink: Sink<'_>) {
        let _ = (ops, sink);
    }

    /// The control channel of a session has been looked at.
    fn looked(&mut self, session: &mut Self::Session) {
        let _ = session;
    }

    /// A session is over, and its operations know it.
    fn lost(&mut self, ops: &mut Operations<P, Self>) {
        let _ = ops;
    }
}

/// A client of all shards of a service, for one thread.
pub struct Client<P: Provider, R: Reader<P>> {
    ops: Operations<P, R>,
    reader: R,
    /// Where completions are put when they are polled.
    wcs: Box<[Wc]>,
}

impl<P: Provider, R: Reader<P>> Client<P, R> {
    /// A client of the shards behind `dials`, in the order of the service's shards. Connects while it is polled.
    ///
    /// # Panics
    /// If there are no shards, or the window is 0.
    pub fn new(ctx: Rc<P::Context>, dials: Vec<Dial>, options: ClientOptions<R::Miss>) -> Client<P, R> {
        let ops = Operations::new(ctx, dials, options.window, options.deadline);
        let reader = R::new(ops.len(), options.miss);
        let wcs = vec![Wc::default(); BATCH].into();
        Client { ops, reader, wcs }
    }

    /// Whether it has a session with every shard.
    pub fn is_ready(&mut self) -> bool {
        self.ops.links().iter_mut().all(|link| link.session().is_some())
    }

    /// Why a shard could not be reached last.
    pub fn take_error(&mut self) -> Option<SetupError> {
        self.ops.links().iter_mut().find_map(|link| link.take_error())
    }

    /// Counters.
    pub fn stats(&self) -> R::Stats {
        self.reader.stats()
    }

    /// Looks after the link to `shard`.
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
        if let Some(session) = self.ops.session_with(shard) {
            self.reader.looked(session);
            if !was_up {
                self.ops.stir();
            }
        }
    }

    #[inline]
    fn take_completions(&mut self, cpu: &P::Cpu, shard: usize, sink: Sink<'_>) {
        let Some(session) = self.ops.session_with(shard) else {
            return;
        };
        let count = session.basis_mut().queues.poll(cpu, &mut self.wcs);
        for wc in &self.wcs[..count] {
            // What came before may have shown that the session is of no more use.
            let Some(session) = self.ops.session_with(shard) else {
                return;
            };
            if wc.status != WcStatus::Success {
                tracing::debug!(status = ?wc.status, shard, "a queue pair failed");
                session.basis_mut().agreed.broken = true;
                return;
            }
            self.reader.completed(&mut self.ops, shard, wc, sink);
        }
        self.reader.polled(&mut self.ops, shard);
    }

    /// Begins what can begin.
    #[inline]
    fn advance(&mut self, now: Ns, sink: Sink<'_>) {
        if self.ops.is_due(now) {
            return self.sweep(now, sink);
        }
        while let Some(at) = self.ops.take_ready() {
            // Not if a sweep has begun it meanwhile.
            if self.ops.is_waiting(at) {
                self.begin(at, sink);
            }
        }
    }

    /// Looks at all operations: begins whatever can begin, and ends what took too long.
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
                State::Reading(_) | State::Reply => {}
            }
            if self.ops.is_over(at, now) {
                self.ops.give_up(at, sink);
            }
        }
    }

    /// A copy of its own, so that the usual way has the other one in line.
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
        if self.ops.is_too_large(at) {
            return self.ops.finish(at, Outcome::Refused(Refusal::TooLarge), sink);
        }
        if let Some(sent) = self.ops.send_update(at) {
            self.reader.sent(&mut self.ops, at, sent);
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
        self.ops.next_event().min(self.ops.next_look())
    }
}
