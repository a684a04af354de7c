//! Replies come in the order of the messages, whatever their lengths, between all members at once.

use crate::bed::{Bed, End};
use drover_base::Rng;
use drover_links::SendRefused;
use drover_testkit::seeds::Seeds;

/// Numbers and messages sent from one member to another.
type Sent = Vec<(u64, Vec<u8>)>;

fn message(rng: &mut Rng, number: u64) -> Vec<u8> {
    let len = match rng.below(100) {
        0 => 200_000 + rng.below(400_000),
        1..5 => rng.below(70_000),
        5..10 => 0,
        _ => rng.below(200),
    };
    let mut message = number.to_le_bytes().to_vec();
    message.resize(
        len.max(message.len() as u64 * u64::from(len > 0)) as usize,
        number as u8,
    );
    message
}

#[test]
fn replies_come_in_order_between_three_members() {
    let seeds = Seeds::new(1, 3);
    println!("{seeds}");
    seeds.each(|seed| {
        let mut rng = Rng::new(seed, 0, 0);
        let mut bed = Bed::new(3);
        let mut expected = vec![vec![Sent::new(); 3]; 3];
        let mut next = 0;
        for _ in 0..3_000 {
            let (from, to) = (rng.below(3) as usize, rng.below(3) as usize);
            if from == to {
                bed.round();
                continue;
            }
            let message = message(&mut rng, next);
            while bed.try_send(from, to, next, &message) == Err(SendRefused::Full) {
                bed.round();
            }
            expected[from][to].push((next, message));
            next += 1;
        }
        for (from, to) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
            let sent = std::mem::take(&mut expected[from][to]);
            let is_sent = |number: u64| sent.binary_search_by_key(&number, |one| one.0).is_ok();
            let of_route = |bed: &mut Bed| -> Vec<(u64, End)> {
                let ends = &bed.events(from).ends;
                ends.iter().filter(|end| is_sent(end.0)).cloned().collect()
            };
            bed.until("all replies", |bed| {
                bed.events(from).ends.iter().filter(|end| is_sent(end.0)).count() == sent.len()
            });
            let replies: Vec<_> = sent
                .iter()
                .map(|(number, message)| (*number, End::Reply([b"re ", &message[..]].concat())))
                .collect();
            assert!(of_route(&mut bed) == replies, "from {from} to {to}");
        }
    });
}

#[test]
fn an_empty_reply_is_a_reply() {
    let mut bed = Bed::new(2);
    bed.send(0, 1, 5, b"big 0");
    assert_eq!(bed.ends(0, 1), [(5, End::Reply(Vec::new()))]);
}

#[test]
fn routes_keep_their_numbers() {
    let mut bed = Bed::new(1);
    let links = &mut bed.node(0).links;
    let routes = [(7, 3), (0, 0), (7, 0), (65_535, 9)];
    let numbers: Vec<usize> = routes
        .iter()
        .map(|&(peer, core)| links.route(peer, core))
        .collect();
    assert_eq!(numbers, [0, 1, 2, 3]);
    let again: Vec<usize> = routes
        .iter()
        .map(|&(peer, core)| links.route(peer, core))
        .collect();
    assert_eq!(again, numbers);
}
