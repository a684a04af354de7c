//! Who is let in, and what garbled bytes do: they end their own connection and nothing else.

use crate::bed::{Bed, End, identity};
use drover_base::{Ns, Rng};
use drover_links::{AcceptorOptions, CallError, LinkCaller, LinkTarget, MemberIdentity, PeerAddr, Refusal};
use drover_links::{LinksOptions, SendRefused};
use drover_testkit::seeds::Seeds;
use std::io::{Read, Write};
use std::net::TcpStream;

const TIMEOUT: Ns = Ns::from_s(20);

fn refused(identity: &MemberIdentity, peer: &PeerAddr, target: LinkTarget) -> Option<Refusal> {
    match LinkCaller::connect(identity, peer, target, TIMEOUT) {
        Ok(_) => None,
        Err(CallError::Refused { source, .. }) => Some(source),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn strangers_are_refused() {
    let bed = Bed::new(1);
    let peer = bed.peer(0);
    let (core, good) = (LinkTarget::Core(0), identity(1));
    let with = |change: &dyn Fn(&mut MemberIdentity)| {
        let mut changed = good.clone();
        change(&mut changed);
        changed
    };
    assert_eq!(refused(&good, &peer, core), None);
    let wrong_secret = with(&|identity| identity.secret[31] ^= 1);
    assert_eq!(refused(&wrong_secret, &peer, core), Some(Refusal::Secret));
    let other_service = with(&|identity| identity.service.push('s'));
    assert_eq!(refused(&other_service, &peer, core), Some(Refusal::Service));
    let other_member = PeerAddr {
        name: "m7".into(),
        ..peer.clone()
    };
    assert_eq!(refused(&good, &other_member, core), Some(Refusal::Member));
    assert_eq!(refused(&good, &peer, LinkTarget::Core(1)), Some(Refusal::Target));
    assert_eq!(refused(&good, &peer, LinkTarget::Control), None);
}

#[test]
fn a_core_is_refused_as_its_member_is() {
    let mut bed = Bed::new(2);
    let peer = bed.peer(1);
    bed.peers.lock().expect("no panic")[1] = Some(PeerAddr {
        name: "m7".into(),
        ..peer
    });
    bed.send(0, 1, 1, b"a");
    assert_eq!(bed.ends(0, 1), [(1, End::Unsent(b"a".to_vec()))]);
    assert_eq!(bed.node(0).links.counters().failed, 1);
}

#[test]
fn a_member_has_a_limited_number_of_links_and_gets_another_when_one_ends() {
    let mut bed = Bed::new(1);
    let options = AcceptorOptions {
        links_per_member_max: 3,
        ..AcceptorOptions::default()
    };
    bed.start_with(0, options, |_| {});
    let (peer, core) = (bed.peer(0), LinkTarget::Core(0));
    let connect = |member| LinkCaller::connect(&identity(member), &peer, core, TIMEOUT);
    let mut callers: Vec<_> = (0..3).map(|_| connect(1).expect("it is let in")).collect();
    assert_eq!(refused(&identity(1), &peer, core), Some(Refusal::TooMany));
    connect(2).expect("another member is let in");
    bed.until("their arrival", |bed| bed.node(0).links.counters().incoming >= 3);
    callers.pop();
    bed.until("a free place", |bed| bed.events(0).closed.len() >= 2);
    callers.push(connect(1).expect("one has ended"));
}

#[test]
fn idle_connections_keep_nobody_out() {
    let bed = Bed::new(1);
    let peer = bed.peer(0);
    let connect = |_| TcpStream::connect(peer.addr).expect("it listens");
    let _idle: Vec<TcpStream> = (0..200).map(connect).collect();
    assert_eq!(refused(&identity(1), &peer, LinkTarget::Core(0)), None);
}

#[test]
fn random_bytes_instead_of_a_handshake_end_their_connection() {
    let seeds = Seeds::new(2, 20);
    println!("{seeds}");
    let mut bed = Bed::new(2);
    let addr = bed.peer(1).addr;
    seeds.each(|seed| {
        let mut rng = Rng::new(seed, 0, 0);
        let mut socket = TcpStream::connect(addr).expect("it listens");
        let mut bytes: Vec<u8> = (0..236 + rng.below(100)).map(|_| rng.next_u64() as u8).collect();
        if rng.below(2) == 0 {
            bytes[..10].copy_from_slice(b"drvrlink\x01\0");
        }
        socket.write_all(&bytes).expect("it reads");
        // A refusal, then the end, or at once the end if bytes were left unread.
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest);
        assert!(rest.len() <= 65);
    });
    bed.link(0, 1);
}

#[test]
fn a_reply_that_is_too_long_ends_its_link() {
    let options = LinksOptions {
        reply_bytes_max: 1000,
        message_bytes_max: 100,
        ..LinksOptions::default()
    };
    let mut bed = Bed::with(2, options);
    bed.link(0, 1);
    bed.send(0, 1, 1, b"big 1000");
    bed.send(0, 1, 2, b"big 1001");
    let ends = bed.ends(0, 2);
    assert_eq!(ends[1], (2, End::Lost));
    bed.link(0, 1);
    assert_eq!(bed.try_send(0, 1, 3, &[0; 101]), Err(SendRefused::Down));
}

#[test]
fn a_message_that_is_too_long_ends_its_link() {
    let mut bed = Bed::new(1);
    let mut caller =
        LinkCaller::connect(&identity(1), &bed.peer(0), LinkTarget::Core(0), TIMEOUT).expect("it is let in");
    bed.until("its arrival", |bed| bed.node(0).links.counters().incoming == 1);
    let calling = std::thread::spawn(move || {
        let lost = caller.call(&vec![0; 3 << 20], TIMEOUT).map(<[u8]>::len);
        let again = caller.call(b"a", TIMEOUT).map(<[u8]>::len);
        (lost, again)
    });
    bed.until("its end", |bed| bed.events(0).closed.len() == 1);
    let (lost, again) = calling.join().expect("no panic");
    assert!(matches!(lost, Err(CallError::Lost { .. })), "{lost:?}");
    assert!(matches!(again, Err(CallError::Lost { .. })), "{again:?}");
}
