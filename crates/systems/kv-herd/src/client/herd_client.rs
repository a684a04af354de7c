//! [`HerdClient`]: its parts, and the order in which a poll uses them.

use super::bulk::Transfers;
use super::complete::Received;
use super::connect::Connection;
use super::session::Session;
use super::{ClientOptions, ClientStats, Keyed, RequestFormat, Sink};
use crate::costs::{ANSWER, LOOK};
use drover_base::{Cpu, Ns, key_words};
use drover_kv::{Completion, Condition, KvClient, Op, SizeLimits, SubmitError, Token};
use drover_slots::client::{Conflicts, Tally, Ticker, WaitQueue};
use drover_verbs::{CompletionQueue, Provider};
use std::rc::Rc;

/// A client of one HERD server, for one thread, with request format `F`. The [module](super) describes the life of an
/// operation.
///
/// It reads the time with `cpu.now()`, which run loops refresh once per step; a caller without a run loop must call
/// [`Cpu::refresh`] itself.
pub struct HerdClient<P: Provider, F: RequestFormat = Keyed> {
    /// Whether requests may be posted: there is a session, and the client is not about to replace it.
    pub(super) open: bool,
    pub(super) timers: Ticker,
    pub(super) session: Option<Box<Session<P, F>>>,
    pub(super) conflicts: Conflicts,
    pub(super) tally: Tally,
    pub(super) received: Received,
    pub(super) stats: ClientStats,
    pub(super) waiting: WaitQueue,
    pub(super) bulk: Transfers<P>,
    pub(super) connection: Connection<P, F>,
    pub(super) options: ClientOptions,
    pub(super) ctx: Rc<P::Context>,
}

impl<P: Provider, F: RequestFormat> HerdClient<P, F> {
    /// Counters of irregular events since the client was created, over all sessions. Operations that were simply
    /// answered are not counted.
    pub fn stats(&self) -> &ClientStats {
        &self.stats
    }

    /// Whether requests can be sent now: there is a session, and the client is not about to replace it.
    pub fn is_ready(&self) -> bool {
        self.open
    }

    /// Epoch of the server behind the current session; `None` without a session. Another epoch after a reconnection
    /// means that the server was restarted.
    pub fn epoch(&self) -> Option<u64> {
        self.session.as_ref().map(|session| session.params.epoch)
    }

    /// Number of the server's partitions; `None` without a session.
    pub fn partition_count(&self) -> Option<usize> {
        self.session
            .as_ref()
            .map(|session| session.params.partition_count)
    }

    /// Longest key and value of operations such as `op`; `None` without a session, and in the format of HERD's paper.
    pub fn size_limits(&self, op: &Op<'_>) -> Option<SizeLimits> {
        let session = self.session.as_ref()?;
        (!session.params.format.is_paper()).then(|| session.size_limits(op))
    }

    /// The device context that the client was created with.
    pub fn context(&self) -> &Rc<P::Context> {
        &self.ctx
    }

    /// Submits `ops` in order, `ops[i]` with token `first_token + i`, until one is refused; returns the number
    /// accepted. Operations after the first one refused are not submitted.
    ///
    /// # Errors
    /// The first operation was refused, for the returned reason. The reason is not reported if a later one is refused.
    pub fn submit_batch(
        &mut self,
        cpu: &P::Cpu,
        ops: &[Op<'_>],
        first_token: Token,
    ) -> Result<usize, SubmitError> {
        for (i, op) in ops.iter().enumerate() {
            match self.submit(cpu, op, first_token + i as u64) {
                Ok(()) => {}
                Err(_) if i > 0 => return Ok(i),
                Err(error) => return Err(error),
            }
        }
        Ok(ops.len())
    }

    /// Whether the session speaks the paper's format; a constant unless the format is chosen at run time.
    #[inline(always)]
    fn is_paper(&self) -> bool {
        let session = self.session.as_deref();
        session.is_some_and(|session| session.params.format.is_paper())
    }

    /// Does what is rarely due: handles the control channel, timers, waiting operations and bulk transfers.
    #[cold]
    fn tend(&mut self, cpu: &P::Cpu, sink: Sink<'_>) {
        let now = cpu.now();
        let tick = self.timers.begin(now);
        self.tend_link(cpu, tick, sink);
        if tick {
            self.look_at_timers(now, sink);
        }
        self.pump(cpu);
        self.advance_bulk(cpu, sink);
        self.say_refused(sink);
    }
}

impl<P: Provider, F: RequestFormat> KvClient<P> for HerdClient<P, F> {
    #[inline]
    fn submit(&mut self, cpu: &P::Cpu, op: &Op<'_>, token: Token) -> Result<(), SubmitError> {
        let submitted = match *op {
            Op::Get { key } if self.bulk.expect_long() && self.get_through_chunk(cpu, key, token) => true,
            Op::Get { key } => key_words(key).is_some_and(|key| match self.is_paper() {
                true => self.submit_paper_get(cpu, key, token),
                false => self.submit_inline_get(cpu, key, token),
            }),
            Op::Put {
                key,
                value,
                ttl_s: 0,
                flags: 0,
                condition: Condition::Always,
                keep: false,
            } => key_words(key).is_some_and(|words| self.submit_inline_put(cpu, key, words, value, token)),
            _ => false,
        };
        match submitted {
            true => Ok(()),
            false => self.submit_to_slot(cpu, op, token),
        }
    }

    #[inline]
    fn poll(&mut self, cpu: &P::Cpu, sink: &mut impl FnMut(Completion<'_>)) -> usize {
        let before = self.tally.completed();
        if let Some(session) = self.session.as_deref_mut() {
            session.flush(cpu);
            let count = session.cq.poll(cpu, &mut self.received.wcs[..]);
            cpu.charge(LOOK.cost, 1);
            cpu.charge(ANSWER.cost, count as u32);
            let mut taken = self.complete_small_replies(cpu, 0, count, sink);
            while taken < count {
                self.complete_any(cpu, taken, sink);
                taken += 1;
                taken += self.complete_small_replies(cpu, taken, count, sink);
            }
            if count > 0
                && let Some(session) = self.session.as_deref_mut()
                && !session.receive.repost(cpu)
            {
                session.broken = true;
                self.timers.hurry();
            }
        }
        if self.timers.is_urgent() || cpu.now() >= self.timers.next_tick() {
            self.tend(cpu, sink);
        } else if self.waiting.may_go() {
            self.pump(cpu);
            self.say_refused(sink);
        }
        self.tally.completed() - before
    }

    #[inline]
    fn in_flight(&self) -> usize {
        self.tally.in_flight()
    }

    fn next_timer(&self) -> Ns {
        self.earliest_timer()
    }
}
