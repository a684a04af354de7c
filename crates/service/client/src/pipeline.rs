//! [`Pipeline`]: operations by token, many under way.

use crate::session::{Connected, Ready};
use crate::{Error, Options};
use drover_base::Ns;
use drover_kv::{Calls, Completion, Op, SizeLimits, SubmitError, Token};

/// A client whose caller submits operations and takes their outcomes later, by the tokens that it gave them. It neither
/// allocates nor copies; it is what [`Client`](crate::Client) is made of, and what other languages use.
///
/// ```no_run
/// use drover_client::{Op, Options, Pipeline};
/// let mut client = Pipeline::connect("shm:drover", &Options::default())?;
/// for (token, key) in [b"one", b"two"].into_iter().enumerate() {
///     client.submit(&Op::Get { key }, token as u64)?;
/// }
/// while client.in_flight() > 0 {
///     client.wait(&mut |done| println!("{}: {:?}", done.token, done.outcome));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Pipeline {
    session: Connected,
    in_flight: usize,
    /// Polls since the clock was read last.
    polls: u32,
}

/// Most polls with results on one reading of the clock. *(our choice)*
const POLLS_MAX: u32 = 64;

impl From<Connected> for Pipeline {
    fn from(session: Connected) -> Pipeline {
        Pipeline {
            session,
            in_flight: 0,
            polls: 0,
        }
    }
}

impl Pipeline {
    /// Connects to the service at `addr`, as [`Client::connect_with`](crate::Client::connect_with). Blocks until connected.
    ///
    /// # Errors
    /// The address is malformed, no service answers there, or no session can be set up.
    pub fn connect(addr: &str, options: &Options) -> Result<Pipeline, Error> {
        Connected::to(addr, options).map(Pipeline::from)
    }

    /// Submits `op`, whose outcome will have `token`. Its bytes are not needed afterwards.
    ///
    /// # Errors
    /// [`SubmitError::WindowFull`] until outcomes have been taken; others if no system would take such an operation.
    pub fn submit(&mut self, op: &Op<'_>, token: Token) -> Result<(), SubmitError> {
        if self.in_flight == 0 {
            // An operation's deadline counts from now, and the last call may be long ago.
            self.session.0.refresh();
        }
        self.session.0.submit(op, token)?;
        self.in_flight += 1;
        Ok(())
    }

    /// Passes the outcomes that have come to `sink`, and returns how many there were. Never blocks. Reads the clock if
    /// there are none.
    pub fn poll(&mut self, sink: &mut dyn FnMut(Completion<'_>)) -> usize {
        let finished = self.take(sink);
        self.polls += 1;
        if finished == 0 || self.polls == POLLS_MAX {
            // A caller that never waits has no other clock: without it no deadline would pass, and nothing be asked for again.
            self.polls = 0;
            self.session.0.refresh();
        }
        finished
    }

    fn take(&mut self, sink: &mut dyn FnMut(Completion<'_>)) -> usize {
        let finished = self.session.0.poll(sink);
        self.in_flight -= finished;
        finished
    }

    /// As [`poll`](Pipeline::poll), but waits until there is one; returns 0 only if nothing is in flight.
    pub fn wait(&mut self, sink: &mut dyn FnMut(Completion<'_>)) -> usize {
        while self.in_flight > 0 {
            let finished = self.wait_for(Ns::MAX, sink);
            if finished > 0 {
                return finished;
            }
        }
        0
    }

    /// As [`wait`](Pipeline::wait), but gives up some time after `patience`, for callers that have to look after something else.
    pub fn wait_for(&mut self, patience: Ns, sink: &mut dyn FnMut(Completion<'_>)) -> usize {
        let mut until = None;
        while self.in_flight > 0 {
            let mut finished = self.take(sink);
            if finished > 0 {
                self.session.0.worked();
                return finished;
            }
            finished = self.session.0.rest(&mut || Ready::Nothing(patience), sink);
            self.in_flight -= finished;
            if finished > 0 {
                return finished;
            }
            if patience != Ns::MAX {
                let now = self.session.0.refresh();
                if now >= *until.get_or_insert(now + patience) {
                    return 0;
                }
            }
        }
        0
    }

    /// Number of operations whose outcome has not been taken.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// As [`Client::calls`](crate::Client::calls).
    pub fn calls(&mut self) -> Option<Calls> {
        self.session.0.calls()
    }

    /// As [`Client::size_limits`](crate::Client::size_limits).
    pub fn size_limits(&mut self, op: &Op<'_>) -> Option<SizeLimits> {
        self.session.0.size_limits(op)
    }
}
