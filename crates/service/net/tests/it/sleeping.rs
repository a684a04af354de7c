//! Connections that wait for the next second.

use crate::common::Bed;
use drover_base::{Ns, Progress};
use drover_net::SocketOptions;

#[test]
fn only_the_next_second_ends_a_sleep() {
    let mut bed = Bed::new(SocketOptions::default(), 10);
    let (mut sleeper, mut other) = (bed.connect(), bed.connect());
    bed.executor.is_asleep = true;
    bed.say(&mut sleeper, b"sleep\n");
    bed.settle();
    bed.executor.is_asleep = false;
    bed.say(&mut sleeper, b"hello\n");
    assert_eq!(bed.ask(&mut other, "others go on\n"), "others go on\n");
    bed.settle();
    sleeper.listen();
    assert!(sleeper.got.is_empty(), "input is no reason");
    let Progress::Idle { wake_at } = bed.round() else {
        panic!("it would keep a core busy");
    };
    assert_eq!(wake_at, bed.now + Ns::from_s(1));
    bed.now += Ns::from_s(1);
    assert_eq!(bed.hear(&mut sleeper, 12), b"sleep\nhello\n");
}

#[test]
fn who_goes_away_in_its_sleep_is_forgotten() {
    let mut bed = Bed::new(SocketOptions::default(), 10);
    let mut sleeper = bed.connect();
    bed.executor.is_asleep = true;
    bed.say(&mut sleeper, b"sleep\n");
    bed.settle();
    drop(sleeper);
    for _ in 0..3 {
        bed.now += Ns::from_s(1);
        bed.settle();
    }
    bed.executor.is_asleep = false;
    bed.until("its connection is gone", |bed| {
        bed.now += Ns::from_s(1);
        bed.sockets.counters().current == 0
    });
}
