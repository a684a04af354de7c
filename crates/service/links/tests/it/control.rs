//! Calls of control threads: to a control thread, and to cores.

use crate::bed::{Bed, End, Events, Node, identity, pending};
use drover_base::Ns;
use drover_links::{
    AcceptorOptions, CallError, ControlLink, CoreInboxes, LinkAcceptor, LinkCaller, LinkInbox, LinkPurpose,
    LinkTarget, Links, LinksOptions, PeerAddr,
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
    let inboxes: Vec<LinkInbox> = cores.iter().map(Links::inbox).collect();
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

#[test]
fn links_for_copies_are_served_by_themselves() {
    let own = Arc::new(identity(0));
    let links = |purpose| {
        let options = LinksOptions {
            purpose,
            ..LinksOptions::default()
        };
        Links::new(own.clone(), options, Box::new(|_| None)).expect("descriptors")
    };
    let (requests, mut copies) = (links(LinkPurpose::Requests), links(LinkPurpose::Copies));
    let inboxes = CoreInboxes {
        requests: vec![requests.inbox()],
        copies: vec![copies.inbox()],
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let options = AcceptorOptions::default();
    let acceptor = LinkAcceptor::start(listener, own.clone(), inboxes, |_| {}, options).expect("a thread");
    // Another member's core, which sends something to be copied.
    let addr = acceptor.addr();
    let mut sender = Links::new(
        Arc::new(identity(1)),
        LinksOptions {
            purpose: LinkPurpose::Copies,
            ..LinksOptions::default()
        },
        Box::new(move |_| {
            let name = "m0".into();
            Some(PeerAddr { name, addr })
        }),
    )
    .expect("descriptors");
    let route = sender.route(0, 0);
    sender.send(route, pending(1), &[b"a"]).expect("there is space");
    let (mut sent, mut served) = (Events::default(), Events::default());
    while sent.ends.is_empty() {
        sender.step(&mut sent, Ns::from_s(1));
        let _ = sender.flush();
        copies.step(&mut served, Ns::from_s(1));
        let _ = copies.flush();
    }
    assert_eq!(sent.ends, [(1, End::Reply(b"re a".to_vec()))]);
    assert_eq!(requests.counters().incoming, 0);
}

#[test]
fn replies_that_are_void_never_leave() {
    let mut bed = Bed::new(2);
    bed.link(1, 0);
    bed.send(1, 0, 2, b"second");
    let _ = bed.node(1).links.flush();
    let now = bed.now;
    let Node { links, events, .. } = bed.node(0);
    while events.served.len() < 2 {
        links.step(events, now);
    }
    links.close_unsent(events);
    assert_eq!(bed.ends(1, 1), [(2, End::Lost)]);
}
