//! Resource limits against many, slow, silent and malicious clients.

use crate::common::{self, Bed};
use drover_base::{Ns, Progress};
use drover_net::SocketOptions;

const VALUE: usize = 1 << 20;

fn lent(bed: &Bed) -> (usize, usize) {
    let (requests, replies) = bed.sockets.pools();
    (requests.lent_bytes(), replies.lent_bytes())
}

#[test]
fn a_slow_reader_holds_little_and_its_further_requests_wait() {
    let mut bed = Bed::new(SocketOptions::default(), 10);
    let mut slow = bed.connect();
    let lines = "big 100000\n".repeat(500);
    let said = slow.offer(lines.as_bytes());
    bed.settle();
    let begun = bed.executor.requests;
    assert!(begun < 500, "all were begun, the socket took it all");
    assert!(lent(&bed).1 <= 512 << 10, "{:?}", lent(&bed));
    // Other clients are served meanwhile, and the slow one when it reads on.
    let mut other = bed.connect();
    assert_eq!(bed.ask(&mut other, "hello\n"), "hello\n");
    let all = said / 11;
    assert_eq!(bed.hear(&mut slow, all * 100_001).len(), all * 100_001);
    bed.settle();
    assert_eq!((bed.executor.requests, lent(&bed)), (all + 1, (0, 0)));
}

#[test]
fn idle_connections_hold_nothing() {
    let mut bed = Bed::new(SocketOptions::default(), 2000);
    let mut clients: Vec<_> = (0..300).map(|_| bed.connect()).collect();
    for client in &mut clients {
        assert_eq!(bed.ask(client, "hello\n"), "hello\n");
    }
    bed.settle();
    assert_eq!((bed.sockets.counters().current, lent(&bed)), (300, (0, 0)));
    drop(clients);
    bed.until("all are gone", |bed| bed.sockets.counters().current == 0);
    assert_eq!(bed.conn_table.open(), 0);
}

#[test]
fn beginnings_of_requests_take_about_their_size() {
    let mut bed = Bed::new(SocketOptions::default(), 2000);
    let mut clients: Vec<_> = (0..300).map(|_| bed.connect()).collect();
    for client in &mut clients {
        bed.say(client, b"a line that does not en");
    }
    bed.settle();
    assert_eq!(lent(&bed).0, 300 << 10);
    for client in &mut clients {
        assert_eq!(bed.ask(client, "d\n"), "a line that does not end\n");
    }
    assert_eq!(lent(&bed).0, 0);
}

fn tight() -> SocketOptions {
    SocketOptions {
        request_budget: 5 * VALUE,
        reply_budget: 5 * VALUE,
        ..SocketOptions::default()
    }
}

/// Starts a long request and sends half of it.
fn begin_long(bed: &mut Bed) -> common::Client {
    let mut client = bed.connect();
    let mut text = format!("put {VALUE}\n").into_bytes();
    text.resize(text.len() + VALUE / 2, 0);
    // Bytes that the core does not read stay in the sockets.
    let mut rest = &text[..];
    for _ in 0..2000 {
        rest = &rest[client.offer(rest)..];
        bed.round();
    }
    client
}

#[test]
fn long_requests_beyond_the_budget_wait_unread_and_those_that_stand_still_go() {
    let mut bed = Bed::new(tight(), 100);
    let mut clients: Vec<_> = (0..8).map(|_| begin_long(&mut bed)).collect();
    bed.settle();
    let held = lent(&bed).0;
    assert!(held <= 5 * VALUE + 8 * (16 << 10), "{held}");
    assert!(
        bed.sockets.counters().memory_waits >= 4,
        "{:?}",
        bed.sockets.counters()
    );
    let mut other = bed.connect();
    assert_eq!(bed.ask(&mut other, "hello\n"), "hello\n");
    // Without input from the holders, the core frees memory for the waiting ones, one after the other.
    for _ in 0..12 {
        bed.now += Ns::from_s(1);
        bed.settle();
    }
    assert!(bed.sockets.counters().shed >= 4, "{:?}", bed.sockets.counters());
    let last = clients.last_mut().expect("there is one");
    bed.until("the last is heard", |_| {
        last.offer(&[0; 4096]);
        last.listen();
        last.ended || !last.got.is_empty()
    });
    assert!(last.got.starts_with(b"0\n"), "{:?}", last.got.len());
}

#[test]
fn readers_that_take_nothing_lose_their_connections_when_memory_is_used_up() {
    let mut bed = Bed::new(tight(), 100);
    let mut clients: Vec<_> = (0..12).map(|_| bed.connect()).collect();
    for (i, client) in clients.iter_mut().enumerate() {
        // More than any socket buffers.
        let line = format!("big {}\n", 16 * VALUE);
        client.offer(line.as_bytes());
        bed.settle();
        let held = lent(&bed).1;
        assert!(held <= 5 * VALUE + 32 * VALUE, "{held} after {i}");
        bed.now += Ns::from_s(1);
    }
    assert!(bed.sockets.counters().shed >= 10, "{:?}", bed.sockets.counters());
    let mut other = bed.connect();
    assert_eq!(bed.ask(&mut other, "hello\n"), "hello\n");
}

#[test]
fn who_is_silent_for_too_long_is_shown_out() {
    let options = SocketOptions {
        idle_timeout_s: 5,
        ..SocketOptions::default()
    };
    let mut bed = Bed::new(options, 100);
    let (mut silent, mut talker) = (bed.connect(), bed.connect());
    assert_eq!(bed.ask(&mut silent, "a\n"), "a\n");
    assert_eq!(bed.ask(&mut talker, "a\n"), "a\n");
    assert!(
        matches!(bed.round(), Progress::Idle { wake_at } if wake_at <= bed.now + Ns::from_s(1)),
        "it wakes to look"
    );
    for second in 1..=4 {
        bed.now += Ns::from_s(1);
        bed.settle();
        assert_eq!(bed.sockets.counters().current, 2, "after {second} s");
        assert_eq!(bed.ask(&mut talker, "b\n"), "b\n");
    }
    bed.now += Ns::from_s(1);
    bed.settle();
    assert!(bed.hear_all(&mut silent).is_empty());
    assert_eq!(bed.ask(&mut talker, "c\n"), "c\n");
    assert_eq!(
        (bed.sockets.counters().idle_kicks, bed.sockets.counters().current),
        (1, 1)
    );
}

#[test]
fn one_too_many_is_refused_or_waits() {
    let options = SocketOptions {
        refusal: Some(b"full\n"),
        ..SocketOptions::default()
    };
    let mut bed = Bed::new(options, 2);
    let (mut a, mut b) = (bed.connect(), bed.connect());
    assert_eq!(bed.ask(&mut a, "a\n") + &bed.ask(&mut b, "b\n"), "a\nb\n");
    let mut third = bed.connect();
    assert_eq!(bed.hear_all(&mut third), b"full\n");
    assert_eq!(bed.sockets.counters().rejected, 1);

    let mut bed = Bed::new(SocketOptions::default(), 2);
    let (mut a, mut b) = (bed.connect(), bed.connect());
    assert_eq!(bed.ask(&mut a, "a\n") + &bed.ask(&mut b, "b\n"), "a\nb\n");
    let mut third = bed.connect();
    third.offer(b"c\n");
    bed.settle();
    third.listen();
    assert!(third.got.is_empty() && !third.ended);
    assert_eq!(bed.sockets.counters().listen_disabled, 1);
    drop(a);
    assert_eq!(bed.hear(&mut third, 2), b"c\n");
}

#[test]
fn garbage_without_end_is_answered_without_taking_more() {
    let mut bed = Bed::new(SocketOptions::default(), 10);
    let mut client = bed.connect();
    let garbage = "x".repeat(99) + "\n";
    let garbage = garbage.repeat(100);
    for _ in 0..500 {
        bed.say(&mut client, garbage.as_bytes());
        client.listen();
        client.got.clear();
        let (requests, replies) = bed.sockets.pools();
        assert!(requests.lent_bytes() + replies.lent_bytes() <= 256 << 10);
    }
    let (requests, replies) = bed.sockets.pools();
    assert!(
        requests.lent_bytes_max() <= 64 << 10,
        "{}",
        requests.lent_bytes_max()
    );
    assert!(
        replies.lent_bytes_max() <= 256 << 10,
        "{}",
        replies.lent_bytes_max()
    );
}
