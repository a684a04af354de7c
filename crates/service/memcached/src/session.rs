//! [`Session`]: protocol state of one connection.

mod batch;
mod binary;
mod dumping;
mod fetching;
mod flushing;
mod general;
mod login;
mod under_way;

use crate::parse::Refused;
use crate::request::Fetch;
use crate::watch::{Guest, Presence, Reason, Watchers, Watching};
use crate::{Executor, exec};
use drover_base::Cpu;
use drover_net::{Consumed, Need, Output, Protocol};
use drover_store::{Exclusive, Sharing};
use std::marker::PhantomData;
use std::sync::Arc;

use dumping::Dumping;
use flushing::Flushing;
pub(crate) use under_way::UnderWay;

/// Protocol state of one client connection. It holds what must outlast a step: an unfinished multiget, bytes of a
/// refused value still to be skipped, whether the client has logged in. `C` and `S` are those of the [`Executor`] that
/// advances it.
#[derive(Debug)]
pub struct Session<C, S = Exclusive> {
    state: State,
    /// Bytes of input to skip first.
    swallow: usize,
    /// Some input has arrived.
    has_spoken: bool,
    /// Keys of its requests at other cores.
    under_way: UnderWay,
    /// Identity of the connection, for watchers.
    presence: Option<Presence>,
    executor: PhantomData<fn(C, S)>,
}

#[derive(Debug)]
enum State {
    /// The client must log in. `credentials`: length of the value to come, once the client has sent the `set` line.
    Unauthenticated { credentials: Option<usize> },
    /// Ready for the next request.
    Idle,
    /// Within the keys of a fetch.
    Fetching(Fetch),
    /// `flush_all` is being sent to all cores.
    Flushing(Flushing),
    /// Within a dump of all items.
    Dumping(Dumping),
    /// `watch`: all input is ignored.
    Watching(Watching),
    /// The connection is closing.
    Over,
}

/// Result of a part of a step.
enum Step {
    /// This many bytes were used, and there may be more to do.
    On(usize),
    /// This many bytes were used; the session waits for [`Need`].
    Wait(usize, Need),
}

impl<C, S> Session<C, S> {
    /// Creates the state of a new connection. `must_log_in`: until the client has logged in, by a `set` of any key with
    /// the value `user password`, every other command is refused.
    pub fn new(must_log_in: bool) -> Session<C, S> {
        Session {
            state: match must_log_in {
                true => State::Unauthenticated { credentials: None },
                false => State::Idle,
            },
            swallow: 0,
            has_spoken: false,
            under_way: UnderWay::default(),
            presence: None,
            executor: PhantomData,
        }
    }

    /// Sets the connection's identity and reports to `watchers` that it opened and, when the session is dropped, that
    /// it closed.
    pub fn with_guest(mut self, guest: Guest, watchers: Arc<Watchers>) -> Session<C, S> {
        self.presence = Some(Presence::new(watchers, guest));
        self
    }

    /// Whether the client has logged in or need not log in.
    pub fn is_welcome(&self) -> bool {
        !matches!(self.state, State::Unauthenticated { .. })
    }

    /// Answers an invalid request.
    fn refuse(&mut self, refused: &Refused, output: &mut Output) {
        if !refused.reply.is_empty() {
            exec::reply(output, refused.reply);
        }
        self.swallow = refused.swallow;
        if refused.close {
            self.state = State::Over;
            if let Some(presence) = &mut self.presence {
                presence.reason = Reason::Error;
                let why = match refused.reply {
                    "" => "a request that has no end, or is too long",
                    reply => reply,
                };
                tracing::info!("{} closed: {why}", presence.guest.named());
            }
        }
    }

    /// Skips the pending bytes of `rest`; returns how many.
    fn skip(&mut self, rest: &[u8]) -> usize {
        let skipped = self.swallow.min(rest.len());
        self.swallow -= skipped;
        skipped
    }

    /// Looks at what a client says first: the binary protocol is refused, in its own form. `None`: a part of a header came.
    fn greet(&mut self, input: &[u8], output: &mut Output) -> Option<()> {
        if input.first() == Some(&binary::REQUEST) {
            binary::refuse(input.first_chunk()?, output);
            if let Some(presence) = &self.presence {
                let why = "it speaks memcached's binary protocol, which is not spoken here";
                tracing::info!("{} closed: {why}", presence.guest.named());
            }
            self.state = State::Over;
        }
        self.has_spoken = true;
        Some(())
    }
}

impl<C: Cpu + 'static, S: Sharing + 'static> Session<C, S> {
    /// One part of a step. `budget`: requests left in this turn.
    fn step(
        &mut self,
        executor: &mut Executor<'_, C, S>,
        rest: &[u8],
        budget: &mut usize,
        output: &mut Output,
    ) -> Step {
        match &mut self.state {
            State::Over => return Step::Wait(rest.len(), Need::Close),
            State::Flushing(_) => return self.flush_on(executor, output),
            State::Dumping(_) => return self.dump_on(executor, output),
            State::Watching(_) if output.is_full() => return Step::Wait(rest.len(), Need::OutputSpace),
            State::Watching(watching) => {
                watching.drain(output);
                return Step::Wait(rest.len(), Need::Notification);
            }
            _ => {}
        }
        let skipped = self.skip(rest);
        if skipped == rest.len() {
            return Step::Wait(skipped, Need::Input { at_least: 1 });
        }
        if skipped > 0 {
            return Step::On(skipped);
        }
        if !self.has_spoken && self.greet(rest, output).is_none() {
            let at_least = binary::HEADER_BYTES;
            return Step::Wait(0, Need::Input { at_least });
        }
        if output.is_full() {
            return Step::Wait(0, Need::OutputSpace);
        }
        match &mut self.state {
            State::Unauthenticated { .. } => self.log_in(executor, rest, output),
            State::Fetching(fetch) => {
                let fetch = *fetch;
                self.fetch_on(executor, fetch, rest, output)
            }
            State::Idle if *budget == 0 => Step::Wait(0, Need::Turn),
            State::Idle => self.batch(executor, rest, budget, output),
            State::Over | State::Flushing(_) | State::Dumping(_) | State::Watching(_) => Step::On(0),
        }
    }
}

impl<C: Cpu + 'static, S: Sharing + 'static> Protocol for Session<C, S> {
    type Executor<'d> = Executor<'d, C, S>;

    fn advance(&mut self, executor: &mut Executor<'_, C, S>, input: &[u8], output: &mut Output) -> Consumed {
        executor.begin_step();
        executor.begin_arrivals();
        executor.core.connection = self
            .presence
            .as_ref()
            .map_or(0, |known| known.guest.number as u32);
        let most = executor.server.settings.requests_per_event.max(1);
        let (mut budget, mut used) = (most, 0);
        loop {
            match self.step(executor, &input[used..], &mut budget, output) {
                Step::On(bytes) => used += bytes,
                Step::Wait(bytes, need) => {
                    used += bytes;
                    output.begin(most - budget);
                    return Consumed { used, need };
                }
            }
        }
    }
}
