//! Members that stop, stall and come back: each message ends exactly once, and what was never sent comes back.

use crate::bed::{Bed, End};
use drover_base::{Ns, Rng};
use drover_links::{LinksOptions, PeerAddr, SendRefused};
use drover_testkit::seeds::Seeds;
use std::net::TcpListener;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[test]
fn a_member_that_stops_loses_what_was_sent_and_gives_back_the_rest() {
    let mut bed = Bed::new(2);
    bed.link(0, 1);
    bed.node(1).is_stopped = true;
    bed.send(0, 1, 1, b"written");
    bed.round();
    bed.send(0, 1, 2, b"not written");
    bed.nodes[1] = None;
    let ends = [(1, End::Lost), (2, End::Unsent(b"not written".to_vec()))];
    // The break is noticed before the second message is written, or by writing it.
    let got = bed.ends(0, 2);
    assert!(got == ends || got == [(1, End::Lost), (2, End::Lost)], "{got:?}");
    bed.start(1);
    bed.link(0, 1);
}

#[test]
fn a_message_that_is_partly_written_comes_back_whole() {
    let mut bed = Bed::new(2);
    bed.link(0, 1);
    bed.node(1).is_stopped = true;
    // One after the other, until the system's buffers are full: of the last message they have taken a part.
    let message = |number: u64| vec![number as u8; 1_500_000 + number as usize];
    let (mut number, mut written) = (0, 0_u64);
    let counted = |bed: &mut Bed| bed.node(0).links.counters().written_bytes;
    loop {
        bed.send(0, 1, number, &message(number));
        written += 4 + message(number).len() as u64;
        bed.round();
        if counted(&mut bed) < written + 9 {
            break;
        }
        number += 1;
    }
    bed.nodes[1] = None;
    let ends = bed.ends(0, number as usize + 1);
    let (last, lost) = ends.split_last().expect("there is one");
    assert!(lost.iter().map(|end| &end.1).all(|end| *end == End::Lost));
    assert!(
        last == &(number, End::Unsent(message(number))),
        "message {number}"
    );
}

#[test]
fn messages_to_a_member_that_is_not_there_come_back() {
    let mut bed = Bed::new(2);
    bed.nodes[1] = None;
    bed.send(0, 1, 1, b"a");
    bed.send(0, 1, 2, b"b");
    let back = [(1, End::Unsent(b"a".to_vec())), (2, End::Unsent(b"b".to_vec()))];
    assert_eq!(bed.ends(0, 2), back);
    assert_eq!(bed.try_send(0, 1, 3, b"c"), Err(SendRefused::Down));
    bed.pass(Ns::from_ms(5));
    bed.send(0, 1, 4, b"d");
    assert_eq!(bed.ends(0, 1), [(4, End::Unsent(b"d".to_vec()))]);
    bed.pass(Ns::from_ms(5));
    assert_eq!(
        bed.try_send(0, 1, 5, b"e"),
        Err(SendRefused::Down),
        "it waits longer"
    );
    bed.start(1);
    bed.pass(Ns::from_ms(5));
    bed.link(0, 1);
}

#[test]
fn a_member_without_an_address_is_down() {
    let mut bed = Bed::new(1);
    bed.peers.lock().expect("no panic").push(None);
    bed.send(0, 1, 1, b"a");
    assert_eq!(bed.ends(0, 1), [(1, End::Unsent(b"a".to_vec()))]);
    assert_eq!(bed.try_send(0, 1, 2, b"b"), Err(SendRefused::Down));
}

#[test]
fn a_member_that_never_answers_the_handshake_is_given_up() {
    let mut bed = Bed::new(1);
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let addr = silent.local_addr().expect("its address");
    let name = "m1".to_owned();
    bed.peers
        .lock()
        .expect("no panic")
        .push(Some(PeerAddr { name, addr }));
    bed.send(0, 1, 1, b"a");
    bed.round();
    let (_accepted, _) = silent.accept().expect("a connection");
    bed.pass(Ns::from_ms(499));
    assert_eq!(bed.events(0).ends, []);
    bed.pass(Ns::from_ms(200));
    assert_eq!(bed.ends(0, 1), [(1, End::Unsent(b"a".to_vec()))]);
}

#[test]
fn a_silent_member_is_given_up_and_an_idle_one_is_not() {
    let mut bed = Bed::new(2);
    bed.link(0, 1);
    // Idle, but alive: keep-alives come and go.
    for _ in 0..100 {
        let written = |bed: &mut Bed| bed.node(1).links.counters().written_bytes;
        let before = written(&mut bed);
        bed.pass(Ns::from_ms(1_000));
        bed.until("a keep-alive", |bed| written(bed) > before);
        bed.until("its arrival", |bed| !bed.round());
    }
    assert_eq!(bed.node(0).links.counters().lost, 0);
    bed.node(1).is_stopped = true;
    bed.send(0, 1, 1, b"a");
    for _ in 0..12 {
        bed.pass(Ns::from_ms(250));
    }
    assert_eq!(bed.ends(0, 1), [(1, End::Lost)]);
    assert_eq!(bed.node(0).links.counters().lost, 1);
}

#[test]
fn a_retired_link_answers_what_it_was_asked_and_ends_for_ever() {
    let mut bed = Bed::new(2);
    bed.link(0, 1);
    bed.node(1).is_stopped = true;
    bed.send(0, 1, 1, b"a");
    bed.round();
    bed.node(0).links.retire_peer(1);
    bed.pass(Ns::from_ms(300));
    assert_eq!(bed.node(0).links.counters().outgoing, 1, "a reply is missing");
    bed.node(1).is_stopped = false;
    bed.until("the reply", |bed| !bed.events(0).ends.is_empty());
    bed.pass(Ns::from_ms(300));
    bed.until("the end", |bed| bed.node(0).links.counters().outgoing == 0);
    bed.pass(Ns::from_s(1_000_000));
    assert_eq!(bed.try_send(0, 1, 2, b"b"), Err(SendRefused::Down));
}

#[test]
fn a_panic_costs_the_link_that_caused_it() {
    let mut bed = Bed::new(3);
    bed.link(0, 1);
    bed.link(2, 1);
    bed.send(0, 1, 1, b"a");
    bed.send(0, 1, 2, b"panic");
    bed.send(0, 1, 3, b"b");
    bed.send(2, 1, 4, b"c");
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut panics = 0;
    while bed.events(0).ends.len() < 3 {
        if catch_unwind(AssertUnwindSafe(|| bed.round())).is_err() {
            panics += 1;
            bed.node(1).links.recover();
        }
    }
    std::panic::set_hook(hook);
    assert_eq!(panics, 1);
    assert_eq!(bed.ends(2, 1), [(4, End::Reply(b"re c".to_vec()))]);
    let lost: Vec<u64> = bed
        .ends(0, 3)
        .into_iter()
        .filter(|end| end.1 == End::Lost)
        .map(|end| end.0)
        .collect();
    assert!(lost.ends_with(&[2, 3]), "{lost:?}");
    bed.link(0, 1);
}

#[test]
fn each_message_ends_once_whatever_happens_to_its_member() {
    let seeds = Seeds::new(1, 5);
    println!("{seeds}");
    seeds.each(|seed| {
        let mut rng = Rng::new(seed, 0, 0);
        let options = LinksOptions {
            queue_bytes: 8 << 10,
            ..LinksOptions::default()
        };
        let mut bed = Bed::with(3, options);
        let mut served = 0;
        let mut taken = Vec::new();
        for number in 0..4_000 {
            match rng.below(200) {
                0 => {
                    let index = 1 + rng.below(2) as usize;
                    served += bed.nodes[index].take().map_or(0, |node| node.events.served.len());
                }
                1 => {
                    if let Some(index) = (1..3).find(|&index| bed.nodes[index].is_none()) {
                        bed.start(index);
                    }
                }
                2..40 => {
                    bed.round();
                }
                40..50 => bed.pass(Ns::from_ms(rng.below(20))),
                _ => {
                    let to = 1 + rng.below(2) as usize;
                    let message = vec![b'm'; rng.below(3_000) as usize];
                    if bed.try_send(0, to, number, &message).is_ok() {
                        taken.push((number, message));
                    }
                }
            }
        }
        let mut ends = Vec::new();
        while ends.len() < taken.len() {
            bed.pass(Ns::from_ms(1));
            ends.append(&mut bed.events(0).ends);
        }
        for index in 1..3 {
            served += bed.nodes[index]
                .as_ref()
                .map_or(0, |node| node.events.served.len());
        }
        ends.sort_by_key(|end| end.0);
        let mut executed = 0;
        for ((number, message), (of, end)) in taken.iter().zip(&ends) {
            assert_eq!(number, of);
            match end {
                End::Reply(reply) => {
                    executed += 1;
                    assert!(reply[3..] == message[..]);
                }
                End::Unsent(back) => assert!(back == message),
                End::Lost => {}
            }
        }
        let lost = ends.iter().filter(|end| end.1 == End::Lost).count();
        assert!(
            (executed..=executed + lost).contains(&served),
            "{served} were served, {executed} replies came, {lost} were lost"
        );
    });
}
