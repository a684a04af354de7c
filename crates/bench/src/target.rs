//! [`Target`]: whatever answers operations; the only thing that the load generator knows.

use drover_base::Cpu as _;
use drover_kv::{Completion, KvClient, Op, Outcome, SubmitError, Token};
use drover_verbs::{Context as _, Provider};
use std::rc::Rc;

/// Why a target can go on no more. Ends the run.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct TargetError {
    /// In words for people.
    pub what: String,
}

impl TargetError {
    /// An error that says `what`.
    pub fn new(what: impl Into<String>) -> Box<TargetError> {
        Box::new(TargetError { what: what.into() })
    }
}

/// One client's view of a key-value service: batch-shaped, never blocking, for one thread.
pub trait Target {
    /// Stages an operation, or says [`SubmitError::WindowFull`]: poll, then submit again.
    fn submit(&mut self, op: &Op<'_>, token: Token) -> Result<(), SubmitError>;

    /// Sends what is staged and hands every finished operation to `sink`. `draining` says that nothing more
    /// will be submitted until all is finished: a target that waits for whole batches sends what it has.
    fn poll(
        &mut self,
        draining: bool,
        sink: &mut impl FnMut(Token, Outcome<'_>),
    ) -> Result<(), Box<TargetError>>;
}

/// A drover client as a [`Target`], on the core of the context it was made from.
pub struct KvTarget<P: Provider, C: KvClient<P>> {
    ctx: Rc<P::Context>,
    client: C,
    polls: u32,
}

/// A busy client reads the clock, for its timers, once in this many polls.
const POLLS_PER_REFRESH: u32 = 64;

impl<P: Provider, C: KvClient<P>> KvTarget<P, C> {
    /// `client`, which works in `ctx`.
    pub fn new(ctx: Rc<P::Context>, client: C) -> KvTarget<P, C> {
        KvTarget {
            ctx,
            client,
            polls: 0,
        }
    }

    /// The client again.
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
        // When nothing arrived, reading the clock costs no operation anything.
        if finished == 0 || self.polls.is_multiple_of(POLLS_PER_REFRESH) {
            self.ctx.cpu().refresh();
        }
        Ok(())
    }
}

/// Answers everything at once with nothing: what remains is the cost of the driver.
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
