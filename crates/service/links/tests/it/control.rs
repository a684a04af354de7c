//! Calls of control threads: to a control thread, and to cores.

use crate::bed::{Bed, Events, identity};
use drover_base::Ns;
use drover_links::{
    AcceptorOptions, CallError, ControlLink, LinkAcceptor, LinkCaller, LinkTarget, Links, LinksOptions,
    PeerAddr,
};
use std::net::TcpListener;
use std::sync::Arc;

const TIMEOUT: Ns = Ns::from_s(20);

/// Serves calls in a thread: replies with the message backwards, and does not reply to `silence`.
fn serve_backwards(mut link: ControlLink) {
    std::thread::spawn(move || {
        assert_eq!(link.member(), "m1");
        while let Ok(message) = link.receive(Ns::from_ms(10)) {
            let Some(message) = message.map(<[u8]>::to_vec) else {
                continue;
            };
            if message != b"silence" {
                let reply: Vec<u8> = message.into_iter().rev().collect();
                link.reply(&reply).expect("the caller waits");
            }
        }
    });
}

fn caller(bed: &Bed, target: LinkTarget) -> LinkCaller {
    LinkCaller::connect(&identity(1), &bed.peer(0), target, TIMEOUT).expect("it is let in")
}

#[test]
fn a_control_thread_is_called() {
    let mut bed = Bed::new(1);
    let options = AcceptorOptions {
        control_bytes_max: 4 << 20,
        ..AcceptorOptions::default()
    };
    bed.start_with(0, options, serve_backwards);
    let mut caller = caller(&bed, LinkTarget::Control);
    assert_eq!(caller.call(b"abc", TIMEOUT).expect("a reply"), b"cba");
    assert_eq!(caller.call(b"", TIMEOUT).expect("a reply"), b"");
    let long: Vec<u8> = (0..3_000_000).map(|at| at as u8).collect();
    let reply = caller.call(&long, TIMEOUT).expect("a reply");
    assert!(reply.iter().rev().eq(&long));
    for message in ["x", "yz"] {
        caller.send(message.as_bytes(), TIMEOUT).expect("it is open");
    }
    assert_eq!(caller.receive(TIMEOUT).expect("a reply"), b"x");
    assert_eq!(caller.receive(TIMEOUT).expect("a reply"), b"zy");
    let silent = caller.call(b"silence", Ns::from_ms(20)).map(<[u8]>::len);
    assert!(matches!(silent, Err(CallError::Lost { .. })), "{silent:?}");
}

#[test]
fn a_core_is_called() {
    let mut bed = Bed::new(1);
    let mut caller = caller(&bed, LinkTarget::Core(0));
    let calling = std::thread::spawn(move || {
        let short = caller.call(b"abc", TIMEOUT).expect("a reply").to_vec();
        let long = caller.call(b"big 5000000", TIMEOUT).expect("a reply").len();
        (short, long)
    });
    bed.until("the end of the calls", |bed| bed.events(0).closed.len() == 1);
    assert_eq!(calling.join().expect("no panic"), (b"re abc".to_vec(), 5_000_000));
}

#[test]
fn calls_reach_the_core_that_they_are_meant_for() {
    let identity_of_0 = Arc::new(identity(0));
    let links = |_| {
        let nobody = Box::new(|_| None);
        Links::new(identity_of_0.clone(), LinksOptions::default(), nobody).expect("descriptors")
    };
    let mut cores: Vec<Links> = (0..3).map(links).collect();
    let inboxes = cores.iter().map(Links::inbox).collect();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let options = AcceptorOptions::default();
    let acceptor = LinkAcceptor::start(listener, identity_of_0.clone(), inboxes, |_| {}, options);
    let acceptor = acceptor.expect("a thread");
    let peer = PeerAddr {
        name: "m0".into(),
        addr: acceptor.addr(),
    };
    for core in 0..3 {
        let caller = LinkCaller::connect(&identity(1), &peer, LinkTarget::Core(core), TIMEOUT);
        let mut caller = caller.expect("it is let in");
        let calling = std::thread::spawn(move || caller.call(b"a", TIMEOUT).map(<[u8]>::to_vec));
        let (links, mut events) = (&mut cores[usize::from(core)], Events::default());
        while !calling.is_finished() {
            links.step(&mut events, Ns::from_s(1));
            let _ = links.flush();
        }
        assert_eq!(calling.join().expect("no panic").expect("a reply"), b"re a");
        assert_eq!(events.served.len(), 1);
    }
}
