//! [`Target`]: anything that executes operations; all that the load generator knows.

use drover_base::{Cpu as _, Ns};
use drover_kv::{Calls, Completion, KvClient, Op, Outcome, Reads, SubmitError, Token, Verbs};
use drover_rt::{Idle, Waiting};
use drover_verbs::{Context as _, Provider};
use std::rc::Rc;

/// Fatal failure of a target, which ends the run.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct TargetError {
    /// Description of the failure, for people.
    pub what: String,
}

impl TargetError {
    /// An error with the description `what`.
    pub fn new(what: impl Into<String>) -> Box<TargetError> {
        Box::new(TargetError { what: what.into() })
    }
}

/// A client of a key-value service, as the load generator drives it, on one thread: operations are submitted, and
/// finish in later polls.
pub trait Target {
    /// Stages an operation, whose completion will carry `token`. The target may send it at once, or leave that to the
    /// next [`poll`](Target::poll).
    ///
    /// # Errors
    /// [`SubmitError::WindowFull`]: poll, then submit again. Any other error ends the run.
    fn submit(&mut self, op: &Op<'_>, token: Token) -> Result<(), SubmitError>;

    /// Sends staged operations, receives replies, and passes the token and outcome of every operation that has finished
    /// to `sink`. Does not wait for replies, unless the target [sleeps](KvTarget). With `draining` the
    /// caller submits nothing more until all operations are finished, so a target that collects batches must send
    /// incomplete ones, too.
    ///
    /// # Errors
    /// The target failed.
    fn poll(
        &mut self,
        draining: bool,
        sink: &mut impl FnMut(Token, Outcome<'_>),
    ) -> Result<(), Box<TargetError>>;

    /// Counts of GETs and READs since the target was made; `None` (the default) if the target does not count them.
    fn reads(&self) -> Option<Reads> {
        None
    }

    /// Counts of all that the target has asked a fabric for; `None` (the default) if the target does not count that.
    fn verbs(&self) -> Option<Verbs> {
        None
    }

    /// What calls have taken since the target was made; `None` (the default) if the target does not count them.
    fn calls(&mut self) -> Option<Calls> {
        None
    }
}

/// A drover client as a [`Target`]. Owns the client, and shares the context in which it was made, on the same thread.
pub struct KvTarget<P: Provider, C: KvClient<P>> {
    ctx: Rc<P::Context>,
    client: C,
    polls: u32,
    waiting: Waiting,
    reads: Option<fn(&C) -> Reads>,
    verbs: Option<fn(&C) -> Option<Verbs>>,
    calls: Option<fn(&mut C) -> Option<Calls>>,
}

/// A busy client reads the clock, for its timers, once in this many polls.
const POLLS_PER_REFRESH: u32 = 64;

impl<P: Provider, C: KvClient<P>> KvTarget<P, C> {
    /// Wraps `client`, which must have been made in `ctx`. In a poll without result while operations are in flight, the
    /// target waits as [`Idle::ADAPTIVE`] says, and counts no READs: see [`waiting_as`](KvTarget::waiting_as) and
    /// [`counting`](KvTarget::counting).
    pub fn new(ctx: Rc<P::Context>, client: C) -> KvTarget<P, C> {
        KvTarget {
            ctx,
            client,
            polls: 0,
            waiting: Waiting::new(Idle::ADAPTIVE),
            reads: None,
            verbs: None,
            calls: None,
        }
    }

    /// Makes [`Target::reads`] return the client's counts of GETs and READs, which `reads` takes from the client.
    pub fn counting(mut self, reads: fn(&C) -> Reads) -> KvTarget<P, C> {
        self.reads = Some(reads);
        self
    }

    /// Makes [`Target::verbs`] return what `verbs` takes from the client.
    pub fn counting_verbs(mut self, verbs: fn(&C) -> Option<Verbs>) -> KvTarget<P, C> {
        self.verbs = Some(verbs);
        self
    }

    /// Makes [`Target::calls`] return what `calls` takes from the client.
    pub fn counting_calls(mut self, calls: fn(&mut C) -> Option<Calls>) -> KvTarget<P, C> {
        self.calls = Some(calls);
        self
    }

    /// Makes the target wait as `idle` says.
    pub fn waiting_as(mut self, idle: Idle) -> KvTarget<P, C> {
        self.waiting = Waiting::new(idle);
        self
    }

    /// Handles a poll without result: lets others use the core, or sleeps, if it is time.
    #[cold]
    fn rest(&mut self, now: Ns, sink: &mut impl FnMut(Completion<'_>)) {
        if self.client.in_flight() == 0 || self.waiting.rest::<P>(&self.ctx, now).is_none() {
            return;
        }
        self.ctx.arm();
        let finished = self.client.poll(self.ctx.cpu(), sink);
        let until = self.client.next_timer();
        match finished > 0 || until <= now {
            true => self.ctx.disarm(),
            false => self.ctx.park(until),
        }
        self.waiting.quiet_ended();
    }

    /// Consumes the target and returns its client.
    pub fn into_client(self) -> C {
        self.client
    }
}

impl<P: Provider, C: KvClient<P>> Target for KvTarget<P, C> {
    #[inline]
    fn submit(&mut self, op: &Op<'_>, token: Token) -> Result<(), SubmitError> {
        self.client.submit(self.ctx.cpu(), op, token)
    }

    #[inline]
    fn poll(
        &mut self,
        _draining: bool,
        sink: &mut impl FnMut(Token, Outcome<'_>),
    ) -> Result<(), Box<TargetError>> {
        let sink = &mut |done: Completion<'_>| sink(done.token, done.outcome);
        let finished = self.client.poll(self.ctx.cpu(), sink);
        self.polls = self.polls.wrapping_add(1);
        if finished > 0 {
            self.waiting.quiet_ended();
        }
        // When nothing arrived, a clock read delays no operation.
        if finished == 0 || self.polls.is_multiple_of(POLLS_PER_REFRESH) {
            let now = self.ctx.cpu().refresh();
            match finished {
                0 => self.rest(now, sink),
                _ if self.waiting.worked(now) => self.waiting.give_way::<P>(&self.ctx, now),
                _ => {}
            }
        }
        Ok(())
    }

    fn reads(&self) -> Option<Reads> {
        self.reads.map(|reads| reads(&self.client))
    }

    fn verbs(&self) -> Option<Verbs> {
        self.verbs.and_then(|verbs| verbs(&self.client))
    }

    fn calls(&mut self) -> Option<Calls> {
        self.calls.and_then(|calls| calls(&mut self.client))
    }
}

/// Target that does nothing, to measure the cost of the load generator: each operation finishes in the next poll, PUTs
/// as stored, all others as not found. The number of operations in flight is not limited.
#[derive(Debug, Default)]
pub struct NullTarget {
    tokens: Vec<(Token, bool)>,
}

impl Target for NullTarget {
    #[inline]
    fn submit(&mut self, op: &Op<'_>, token: Token) -> Result<(), SubmitError> {
        let put = std::hint::black_box(op).kind() == drover_kv::OpKind::Put;
        self.tokens.push((token, put));
        Ok(())
    }

    #[inline]
    fn poll(&mut self, _: bool, sink: &mut impl FnMut(Token, Outcome<'_>)) -> Result<(), Box<TargetError>> {
        for &(token, put) in &self.tokens {
            sink(token, if put { Outcome::Stored } else { Outcome::NotFound });
        }
        self.tokens.clear();
        Ok(())
    }
}
