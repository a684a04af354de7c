//! A slow peer costs a bounded amount of memory, and nothing is lost.

use crate::bed::{Bed, End};
use drover_base::Ns;
use drover_links::{LinksOptions, SendRefused};

const QUEUE_BYTES: usize = 64 << 10;

fn bed() -> Bed {
    let options = LinksOptions {
        queue_bytes: QUEUE_BYTES,
        outstanding_max: 1000,
        ..LinksOptions::default()
    };
    let mut bed = Bed::with(2, options);
    bed.link(0, 1);
    bed
}

#[test]
fn a_peer_that_does_not_read_fills_the_link_and_nothing_is_lost() {
    let mut bed = bed();
    bed.node(1).is_stopped = true;
    let message = vec![b'm'; 10_000];
    let mut sent = 0;
    // The system's buffers take some, and then no round brings space.
    loop {
        match bed.try_send(0, 1, sent, &message) {
            Ok(()) => sent += 1,
            Err(refused) => {
                assert_eq!(refused, SendRefused::Full);
                let before = bed.node(0).links.counters().written_bytes;
                bed.round();
                if bed.node(0).links.counters().written_bytes == before {
                    break;
                }
            }
        }
    }
    assert!(!bed.node(0).links.has_space(0, message.len()));
    assert!(!bed.node(0).links.has_space_again());
    bed.node(1).is_stopped = false;
    bed.until("space", |bed| bed.node(0).links.has_space_again());
    assert!(!bed.node(0).links.has_space_again(), "it is said once");
    let ends = bed.ends(0, sent as usize);
    assert!(ends.iter().map(|end| end.0).eq(0..sent));
    assert!(ends.iter().all(|end| matches!(end.1, End::Reply(_))));
}

#[test]
fn as_many_messages_as_allowed_are_outstanding() {
    let mut bed = bed();
    bed.node(1).is_stopped = true;
    for number in 0..1000 {
        bed.send(0, 1, number, b"m");
    }
    assert_eq!(bed.try_send(0, 1, 1000, b"m"), Err(SendRefused::Full));
    bed.node(1).is_stopped = false;
    assert_eq!(bed.ends(0, 1000).len(), 1000);
    assert!(bed.node(0).links.has_space_again());
    bed.send(0, 1, 1000, b"m");
}

#[test]
fn a_member_whose_replies_are_not_read_serves_no_further_messages() {
    let mut bed = bed();
    const COUNT: u64 = 900;
    for number in 0..COUNT {
        bed.send(0, 1, number, b"big 100000");
    }
    bed.round();
    bed.node(0).is_stopped = true;
    let mut before = usize::MAX;
    // Until the system's buffers are full and no further message is served.
    while bed.events(1).served.len() != before || bed.round() {
        before = bed.events(1).served.len();
    }
    assert!(before < COUNT as usize, "{before} were served");
    bed.node(0).is_stopped = false;
    let ends = bed.ends(0, COUNT as usize);
    assert!(ends.iter().map(|end| end.0).eq(0..COUNT));
    assert!(
        ends.iter()
            .all(|end| matches!(&end.1, End::Reply(reply) if reply.len() == 100_000))
    );
}

#[test]
fn a_member_whose_replies_are_not_read_for_long_closes_the_link() {
    let mut bed = bed();
    for number in 0..900 {
        bed.send(0, 1, number, b"big 100000");
    }
    bed.round();
    bed.node(0).is_stopped = true;
    let mut before = usize::MAX;
    while bed.events(1).served.len() != before || bed.round() {
        before = bed.events(1).served.len();
    }
    bed.pass(Ns::from_ms(2_000));
    assert_eq!(bed.events(1).closed.len(), 0);
    bed.pass(Ns::from_ms(2_000));
    assert_eq!(bed.events(1).closed.len(), 1);
    bed.node(0).is_stopped = false;
    let ends = bed.ends(0, 900);
    let replies = ends
        .iter()
        .take_while(|end| matches!(end.1, End::Reply(_)))
        .count();
    assert!(replies < 900 && ends[replies..].iter().all(|end| end.1 == End::Lost));
}

#[test]
fn one_message_may_be_longer_than_the_queue() {
    let mut bed = bed();
    let message = vec![b'm'; 1 << 20];
    bed.send(0, 1, 0, &message);
    assert_eq!(bed.try_send(0, 1, 1, b"m"), Err(SendRefused::Full));
    assert_eq!(bed.ends(0, 1), [(0, End::Reply([b"re ", &message[..]].concat()))]);
}
