//! [`Link`]: a client's channel to a server, with a session on it, re-established whenever it is lost.
//!
//! ```text
//! Down --rest is over, dial--> Shaking --last frame of the handshake--> Up
//!   ^                             | refused, or too slow                     | the channel ended, or its owner gave it up
//!   '------- rest, longer each time -------------------------------------------'
//! ```
//! The system's [`Handshake`] defines the frames exchanged until there is a session. The session then belongs to the link's
//! owner, who handles the frames that arrive for it, and [tells](Link::lose) the link when it is unusable.

use crate::{ControlError, ControlStream, Dial, DialError, Frame};
use drover_base::Ns;
use std::fmt::Display;

/// Reasons for losing a link other than errors of the channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// The handshake took too long.
    Timeout,
    /// The session is unusable, for example because its queue pair failed.
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

    /// Handles a frame of the handshake; `session` holds the state made of earlier ones.
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

/// Effect of a frame of the handshake.
pub enum Taken<S> {
    /// Further frames must arrive.
    More,
    /// The handshake is complete.
    Done(Box<S>),
    /// The server wants another first frame: the handshake begins again at once, on a new channel.
    Again,
}

/// What the owner of a link must know.
pub enum LinkEvent<S> {
    /// There is a session.
    Up(Box<S>),
    /// A frame for the session arrived.
    Frame(Frame),
    /// The channel of the session has ended; [`Link::take_error`] has the reason.
    Lost,
}

/// A handshake is looked at again after an eighth of the time that it has taken so far: a server that answers at once is
/// heard at once, one that is away for a second costs few system calls. *(our choice)*
const LOOKS_PER_WAIT: u64 = 8;
/// And not sooner than this.
const LOOK_MIN: Ns = Ns::from_us(1);

/// Most frames per check of a channel.
const FRAMES_PER_LOOK: usize = 64;

/// Timeouts of a [`Link`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkOptions {
    /// Longest handshake; a longer one has failed.
    pub handshake_max: Ns,
    /// Rest before the first retry; doubled with each failure.
    pub rest_min: Ns,
    /// Longest rest.
    pub rest_max: Ns,
    /// Rest after the loss of a session, which is no failure of the attempt that made it.
    pub rest_lost: Ns,
    /// Time between checks of a session's control channel, which cost a system call each.
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

    /// The server, for log lines.
    pub fn server(&self) -> &str {
        self.dial.server()
    }

    /// The reason for the last loss of a session, or failure to make one; returned once.
    pub fn take_error(&mut self) -> Option<H::Error> {
        self.error.take()
    }

    /// Time at which it must be [polled](Link::poll).
    pub fn next_timer(&self) -> Ns {
        match &self.phase {
            Phase::Down { retry_at } => *retry_at,
            Phase::Shaking { next_look, .. } | Phase::Up { next_look, .. } => *next_look,
        }
    }

    /// Time at which the heartbeat of a session's channel requires a check, for owners that can do without other checks.
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

    /// The channel of a session.
    pub fn control(&mut self) -> Option<&mut ControlStream> {
        match &mut self.phase {
            Phase::Up { control, .. } => Some(control),
            _ => None,
        }
    }

    /// The next [`poll`](Link::poll) checks the channel of a session.
    pub fn look_soon(&mut self) {
        if let Phase::Up { next_look, .. } = &mut self.phase {
            *next_look = Ns::ZERO;
        }
    }

    /// Dials, shakes hands, receives. Call it until there is no further event.
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
            let Some(frame) = control.recv(now)? else {
                return match taken {
                    0 if now >= *deadline => Err(Loss::Timeout.into()),
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

    /// Ends the session, or the attempt to make one: drops the channel, which notifies the server. Another attempt follows.
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

    /// Drops the channel. No attempt follows.
    pub fn close(&mut self) {
        self.phase = Phase::Down { retry_at: Ns::MAX };
    }

    /// Whether it was [closed](Link::close).
    pub fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Down { retry_at: Ns::MAX })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LocalListener, kind, refusal};

    const HELLO: u16 = kind::APPLICATION;
    const READY: u16 = kind::APPLICATION + 1;
    const AGAIN: u16 = kind::APPLICATION + 2;

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

    /// Handshake of a hello and one frame.
    struct Curt;

    impl Handshake for Curt {
        type Session = ();
        type Error = Why;

        fn begin(&mut self, control: &mut ControlStream) -> Result<(), Why> {
            Ok(control.send(HELLO, b"", &[])?)
        }

        fn take(
            &mut self,
            frame: Frame,
            _: &mut Option<Box<()>>,
            _: &mut ControlStream,
            _: Ns,
        ) -> Result<Taken<()>, Why> {
            Ok(match frame.kind {
                READY => Taken::Done(Box::new(())),
                AGAIN => Taken::Again,
                _ => Taken::More,
            })
        }
    }

    fn link(listener: &LocalListener) -> Link<Curt> {
        Link::new(Dial::at(listener), Curt, LinkOptions::default())
    }

    /// The server's end of a channel whose hello it has received.
    fn greeted(link: &mut Link<Curt>, listener: &LocalListener, now: Ns) -> ControlStream {
        assert!(link.poll(now).is_none());
        let mut server = listener.accept().expect("it has dialled");
        let hello = server.recv(now).expect("a whole stream").expect("hello");
        assert_eq!(hello.kind, HELLO);
        server
    }

    /// The server's end of a session.
    fn connected(link: &mut Link<Curt>, listener: &LocalListener, now: Ns) -> ControlStream {
        let mut server = greeted(link, listener, now);
        server.send(READY, b"", &[]).expect("space");
        assert!(matches!(link.poll(now), Some(LinkEvent::Up(_))));
        assert!(link.control().is_some() && !link.is_shaking());
        server
    }

    #[test]
    fn a_session_that_is_given_up_or_whose_channel_ends_is_made_again() {
        let (listener, options) = (LocalListener::new(), LinkOptions::default());
        let mut link = link(&listener);
        let mut first = connected(&mut link, &listener, Ns(1));
        link.lose(Ns(2), Loss::Broken.into());
        assert!(first.recv(Ns(2)).is_err(), "the server sees the end");
        assert_eq!(link.take_error(), Some(Why::Loss(Loss::Broken)));
        let rested = link.next_timer();
        assert_eq!(rested, Ns(2) + options.rest_lost);
        assert!(
            link.poll(Ns(3)).is_none() && listener.accept().is_none(),
            "it rests"
        );
        let second = connected(&mut link, &listener, rested);
        drop(second);
        let later = link.next_timer();
        assert!(
            matches!(link.poll(later), Some(LinkEvent::Lost)),
            "the channel has ended"
        );
        assert!(link.poll(later).is_none(), "told once");
        assert!(matches!(link.take_error(), Some(Why::Channel(_))));
    }

    #[test]
    fn frames_of_a_session_are_its_owners_a_bounded_number_at_a_time() {
        let (listener, options) = (LocalListener::new(), LinkOptions::default());
        let mut link = link(&listener);
        let mut server = connected(&mut link, &listener, Ns(1));
        for _ in 0..FRAMES_PER_LOOK + 1 {
            server.send(HELLO, b"", &[]).expect("space");
        }
        assert!(link.poll(Ns(1)).is_none(), "it has just looked");
        link.look_soon();
        let frames = |link: &mut Link<Curt>, now: Ns| {
            std::iter::from_fn(|| link.poll(now))
                .inspect(|event| assert!(matches!(event, LinkEvent::Frame(frame) if frame.kind == HELLO)))
                .count()
        };
        assert_eq!(frames(&mut link, Ns(2)), FRAMES_PER_LOOK);
        let next = link.next_timer();
        assert_eq!(next, Ns(2) + options.look_every);
        assert_eq!(frames(&mut link, next), 1);
    }

    #[test]
    fn a_server_may_want_another_first_frame_at_once() {
        let listener = LocalListener::new();
        let mut link = link(&listener);
        let mut first = greeted(&mut link, &listener, Ns(1));
        first.send(AGAIN, b"", &[]).expect("space");
        let _second = greeted(&mut link, &listener, Ns(1));
        assert!(first.recv(Ns(1)).is_err(), "a new channel");
        assert!(link.is_shaking());
        assert_eq!(link.take_error(), None);
    }

    #[test]
    fn a_closed_link_stays_closed() {
        let listener = LocalListener::new();
        let mut link = link(&listener);
        let mut server = connected(&mut link, &listener, Ns(1));
        assert!(!link.is_closed());
        link.close();
        assert!(link.is_closed() && server.recv(Ns(1)).is_err());
        assert!(link.poll(Ns::from_s(1000)).is_none() && listener.accept().is_none());
        assert_eq!(link.next_timer(), Ns::MAX);
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
        assert!(matches!(link.poll(now), Some(LinkEvent::Lost)));
        assert_eq!(link.next_timer().since(now), options.rest_lost);
        let now = link.next_timer();
        link.poll(now);
        listener.clear();
        link.poll(now);
        assert_eq!(link.next_timer().since(now), options.rest_min);
    }

    #[test]
    fn a_server_that_is_silent_or_refuses_is_lost() {
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
    }
}
