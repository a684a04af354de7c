//! [`BlockingClient`]: one call, one result.

use super::asynch::OpError;
use super::{ClientOptions, ClientStats, Dial, HerdClient, SetupError};
use drover_base::{Cpu, Ns};
use drover_kv::{KvClient, Op, Outcome, SubmitError};
use drover_verbs::{Context, Provider};
use std::rc::Rc;

/// Spins this long for an answer before it sleeps. A reply takes microseconds, a wake-up some 30.
const SPIN: Ns = Ns::from_us(50);

/// A client that waits for its results: spins a little, then sleeps. For tools and tests, and for applications
/// with threads to spare; `get_many` and `execute_batch` keep the window full.
pub struct BlockingClient<P: Provider> {
    client: HerdClient<P>,
    ctx: Rc<P::Context>,
    parks: u64,
}

impl<P: Provider> BlockingClient<P> {
    /// Connects; see [`HerdClient::connect_blocking`]. Keeps its heartbeat while the caller does other things.
    pub fn connect(
        ctx: Rc<P::Context>,
        dial: Dial,
        options: ClientOptions,
        timeout: Ns,
    ) -> Result<BlockingClient<P>, SetupError> {
        let options = ClientOptions {
            keeper: true,
            ..options
        };
        let client = HerdClient::connect_blocking(ctx.clone(), dial, options, timeout)?;
        Ok(BlockingClient {
            client,
            ctx,
            parks: 0,
        })
    }

    /// The value of `key`, if there is one.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, OpError> {
        let mut value = None;
        self.one(&Op::Get { key }, |outcome| match outcome {
            Outcome::Value(bytes) => {
                value = Some(bytes.to_vec());
                Ok(())
            }
            other => found(other).map(drop),
        })?;
        Ok(value)
    }

    /// Stores a value for `ttl_s` seconds (0: for ever).
    pub fn put(&mut self, key: &[u8], value: &[u8], ttl_s: u32) -> Result<(), OpError> {
        self.one(&Op::Put { key, value, ttl_s }, |outcome| found(outcome).map(drop))
    }

    /// Removes a key; false if there was none.
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, OpError> {
        let mut was_there = false;
        self.one(&Op::Delete { key }, |outcome| {
            was_there = found(outcome)?;
            Ok(())
        })?;
        Ok(was_there)
    }

    /// Reads many keys at once: `sink(i, value)` for every `keys[i]`, in order of arrival.
    /// Errors: the first one; the others are still read.
    pub fn get_many(
        &mut self,
        keys: &[&[u8]],
        mut sink: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<(), OpError> {
        let mut first_error = Ok(());
        let op = |i: usize| Op::Get { key: keys[i] };
        self.many(keys.len(), op, |i, outcome| match outcome {
            Outcome::Value(value) => sink(i, Some(value)),
            other => match found(other) {
                Ok(_) => sink(i, None),
                Err(error) => first_error = first_error.and(Err(error)),
            },
        })?;
        first_error
    }

    /// Executes many operations at once: `sink(i, outcome)` for every `ops[i]`. Operations on one key take
    /// effect in order. Errors: an operation that cannot be submitted at all; those before it were executed.
    pub fn execute_batch(
        &mut self,
        ops: &[Op<'_>],
        sink: impl FnMut(usize, Outcome<'_>),
    ) -> Result<(), OpError> {
        self.many(ops.len(), |i| ops[i], sink)
    }

    /// The server's counters, lines `name value`. Waits for at most `timeout`.
    pub fn server_stats(&mut self, timeout: Ns) -> Option<String> {
        self.client.ask_server_stats();
        let deadline = self.ctx.cpu().refresh() + timeout;
        loop {
            self.client.poll(self.ctx.cpu(), &mut |_| {});
            if let Some(text) = self.client.take_server_stats() {
                return Some(text);
            }
            let now = self.ctx.cpu().refresh();
            if now >= deadline {
                return None;
            }
            self.ctx.arm();
            self.ctx.park((now + Ns::from_us(200)).min(deadline));
        }
    }

    /// Counters.
    pub fn stats(&self) -> ClientStats {
        ClientStats {
            parks: self.parks,
            ..*self.client.stats()
        }
    }

    /// The non-blocking client inside.
    pub fn inner(&mut self) -> &mut HerdClient<P> {
        &mut self.client
    }

    fn one(
        &mut self,
        op: &Op<'_>,
        mut take: impl FnMut(Outcome<'_>) -> Result<(), OpError>,
    ) -> Result<(), OpError> {
        let mut result = Ok(());
        self.many(1, |_| *op, |_, outcome| result = take(outcome))?;
        result
    }

    fn many<'o>(
        &mut self,
        count: usize,
        op: impl Fn(usize) -> Op<'o>,
        mut sink: impl FnMut(usize, Outcome<'_>),
    ) -> Result<(), OpError> {
        let (mut submitted, mut done) = (0, 0);
        let mut refused = None;
        let mut quiet_since = self.ctx.cpu().refresh();
        while done < submitted || (submitted < count && refused.is_none()) {
            while submitted < count && refused.is_none() {
                match self
                    .client
                    .submit(self.ctx.cpu(), &op(submitted), submitted as u64)
                {
                    Ok(()) => submitted += 1,
                    Err(SubmitError::WindowFull) => break,
                    Err(error) => refused = Some(OpError::Submit(error)),
                }
            }
            let got = self
                .client
                .poll(self.ctx.cpu(), &mut |c| sink(c.token as usize, c.outcome));
            done += got;
            let now = self.ctx.cpu().refresh();
            if got > 0 {
                quiet_since = now;
            } else if now.since(quiet_since) > SPIN {
                done += self.sleep(&mut sink);
                quiet_since = self.ctx.cpu().refresh();
            } else {
                drover_mem::pause();
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// Sleeps until something arrives or a timer is due; takes what came in between.
    fn sleep(&mut self, sink: &mut impl FnMut(usize, Outcome<'_>)) -> usize {
        self.ctx.arm();
        let got = self
            .client
            .poll(self.ctx.cpu(), &mut |c| sink(c.token as usize, c.outcome));
        let now = self.ctx.cpu().now();
        let until = self.client.next_timer();
        if got > 0 || until <= now {
            self.ctx.disarm();
            return got;
        }
        self.parks += 1;
        self.ctx.park(until);
        got
    }
}

/// Whether there was such a key; an error if nothing is known or nothing was done.
pub(super) fn found(outcome: Outcome<'_>) -> Result<bool, OpError> {
    match outcome {
        Outcome::Value(_) | Outcome::Stored | Outcome::Deleted => Ok(true),
        Outcome::NotFound => Ok(false),
        Outcome::Refused(refusal) => Err(OpError::Refused(refusal)),
        _ => Err(OpError::Indeterminate),
    }
}
