//! A process without free descriptors: accepting pauses, logs it once, and resumes. Alone in its file, because the
//! limit applies to the whole process.

mod common;

use common::Bed;
use drover_base::Ns;
use drover_net::SocketOptions;
use rustix::process::{Resource, getrlimit, setrlimit};

#[test]
fn without_descriptors_accepting_stops_for_a_while() {
    let mut bed = Bed::new(SocketOptions::default(), 1000);
    let mut first = bed.connect();
    assert_eq!(bed.ask(&mut first, "a\n"), "a\n");
    let _waiting = [bed.connect(), bed.connect(), bed.connect()];
    let generous = getrlimit(Resource::Nofile);
    // Number of open descriptors, including the one used to count; the limit leaves none for another.
    let taken = std::fs::read_dir("/proc/self/fd").expect("it is there").count() as u64;
    let mut tight = generous;
    tight.current = Some(taken - 1);
    setrlimit(Resource::Nofile, tight).expect("less is always allowed");
    bed.settle();
    assert_eq!(bed.sockets.counters().accept_failures, 1, "not again and again");
    assert_eq!(bed.ask(&mut first, "a\n"), "a\n");
    bed.now += Ns::from_ms(100);
    bed.settle();
    assert_eq!(bed.sockets.counters().accept_failures, 2, "but once in a while");
    setrlimit(Resource::Nofile, generous).expect("the hard limit is as it was");
    // Kernels differ in whether they keep a connection whose accept failed; this one is new.
    let mut second = bed.connect();
    second.offer(b"b\n");
    bed.settle();
    second.listen();
    assert!(second.got.is_empty(), "it is not time yet");
    bed.now += Ns::from_ms(100);
    assert_eq!(bed.hear(&mut second, 2), b"b\n");
}
