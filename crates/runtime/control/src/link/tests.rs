//! Links to a server that a test plays.

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

/// A thread that stood still within the handshake finds the last frame there; the server has forgotten it meanwhile.
#[test]
fn a_handshake_that_took_too_long_makes_no_session_though_its_frames_are_there() {
    let (listener, options) = (LocalListener::new(), LinkOptions::default());
    let mut link = link(&listener);
    let mut server = greeted(&mut link, &listener, Ns(1));
    server.send(READY, b"", &[]).expect("space");
    let late = Ns(1) + options.handshake_max;
    assert!(link.poll(late).is_none());
    assert_eq!(link.take_error(), Some(Why::Loss(Loss::Timeout)));
}
