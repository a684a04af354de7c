//! Bytes arrive whole, however reads and writes split them.

use crate::common::Bed;
use drover_net::{Layer, SocketOptions};
use rustix::net::RecvFlags;
use std::io::{self, ErrorKind, IoSlice};
use std::net::Shutdown;
use std::os::fd::BorrowedFd;

fn bed() -> Bed {
    Bed::new(SocketOptions::default(), 1000)
}

#[test]
fn a_pipeline_is_answered_in_order() {
    let mut bed = bed();
    let mut client = bed.connect();
    let lines: String = (0..5000).map(|i| format!("line {i}\n")).collect();
    bed.say(&mut client, lines.as_bytes());
    assert!(bed.hear(&mut client, lines.len()) == lines.as_bytes());
    let counters = *bed.sockets.counters();
    assert_eq!(counters.bytes_read, lines.len() as u64);
    assert_eq!(counters.bytes_written, lines.len() as u64);
    assert!(
        counters.writes * 10 < 5000,
        "replies are written together: {counters:?}"
    );
}

#[test]
fn requests_may_be_split_at_every_byte() {
    let mut bed = bed();
    let text = b"put 5\nabcdehello\nbig 3\n";
    for split in 1..text.len() {
        let mut client = bed.connect();
        bed.say(&mut client, &text[..split]);
        bed.settle();
        bed.say(&mut client, &text[split..]);
        assert_eq!(
            bed.hear(&mut client, 14),
            b"495\nhello\nxxx\n",
            "split at {split}"
        );
    }
    let mut client = bed.connect();
    for byte in text {
        bed.say(&mut client, &[*byte]);
        bed.settle();
    }
    assert_eq!(bed.hear(&mut client, 14), b"495\nhello\nxxx\n");
    bed.settle();
    assert_eq!(bed.sockets.pools().0.lent_bytes(), 0, "who waits holds nothing");
    assert_eq!(bed.sockets.pools().1.lent_bytes(), 0);
}

#[test]
fn long_values_go_both_ways() {
    let mut bed = bed();
    let mut client = bed.connect();
    let mut text = b"put 1000000\n".to_vec();
    text.resize(text.len() + 1_000_000, 1);
    text.extend_from_slice(b"big 700000\nend\n");
    bed.say(&mut client, &text);
    let heard = bed.hear(&mut client, 8 + 700_001 + 4);
    assert!(heard.starts_with(b"1000000\nxxx") && heard.ends_with(b"x\nend\n"));
    bed.settle();
    assert_eq!(
        bed.sockets.pools().0.lent_bytes() + bed.sockets.pools().1.lent_bytes(),
        0
    );
}

#[test]
fn who_writes_no_more_still_gets_its_replies() {
    let mut bed = bed();
    let mut client = bed.connect();
    bed.say(&mut client, b"big 300000\nlast\nhalf a li");
    client.stream.shutdown(Shutdown::Write).expect("shutdown");
    let heard = bed.hear_all(&mut client);
    assert_eq!(heard.len(), 300_001 + 5);
    assert!(heard.ends_with(b"x\nlast\n"));
    assert_eq!(bed.sockets.counters().current, 0);
}

#[test]
fn what_was_said_before_leaving_is_done() {
    let mut bed = bed();
    let mut client = bed.connect();
    bed.settle();
    let lines = "hello\n".repeat(10_000);
    bed.say(&mut client, lines.as_bytes());
    client.stream.shutdown(Shutdown::Both).expect("shutdown");
    drop(client);
    bed.until("it is gone", |bed| bed.sockets.counters().current == 0);
    assert!(bed.executor.requests > 0);
}

#[test]
fn quit_ends_the_connection_after_its_replies() {
    let mut bed = bed();
    let mut client = bed.connect();
    bed.say(&mut client, b"one\nbig 100000\nquit\n");
    assert_eq!(bed.hear_all(&mut client).len(), 4 + 100_001);
    assert_eq!((bed.sockets.counters().current, bed.conn_table.open()), (0, 0));
}

#[test]
fn replies_of_other_cores_come_in_the_order_of_requests() {
    let mut bed = bed();
    let mut client = bed.connect();
    bed.say(&mut client, b"a\nlater\nb\nlater\nc\n");
    assert_eq!(bed.hear(&mut client, 2), b"a\n");
    bed.until("both are under way", |bed| {
        bed.executor.pending_replies.len() == 2
    });
    let pending_replies = std::mem::take(&mut bed.executor.pending_replies);
    bed.sockets.fill(pending_replies[1], b"second\n");
    bed.settle();
    client.listen();
    assert!(client.got.is_empty());
    bed.sockets.fill(pending_replies[0], b"first\n");
    assert_eq!(bed.hear(&mut client, 19 - 2), b"first\nb\nsecond\nc\n");
    // A closed connection is forgotten when its last reply has come; later replies are dropped.
    bed.say(&mut client, b"later\n");
    bed.until("under way", |bed| bed.executor.pending_replies.len() == 1);
    drop(client);
    bed.settle();
    let pending_reply = bed.executor.pending_replies[0];
    bed.sockets.fill(pending_reply, b"too late\n");
    bed.until("it is gone", |bed| bed.sockets.counters().current == 0);
    let mut next = bed.connect();
    bed.settle();
    bed.sockets.fill(pending_reply, b"nobody's\n");
    assert_eq!(bed.ask(&mut next, "mine\n"), "mine\n");
}

#[test]
fn one_who_says_much_lets_others_have_their_turn() {
    let mut bed = bed();
    bed.executor.per_turn = 2;
    let mut client = bed.connect();
    let lines = "x\n".repeat(100);
    bed.say(&mut client, lines.as_bytes());
    assert_eq!(bed.hear(&mut client, 200), lines.as_bytes());
    assert!(
        bed.sockets.counters().yields >= 40,
        "{:?}",
        bed.sockets.counters()
    );
}

#[test]
fn after_a_panic_the_others_are_served_on() {
    let mut bed = bed();
    let (mut victim, mut other) = (bed.connect(), bed.connect());
    assert_eq!(bed.ask(&mut other, "before\n"), "before\n");
    assert_eq!(victim.offer(b"panic\n"), 6);
    let mut caught = false;
    for _ in 0..10_000 {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| bed.round()));
        if result.is_err() {
            bed.sockets.recover();
            caught = true;
            break;
        }
    }
    assert!(caught);
    assert_eq!(bed.ask(&mut other, "after\n"), "after\n");
    assert!(bed.hear_all(&mut victim).is_empty());
    assert_eq!(bed.sockets.counters().current, 1);
}

#[test]
fn others_see_who_is_there() {
    let mut bed = bed();
    let mut clients = [bed.connect(), bed.connect()];
    for client in &mut clients {
        assert_eq!(bed.ask(client, "a\n"), "a\n");
    }
    let mut seen = Vec::new();
    let shown = |addr: std::io::Result<std::net::SocketAddr>| addr.expect("it is connected").to_string();
    bed.conn_table.each_known(|known| {
        seen.push(known.peer.as_ref().map(ToString::to_string));
        assert_eq!(known.listener.to_string(), bed.addr.to_string());
        assert_eq!(known.last_s(), 1);
    });
    let ours: Vec<_> = clients
        .iter()
        .map(|client| Some(shown(client.stream.local_addr())))
        .collect();
    assert_eq!(seen, ours);
    drop(clients);
    bed.until("they are gone", |bed| bed.sockets.counters().current == 0);
    bed.conn_table.each_known(|known| panic!("{known:?}"));
}

/// A layer whose every second read is interrupted.
struct Interrupted {
    reads: usize,
}

impl Layer for Interrupted {
    fn read(&mut self, socket: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<usize> {
        self.reads += 1;
        if self.reads % 2 == 1 {
            return Err(ErrorKind::Interrupted.into());
        }
        Ok(rustix::net::recv(socket, into, RecvFlags::empty())?.0)
    }

    fn write(&mut self, socket: BorrowedFd<'_>, from: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(rustix::io::writev(socket, from)?)
    }

    fn wants_write(&self) -> bool {
        false
    }
}

/// The event that announced the input does not come again.
#[test]
fn an_interrupted_read_is_repeated() {
    let mut bed = bed();
    bed.sockets
        .set_layers(|_| Some(Box::new(Interrupted { reads: 0 })));
    let mut client = bed.connect();
    for line in ["hello\n", "again\n"] {
        assert_eq!(bed.ask(&mut client, line), line);
    }
}
