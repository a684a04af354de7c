//! [`Link`]: a client's connection to one shard, made again whenever it is lost.

use super::SetupError;
use super::session::Session;
use crate::control::{Attach, Hello, PROTOCOL_VERSION, Ready, Welcome};
use drover_base::Ns;
use drover_rt::control::{ControlAddr, ControlStream, Desk, DialError};
use drover_verbs::{MemoryRegion, Provider, QueuePair};
use std::rc::Rc;

/// A handshake that takes longer has failed.
const HANDSHAKE_MAX: Ns = Ns::from_s(2);
/// Between attempts, at first and at most.
const REST_MIN: Ns = Ns::from_us(100);
const REST_MAX: Ns = Ns::from_ms(100);
/// How often the control channel of a session is looked at.
const LOOK_EVERY: Ns = Ns::from_us(200);

/// How to reach a shard, again and again.
pub struct Dial(Box<dyn FnMut() -> Result<ControlStream, DialError> + Send>);

impl Dial {
    /// Calls `dial` for every attempt. It should not block for long.
    pub fn new(dial: impl FnMut() -> Result<ControlStream, DialError> + Send + 'static) -> Dial {
        Dial(Box::new(dial))
    }

    /// Always the same address. An attempt blocks for a second at most.
    pub fn to(addr: ControlAddr) -> Dial {
        Dial::new(move || ControlStream::connect(&addr, Ns::from_s(1)))
    }

    /// A server of this process that lets in who knocks at `desk`.
    pub fn at(desk: &Desk) -> Dial {
        let desk = desk.clone();
        Dial::new(move || Ok(desk.connect()))
    }
}

enum Phase<P: Provider> {
    /// No connection; another attempt then.
    Down { retry_at: Ns },
    /// The handshake is under way; the session is there from Welcome on.
    Shaking {
        control: ControlStream,
        deadline: Ns,
        session: Option<Box<Session<P>>>,
    },
    Up {
        control: ControlStream,
        next_look: Ns,
        session: Box<Session<P>>,
    },
}

/// One shard as the client sees it.
pub(super) struct Link<P: Provider> {
    phase: Phase<P>,
    dial: Dial,
    shard: u16,
    shard_count: u16,
    slots: usize,
    /// The last session's name, so that the server ends it before it begins another.
    previous: u64,
    rest: Ns,
    pub(super) error: Option<SetupError>,
}

impl<P: Provider> Link<P> {
    pub(super) fn new(dial: Dial, shard: usize, shard_count: usize, slots: usize) -> Link<P> {
        Link {
            phase: Phase::Down { retry_at: Ns::ZERO },
            dial,
            shard: shard as u16,
            shard_count: shard_count as u16,
            slots,
            previous: 0,
            rest: REST_MIN,
            error: None,
        }
    }

    /// The session, if there is one that works.
    pub(super) fn session(&mut self) -> Option<&mut Session<P>> {
        match &mut self.phase {
            Phase::Up { session, .. } if !session.broken => Some(session),
            _ => None,
        }
    }

    /// When it wants to be looked at.
    pub(super) fn next_timer(&self) -> Ns {
        match &self.phase {
            Phase::Down { retry_at } => *retry_at,
            Phase::Shaking { .. } => Ns::ZERO,
            Phase::Up { session, .. } if session.broken => Ns::ZERO,
            Phase::Up { next_look, .. } => *next_look,
        }
    }

    /// Dials, shakes hands, listens. True when the session there was is over: the caller tells its operations.
    pub(super) fn look(&mut self, ctx: &Rc<P::Context>, now: Ns) -> bool {
        match &mut self.phase {
            Phase::Down { retry_at } if now < *retry_at => false,
            Phase::Down { .. } => {
                self.begin(now);
                false
            }
            Phase::Shaking { .. } => {
                if let Err(error) = self.shake(ctx, now) {
                    self.lose(now, error);
                }
                false
            }
            Phase::Up {
                control,
                next_look,
                session,
            } => {
                let error = match session.broken {
                    true => Some(SetupError::Ended),
                    false if now < *next_look => None,
                    false => {
                        *next_look = now + LOOK_EVERY;
                        match control.recv(now) {
                            Ok(None) => None,
                            Ok(Some(_)) => Some(SetupError::Unusable { what: "message" }),
                            Err(error) => Some(error.into()),
                        }
                    }
                };
                let is_over = error.is_some();
                if let Some(error) = error {
                    self.lose(now, error);
                }
                is_over
            }
        }
    }

    fn begin(&mut self, now: Ns) {
        let hello = Hello {
            version: PROTOCOL_VERSION,
            slots: self.slots as u16,
            shard: self.shard,
            shard_count: self.shard_count,
            previous: self.previous,
        };
        let mut control = match (self.dial.0)() {
            Ok(control) => control,
            Err(error) => return self.lose(now, error.into()),
        };
        match control.send_message(&hello) {
            Ok(()) => {
                self.phase = Phase::Shaking {
                    control,
                    deadline: now + HANDSHAKE_MAX,
                    session: None,
                }
            }
            Err(error) => self.lose(now, error.into()),
        }
    }

    fn shake(&mut self, ctx: &Rc<P::Context>, now: Ns) -> Result<(), SetupError> {
        let Phase::Shaking {
            control,
            deadline,
            session,
        } = &mut self.phase
        else {
            return Ok(());
        };
        let Some(frame) = control.recv(now)? else {
            return if now < *deadline {
                Ok(())
            } else {
                Err(SetupError::Timeout)
            };
        };
        match session {
            None => {
                let new = Session::<P>::new(ctx, self.slots, &frame.decode::<Welcome>()?, now)?;
                let attach = Attach {
                    qp: new.qp.export()?,
                    values: new.values.export(&[])?,
                };
                control.send_message(&attach)?;
                *session = Some(Box::new(new));
            }
            Some(_) => {
                frame.decode::<Ready>()?;
                self.up(now);
            }
        }
        Ok(())
    }

    fn up(&mut self, now: Ns) {
        let phase = std::mem::replace(&mut self.phase, Phase::Down { retry_at: now });
        if let Phase::Shaking {
            control,
            session: Some(session),
            ..
        } = phase
        {
            self.rest = REST_MIN;
            self.previous = session.id;
            self.phase = Phase::Up {
                control,
                next_look: now + LOOK_EVERY,
                session,
            };
        }
    }

    /// Whatever there is ends here: the queue pair, and then the channel, by which the server learns of it.
    fn lose(&mut self, now: Ns, error: SetupError) {
        tracing::debug!(%error, shard = self.shard, "no session");
        self.error = Some(error);
        let retry_at = now + self.rest;
        self.rest = (self.rest * 2).min(REST_MAX);
        self.phase = Phase::Down { retry_at };
    }
}
