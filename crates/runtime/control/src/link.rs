//! [`Link`]: a client's channel to a server, with a session on it, re-established whenever it is lost.
//!
//! ```text
//! Down --rest is over, dial--> Shaking --last frame of the handshake--> Up
//!   ^                             | refused, or too slow                     | the channel ended, or its owner gave it up
//!   '------- rest, longer each time -------------------------------------------'
//! ```
//! The system's [`Handshake`] defines the frames exchanged until there is a session. The session then belongs to the
//! link's owner, who handles the frames that arrive for it, and [tells](Link::lose) the link when it is unusable.

use crate::{ControlError, ControlStream, Dial, DialError, Frame};
use drover_base::Ns;
use std::fmt::Display;

/// Reasons, other than errors of dialling and of the channel, for which a session ended or was not made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// The handshake took longer than [`LinkOptions::handshake_max`].
    Timeout,
    /// The session is unusable, for example because its queue pair failed.
    Broken,
    /// An unexpected frame arrived.
    Unexpected,
}

/// A system's handshake: the frames that a client exchanges on a new control channel until it has a session.
pub trait Handshake {
    /// State of a session: queues, buffers, the server's memory.
    type Session;
    /// Reason for failing to make a session.
    type Error: From<DialError> + From<ControlError> + From<Loss> + Display;

    /// Sends the first frames on a new channel; called for every attempt.
    ///
    /// # Errors
    /// The channel fails, or the system cannot begin.
    fn begin(&mut self, control: &mut ControlStream) -> Result<(), Self::Error>;

    /// Handles a frame of the handshake. `session` keeps an unfinished session between the frames of one handshake:
    /// `None` at the first frame, then what this method has put there.
    ///
    /// # Errors
    /// The server refused, or the frame is unexpected or malformed.
    fn take(
        &mut self,
        frame: Frame,
        session: &mut Option<Box<Self::Session>>,
        control: &mut ControlStream,
        now: Ns,
    ) -> Result<Taken<Self::Session>, Self::Error>;
}

/// Result of [`Handshake::take`].
pub enum Taken<S> {
    /// Further frames must arrive.
    More,
    /// The handshake is complete.
    Done(Box<S>),
    /// The server wants another first frame: the handshake begins again at once, on a new channel.
    Again,
}

/// An event that [`Link::poll`] reports to the link's owner.
pub enum LinkEvent<S> {
    /// The handshake is complete: this is the session.
    Up(Box<S>),
    /// A frame for the session arrived.
    Frame(Frame),
    /// The channel of the session has ended; [`Link::take_error`] has the reason. Not reported if the owner called
    /// [`Link::lose`].
    Lost,
}

/// A handshake is looked at again after an eighth of the time that it has taken so far: a server that answers at once
/// is heard at once, one that is away for a second costs few system calls. *(our choice)*
const LOOKS_PER_WAIT: u64 = 8;
/// And not sooner than this.
const LOOK_MIN: Ns = Ns::from_us(1);

/// Most frames per check of a channel.
const FRAMES_PER_LOOK: usize = 64;

/// Times of a [`Link`]: limit of a handshake, pauses between attempts, time between checks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkOptions {
    /// Maximum time of a handshake, counted from dialling; a longer one counts as a failed attempt.
    pub handshake_max: Ns,
    /// Pause before the first retry; it doubles with each failed attempt in a row.
    pub rest_min: Ns,
    /// Longest pause between failed attempts: the doubling of `rest_min` ends there.
    pub rest_max: Ns,
    /// Pause between the loss of a session and the next attempt. Such a loss is not a failed attempt: it doubles no
    /// pause.
    pub rest_lost: Ns,
    /// Time between checks for frames on the control channel of a session; in a handshake, the longest such time. Each
    /// check costs a system call.
    pub look_every: Ns,
}

impl Default for LinkOptions {
    fn default() -> LinkOptions {
        LinkOptions {
            handshake_max: Ns::from_s(2),
            rest_min: Ns::from_us(100),
            rest_max: Ns::from_ms(100),
            rest_lost: Ns::from_us(100),
            look_every: Ns::from_us(200),
        }
    }
}

enum Phase<S> {
    /// No connection; the next attempt is at `retry_at`.
    Down { retry_at: Ns },
    /// The handshake is under way.
    Shaking {
        control: ControlStream,
        began: Ns,
        deadline: Ns,
        next_look: Ns,
        session: Option<Box<S>>,
    },
    Up {
        control: ControlStream,
        next_look: Ns,
        /// Frames that the current check may still take.
        frames_left: usize,
    },
}

/// A client's link to one server: makes a session over a control channel and, when [polled](Link::poll), makes a new
/// one whenever it is lost. It owns the channel; the session goes to the link's owner with [`LinkEvent::Up`]. Only its
/// [`Dial`] may block.
pub struct Link<H: Handshake> {
    phase: Phase<H::Session>,
    dial: Dial,
    handshake: H,
    options: LinkOptions,
    rest: Ns,
    error: Option<H::Error>,
}

impl<H: Handshake> Link<H> {
    /// A link that dials when it is first polled.
    pub fn new(dial: Dial, handshake: H, options: LinkOptions) -> Link<H> {
        Link {
            phase: Phase::Down { retry_at: Ns::ZERO },
            dial,
            handshake,
            options,
            rest: options.rest_min,
            error: None,
        }
    }

    /// The server, for log lines.
    pub fn server(&self) -> &str {
        self.dial.server()
    }

    /// Takes the reason for the last loss of a session or the last failure to make one, whichever came later; `None` if
    /// there was none since the last call.
    pub fn take_error(&mut self) -> Option<H::Error> {
        self.error.take()
    }

    /// Time at which the link must next be [polled](Link::poll); [`Ns::MAX`] if it is closed.
    pub fn next_timer(&self) -> Ns {
        match &self.phase {
            Phase::Down { retry_at } => *retry_at,
            Phase::Shaking { next_look, .. } | Phase::Up { next_look, .. } => *next_look,
        }
    }

    /// Time at which the heartbeat of a session's channel requires a check, for owners that can do without other
    /// checks; [`Ns::MAX`] without a session.
    pub fn next_heartbeat(&self) -> Ns {
        match &self.phase {
            Phase::Up { control, .. } => control.next_look(),
            _ => Ns::MAX,
        }
    }

    /// Whether a handshake is under way.
    pub fn is_shaking(&self) -> bool {
        matches!(self.phase, Phase::Shaking { .. })
    }

    /// The channel of the session; `None` without a session.
    pub fn control(&mut self) -> Option<&mut ControlStream> {
        match &mut self.phase {
            Phase::Up { control, .. } => Some(control),
            _ => None,
        }
    }

    /// Makes the next [`poll`](Link::poll) check the channel of the session, before the time that
    /// [`LinkOptions::look_every`] gives. Does nothing without a session.
    pub fn look_soon(&mut self) {
        if let Phase::Up { next_look, .. } = &mut self.phase {
            *next_look = Ns::ZERO;
        }
    }

    /// Does what is due at `now`: dials, handles frames of the handshake, or receives for the session. A failed attempt
    /// is not reported: [`take_error`](Link::take_error) has its reason. Call it until it returns `None`.
    pub fn poll(&mut self, now: Ns) -> Option<LinkEvent<H::Session>> {
        let polled = match &mut self.phase {
            Phase::Down { retry_at } if now < *retry_at => Ok(None),
            Phase::Down { .. } => self.begin(now).map(|()| None),
            Phase::Shaking { next_look, .. } if now < *next_look => Ok(None),
            Phase::Shaking { .. } => self.shake(now),
            Phase::Up { .. } => self.receive(now),
        };
        polled.unwrap_or_else(|error| {
            let was_up = matches!(self.phase, Phase::Up { .. });
            self.lose(now, error);
            was_up.then_some(LinkEvent::Lost)
        })
    }

    fn begin(&mut self, now: Ns) -> Result<(), H::Error> {
        let mut control = self.dial.attempt()?;
        self.handshake.begin(&mut control)?;
        self.phase = Phase::Shaking {
            control,
            began: now,
            deadline: now + self.options.handshake_max,
            next_look: now,
            session: None,
        };
        Ok(())
    }

    fn shake(&mut self, now: Ns) -> Result<Option<LinkEvent<H::Session>>, H::Error> {
        let longest = self.options.look_every;
        for taken in 0..FRAMES_PER_LOOK {
            let Phase::Shaking {
                control,
                began,
                deadline,
                next_look,
                session,
            } = &mut self.phase
            else {
                return Ok(None);
            };
            if taken == 0 && now >= *deadline {
                // Though the last frame may have arrived: after a pause of the thread the server has forgotten the session.
                return Err(Loss::Timeout.into());
            }
            let Some(frame) = control.recv(now)? else {
                return match taken {
                    0 => {
                        let rest = Ns(now.since(*began).0 / LOOKS_PER_WAIT)
                            .max(LOOK_MIN)
                            .min(longest);
                        *next_look = (now + rest).min(*deadline);
                        Ok(None)
                    }
                    // The server has begun to answer: look again at once.
                    _ => Ok(None),
                };
            };
            match self.handshake.take(frame, session, control, now)? {
                Taken::More => {}
                Taken::Done(session) => {
                    self.up(now);
                    return Ok(Some(LinkEvent::Up(session)));
                }
                Taken::Again => {
                    self.begin(now)?;
                    return Ok(None);
                }
            }
        }
        Ok(None)
    }

    fn up(&mut self, now: Ns) {
        let phase = std::mem::replace(&mut self.phase, Phase::Down { retry_at: now });
        if let Phase::Shaking { control, .. } = phase {
            self.rest = self.options.rest_min;
            self.phase = Phase::Up {
                control,
                next_look: now + self.options.look_every,
                frames_left: 0,
            };
        }
    }

    fn receive(&mut self, now: Ns) -> Result<Option<LinkEvent<H::Session>>, H::Error> {
        let Phase::Up {
            control,
            next_look,
            frames_left,
        } = &mut self.phase
        else {
            return Ok(None);
        };
        if *frames_left == 0 {
            if now < *next_look {
                return Ok(None);
            }
            *next_look = now + self.options.look_every;
            *frames_left = FRAMES_PER_LOOK;
        }
        let frame = control.recv(now)?;
        *frames_left = match frame {
            Some(_) => *frames_left - 1,
            None => 0,
        };
        Ok(frame.map(LinkEvent::Frame))
    }

    /// Ends the session, or the attempt to make one: drops the channel, so that the server sees its end. Another
    /// attempt follows after a pause, even if the link was closed.
    pub fn lose(&mut self, now: Ns, error: H::Error) {
        let rest = match self.phase {
            Phase::Up { .. } => self.options.rest_lost,
            _ => {
                let next = (self.rest * 2).min(self.options.rest_max);
                std::mem::replace(&mut self.rest, next)
            }
        };
        tracing::debug!(%error, server = self.dial.server(), %rest, "session failed, will retry");
        self.error = Some(error);
        self.phase = Phase::Down { retry_at: now + rest };
    }

    /// Drops the channel. No attempt follows, unless [`lose`](Link::lose) is called.
    pub fn close(&mut self) {
        self.phase = Phase::Down { retry_at: Ns::MAX };
    }

    /// Whether it was [closed](Link::close).
    pub fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Down { retry_at: Ns::MAX })
    }
}

#[cfg(test)]
mod tests;
