//! A core whose process has no descriptors left: accepting stops for a while, says so once, and goes on. Alone in its
//! file, for the limit is the whole process's.

mod common;

use common::Room;
use drover_base::Ns;
use drover_net::SocketOptions;
use rustix::process::{Resource, getrlimit, setrlimit};

#[test]
fn without_descriptors_accepting_stops_for_a_while() {
    let mut room = Room::new(SocketOptions::default(), 1000);
    let mut first = room.connect();
    assert_eq!(room.ask(&mut first, "a\n"), "a\n");
    let _waiting = [room.connect(), room.connect(), room.connect()];
    let generous = getrlimit(Resource::Nofile);
    // Of those the process may have, so many are taken (one by the count itself); the next has no place.
    let taken = std::fs::read_dir("/proc/self/fd").expect("it is there").count() as u64;
    let mut tight = generous;
    tight.current = Some(taken - 1);
    setrlimit(Resource::Nofile, tight).expect("less is always allowed");
    room.settle();
    assert_eq!(room.sockets.counters().accept_failures, 1, "not again and again");
    assert_eq!(room.ask(&mut first, "a\n"), "a\n");
    room.now += Ns::from_ms(100);
    room.settle();
    assert_eq!(room.sockets.counters().accept_failures, 2, "but once in a while");
    setrlimit(Resource::Nofile, generous).expect("the hard limit is as it was");
    // Kernels differ in whether they keep a connection that they could not hand over; this one is new.
    let mut second = room.connect();
    second.offer(b"b\n");
    room.settle();
    second.listen();
    assert!(second.got.is_empty(), "it is not time yet");
    room.now += Ns::from_ms(100);
    assert_eq!(room.hear(&mut second, 2), b"b\n");
}
