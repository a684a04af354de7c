//! [`Link`]: a client's session with a server, re-established whenever it is lost.
//!
//! ```text
//! Down --rest is over, dial--> Shaking --last frame of the handshake--> Up
//!   ^                             | refused, or too slow                     | the channel ended, or the session broke
//!   '------- rest, longer each time -------------------------------------------'
//! ```
//! The system's [`Handshake`] defines the frames exchanged and the session.

use crate::{ControlError, ControlStream, Dial, DialError, Frame};
use drover_base::Ns;
use std::fmt::Display;

/// Reasons for losing a link other than errors of the channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// The handshake took too long.
    Timeout,
    /// The session [is broken](Handshake::is_broken).
    Broken,
    /// An unexpected frame arrived.
    Unexpected,
}

/// A system's protocol on a new control channel until there is a session.
pub trait Handshake {
    /// State of a session: queues, buffers, the server's memory.
    type Session;
    /// Reason for failing to make a session.
    type Error: From<DialError> + From<ControlError> + From<Loss> + Display;

    /// Sends the first frames on a channel.
    ///
    /// # Errors
    /// The channel fails, or the system cannot begin.
    fn begin(&mut self, control: &mut ControlStream) -> Result<(), Self::Error>;

    /// Handles a frame of the handshake; `session` holds the state made of earlier ones. Returns true when the session
    /// is complete, if there is one.
    ///
    /// # Errors
    /// The server refused, or the frame is unexpected or malformed.
    fn take(
        &mut self,
        frame: &Frame,
        session: &mut Option<Box<Self::Session>>,
        control: &mut ControlStream,
        now: Ns,
    ) -> Result<bool, Self::Error>;

    /// Whether a session is unusable, for example because its queue pair failed.
    fn is_broken(session: &Self::Session) -> bool;

    /// Whether a session needs its channel to be checked at once.
    fn is_curious(session: &Self::Session) -> bool {
        let _ = session;
        false
    }

    /// Handles a frame for an established session. Most systems expect none.
    ///
    /// # Errors
    /// The frame is unexpected or malformed.
    fn receive(session: &mut Self::Session, frame: &Frame) -> Result<(), Self::Error> {
        let _ = (session, frame);
        Err(Loss::Unexpected.into())
    }

    /// Called after the channel of a session was checked and all received frames were [passed on](Handshake::receive).
    ///
    /// # Errors
    /// The session cannot continue.
    fn looked(session: &mut Self::Session, control: &mut ControlStream) -> Result<(), Self::Error> {
        let _ = (session, control);
        Ok(())
    }
}

/// A handshake is looked at again after an eighth of the time that it has taken so far: a server that answers at once is
/// heard at once, one that is away for a second costs few system calls. *(our choice)*
const LOOKS_PER_WAIT: u64 = 8;
/// And not sooner than this.
const LOOK_MIN: Ns = Ns::from_us(1);

/// Most frames per check of an established session.
const FRAMES_PER_LOOK: usize = 8;

/// Timeouts of a [`Link`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkOptions {
    /// Longest handshake; a longer one has failed.
    pub handshake_max: Ns,
    /// Rest before the first retry; doubled with each failure.
    pub rest_min: Ns,
    /// Longest rest.
    pub rest_max: Ns,
    /// Time between checks of a session's control channel, which cost a system call each.
    pub look_every: Ns,
}

impl Default for LinkOptions {
    fn default() -> LinkOptions {
        LinkOptions {
            handshake_max: Ns::from_s(2),
            rest_min: Ns::from_us(100),
            rest_max: Ns::from_ms(100),
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
        session: Box<S>,
    },
}

/// A client's link to one server. Only its [`Dial`] may block.
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

    /// The session, if there is a usable one.
    pub fn session(&mut self) -> Option<&mut H::Session> {
        match &mut self.phase {
            Phase::Up { session, .. } if !H::is_broken(session) => Some(session),
            _ => None,
        }
    }

    /// The reason for the last loss of a session; returned once.
    pub fn take_error(&mut self) -> Option<H::Error> {
        self.error.take()
    }

    /// Time at which it must be [polled](Link::poll).
    pub fn next_timer(&self) -> Ns {
        match &self.phase {
            Phase::Down { retry_at } => *retry_at,
            Phase::Shaking { next_look, .. } => *next_look,
            Phase::Up { session, .. } if H::is_broken(session) || H::is_curious(session) => Ns::ZERO,
            Phase::Up { next_look, .. } => *next_look,
        }
    }

    /// Dials, shakes hands, receives. Returns true when an established session has ended: the caller notifies its
    /// operations.
    pub fn poll(&mut self, now: Ns) -> bool {
        match &mut self.phase {
            Phase::Down { retry_at } if now < *retry_at => false,
            Phase::Down { .. } => {
                if let Err(error) = self.begin(now) {
                    self.lose(now, error);
                }
                false
            }
            Phase::Shaking { next_look, .. } if now < *next_look => false,
            Phase::Shaking { .. } => {
                if let Err(error) = self.shake(now) {
                    self.lose(now, error);
                }
                false
            }
            Phase::Up { .. } => match self.listen(now) {
                Ok(()) => false,
                Err(error) => {
                    self.lose(now, error);
                    true
                }
            },
        }
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

    fn shake(&mut self, now: Ns) -> Result<(), H::Error> {
        let longest = self.options.look_every;
        let Phase::Shaking {
            control,
            began,
            deadline,
            next_look,
            session,
        } = &mut self.phase
        else {
            return Ok(());
        };
        match control.recv(now)? {
            None if now < *deadline => {
                let rest = Ns(now.since(*began).0 / LOOKS_PER_WAIT)
                    .max(LOOK_MIN)
                    .min(longest);
                *next_look = (now + rest).min(*deadline);
            }
            None => return Err(Loss::Timeout.into()),
            Some(frame) => {
                if self.handshake.take(&frame, session, control, now)? {
                    self.up(now);
                }
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
            self.rest = self.options.rest_min;
            self.phase = Phase::Up {
                control,
                next_look: now + self.options.look_every,
                session,
            };
        }
    }

    fn listen(&mut self, now: Ns) -> Result<(), H::Error> {
        let Phase::Up {
            control,
            next_look,
            session,
        } = &mut self.phase
        else {
            return Ok(());
        };
        if H::is_broken(session) {
            return Err(Loss::Broken.into());
        }
        if now < *next_look && !H::is_curious(session) {
            return Ok(());
        }
        *next_look = now + self.options.look_every;
        for _ in 0..FRAMES_PER_LOOK {
            match control.recv(now)? {
                Some(frame) => H::receive(session, &frame)?,
                None => break,
            }
        }
        H::looked(session, control)
    }

    /// Drops the session, and then the channel, which notifies the server.
    fn lose(&mut self, now: Ns, error: H::Error) {
        tracing::debug!(%error, server = self.dial.server(), rest = %self.rest, "session failed, will retry");
        self.error = Some(error);
        let retry_at = now + self.rest;
        self.rest = (self.rest * 2).min(self.options.rest_max);
        self.phase = Phase::Down { retry_at };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LocalListener, kind, refusal};

    const HELLO: u16 = kind::APPLICATION;
    const READY: u16 = kind::APPLICATION + 1;

    #[derive(Debug, PartialEq)]
    enum Why {
        Channel(String),
        Loss(Loss),
    }

    impl From<DialError> for Why {
        fn from(error: DialError) -> Why {
            Why::Channel(error.to_string())
        }
    }

    impl From<ControlError> for Why {
        fn from(error: ControlError) -> Why {
            Why::Channel(error.to_string())
        }
    }

    impl From<Loss> for Why {
        fn from(loss: Loss) -> Why {
            Why::Loss(loss)
        }
    }

    impl Display for Why {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "{self:?}")
        }
    }

    /// Handshake of a hello and one frame. The session is a flag: whether it is broken.
    struct Curt;

    impl Handshake for Curt {
        type Session = bool;
        type Error = Why;

        fn begin(&mut self, control: &mut ControlStream) -> Result<(), Why> {
            Ok(control.send(HELLO, b"", &[])?)
        }

        fn take(
            &mut self,
            frame: &Frame,
            session: &mut Option<Box<bool>>,
            _: &mut ControlStream,
            _: Ns,
        ) -> Result<bool, Why> {
            *session = Some(Box::new(false));
            Ok(frame.kind == READY)
        }

        fn is_broken(session: &bool) -> bool {
            *session
        }
    }

    fn link(listener: &LocalListener) -> Link<Curt> {
        Link::new(Dial::at(listener), Curt, LinkOptions::default())
    }

    /// Polls until the server's end has received its hello, and answers. Returns that end.
    fn connected(link: &mut Link<Curt>, listener: &LocalListener, now: Ns) -> ControlStream {
        assert!(!link.poll(now));
        let mut server = listener.accept().expect("it has dialled");
        let hello = server.recv(now).expect("a whole stream").expect("hello");
        assert_eq!(hello.kind, HELLO);
        server.send(READY, b"", &[]).expect("space");
        assert!(!link.poll(now) && link.session().is_some());
        server
    }

    #[test]
    fn a_session_that_breaks_or_whose_channel_ends_is_told_once_and_made_again() {
        let listener = LocalListener::new();
        let mut link = link(&listener);
        let first = connected(&mut link, &listener, Ns(1));
        *link.session().expect("a session") = true;
        assert!(link.session().is_none());
        assert!(link.poll(Ns(2)), "it is told");
        assert_eq!(link.take_error(), Some(Why::Loss(Loss::Broken)));
        assert!(!link.poll(Ns(3)), "and rests");
        drop(first);
        let rested = link.next_timer();
        let second = connected(&mut link, &listener, rested);
        drop(second);
        let later = link.next_timer();
        assert!(link.poll(later), "the channel has ended");
        assert!(matches!(link.take_error(), Some(Why::Channel(_))));
    }

    #[test]
    fn a_handshake_that_takes_long_is_looked_at_ever_more_rarely() {
        let (listener, options) = (LocalListener::new(), LinkOptions::default());
        let mut link = link(&listener);
        let (mut now, mut looks) = (Ns(1), 0);
        while now < Ns::from_ms(10) {
            link.poll(now);
            let next = link.next_timer();
            assert!(next > now || looks == 0, "it spins");
            assert!(next <= now + options.look_every);
            (now, looks) = (next.max(now + Ns(1)), looks + 1);
        }
        assert!(looks < 200, "{looks} looks in 10 ms");
    }

    #[test]
    fn rests_grow_to_their_longest_and_a_session_makes_them_short_again() {
        let listener = LocalListener::new();
        let mut link = link(&listener);
        let (mut now, mut rests) = (Ns(1), Vec::new());
        for _ in 0..12 {
            link.poll(now);
            listener.clear();
            link.poll(now);
            rests.push(link.next_timer().since(now));
            now = link.next_timer();
        }
        let options = LinkOptions::default();
        assert_eq!((rests[0], rests[1]), (options.rest_min, options.rest_min * 2));
        assert_eq!(rests[11], options.rest_max);
        let server = connected(&mut link, &listener, now);
        drop(server);
        let now = link.next_timer();
        assert!(link.poll(now));
        assert_eq!(link.next_timer().since(now), options.rest_min);
    }

    #[test]
    fn a_server_that_is_silent_refuses_or_chatters_is_lost() {
        let (listener, options) = (LocalListener::new(), LinkOptions::default());
        let mut link = link(&listener);
        link.poll(Ns(1));
        link.poll(options.handshake_max);
        assert_eq!(link.take_error(), None);
        link.poll(options.handshake_max + Ns(2));
        assert_eq!(link.take_error(), Some(Why::Loss(Loss::Timeout)));

        listener.clear();
        let now = link.next_timer();
        link.poll(now);
        let server = listener.accept().expect("it dials again");
        server.refuse(refusal::SHUTTING_DOWN, "closing time");
        link.poll(now);
        let why = link.take_error().expect("a reason").to_string();
        assert!(why.contains("closing time"), "{why}");

        let now = link.next_timer();
        let mut server = connected(&mut link, &listener, now);
        server.send(READY, b"", &[]).expect("space");
        let now = link.next_timer();
        assert!(link.poll(now));
        assert_eq!(link.take_error(), Some(Why::Loss(Loss::Unexpected)));
    }
}
