//! [`Caller`]: one call, one result, over any [`KvClient`].

use crate::{Completion, KvClient, Op, Outcome, Refusal, SubmitError};
use drover_base::{Cpu, Ns};
use drover_verbs::{Context, Provider};
use std::rc::Rc;

/// Spins this long for an answer before it sleeps.
const SPIN: Ns = Ns::from_us(50);
/// Longest sleep: a client that waits for its control channel is not woken by it.
const SLEEP_MAX: Ns = Ns::from_ms(1);

/// Why a call has no result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The operation was not taken.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// It certainly did not happen.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Nobody can know whether it happened.
    #[error("the server failed meanwhile: it may or may not have happened")]
    Indeterminate,
}

/// A client that waits for its results, one at a time: for tools and tests.
pub struct Caller<P: Provider, C> {
    client: C,
    ctx: Rc<P::Context>,
}

impl<P: Provider, C: KvClient<P>> Caller<P, C> {
    /// `client`, which works in `ctx`.
    pub fn new(ctx: Rc<P::Context>, client: C) -> Caller<P, C> {
        Caller { client, ctx }
    }

    /// The value of `key`, if there is one.
    ///
    /// # Errors
    /// The call's own.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, CallError> {
        let mut value = None;
        self.call(&Op::Get { key }, &mut |outcome| match outcome {
            Outcome::Value(bytes) => {
                value = Some(bytes.to_vec());
                Ok(true)
            }
            other => was_there(other),
        })?;
        Ok(value)
    }

    /// Stores a value for `ttl_s` seconds (0: for ever).
    ///
    /// # Errors
    /// The call's own.
    pub fn put(&mut self, key: &[u8], value: &[u8], ttl_s: u32) -> Result<(), CallError> {
        self.call(&Op::Put { key, value, ttl_s }, &mut was_there)
            .map(drop)
    }

    /// Removes a key; false if there was none.
    ///
    /// # Errors
    /// The call's own.
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, CallError> {
        self.call(&Op::Delete { key }, &mut was_there)
    }

    /// The client inside.
    pub fn client(&mut self) -> &mut C {
        &mut self.client
    }

    fn call(
        &mut self,
        op: &Op<'_>,
        take: &mut dyn FnMut(Outcome<'_>) -> Result<bool, CallError>,
    ) -> Result<bool, CallError> {
        self.ctx.cpu().refresh();
        self.client.submit(self.ctx.cpu(), op, 0)?;
        let began = self.ctx.cpu().refresh();
        let mut result = None;
        loop {
            let mut poll = || {
                let mut sink = |completion: Completion<'_>| result = Some(take(completion.outcome));
                self.client.poll(self.ctx.cpu(), &mut sink);
            };
            poll();
            let now = self.ctx.cpu().refresh();
            if now.since(began) < SPIN {
                drover_mem::pause();
            } else {
                // Armed first: what arrives after the second look ends the sleep.
                self.ctx.arm();
                poll();
                let until = self.client.next_timer().min(now + SLEEP_MAX);
                match result.is_some() || until <= now {
                    true => self.ctx.disarm(),
                    false => self.ctx.park(until),
                }
            }
            if let Some(result) = result.take() {
                return result;
            }
        }
    }
}

/// Whether there was such a key; an error if nothing is known or nothing was done.
fn was_there(outcome: Outcome<'_>) -> Result<bool, CallError> {
    match outcome {
        Outcome::Value(_) | Outcome::Stored | Outcome::Deleted => Ok(true),
        Outcome::NotFound => Ok(false),
        Outcome::Refused(refusal) => Err(CallError::Refused(refusal)),
        Outcome::Indeterminate => Err(CallError::Indeterminate),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Token;
    use drover_verbs::Device;
    use drover_verbs_suite::loopback::{Loopback, LoopbackDevice};

    /// Answers with what it was made of, in the poll after next.
    struct Answers {
        outcomes: Vec<Outcome<'static>>,
        under_way: Option<(Token, u32)>,
    }

    impl KvClient<Loopback> for Answers {
        fn submit(
            &mut self,
            _: &<Loopback as Provider>::Cpu,
            op: &Op<'_>,
            token: Token,
        ) -> Result<(), SubmitError> {
            if op.key().is_empty() {
                return Err(SubmitError::BadKey);
            }
            self.under_way = Some((token, 2));
            Ok(())
        }

        fn poll(&mut self, _: &<Loopback as Provider>::Cpu, sink: &mut impl FnMut(Completion<'_>)) -> usize {
            match self.under_way.take() {
                Some((token, 0)) => {
                    let outcome = self.outcomes.remove(0);
                    sink(Completion { token, outcome });
                    1
                }
                Some((token, left)) => {
                    self.under_way = Some((token, left - 1));
                    0
                }
                None => 0,
            }
        }

        fn in_flight(&self) -> usize {
            usize::from(self.under_way.is_some())
        }

        fn next_timer(&self) -> Ns {
            Ns::ZERO
        }
    }

    #[test]
    fn every_outcome_is_an_answer_or_an_error() {
        let ctx = Rc::new(LoopbackDevice::new().context().expect("a context"));
        let client = Answers {
            outcomes: vec![
                Outcome::Value(b"v"),
                Outcome::NotFound,
                Outcome::Stored,
                Outcome::Deleted,
                Outcome::NotFound,
                Outcome::Refused(Refusal::Full),
                Outcome::Indeterminate,
            ],
            under_way: None,
        };
        let mut caller = Caller::<Loopback, _>::new(ctx, client);
        assert_eq!(caller.get(b"k"), Ok(Some(b"v".to_vec())));
        assert_eq!(caller.get(b"k"), Ok(None));
        assert_eq!(caller.put(b"k", b"v", 0), Ok(()));
        assert_eq!((caller.delete(b"k"), caller.delete(b"k")), (Ok(true), Ok(false)));
        assert_eq!(caller.put(b"k", b"v", 0), Err(CallError::Refused(Refusal::Full)));
        assert_eq!(caller.put(b"k", b"v", 0), Err(CallError::Indeterminate));
        assert_eq!(caller.get(b""), Err(CallError::Submit(SubmitError::BadKey)));
    }
}
