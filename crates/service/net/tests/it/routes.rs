//! Connections that wait for the way to another core.

use crate::common::{Bed, Client};
use drover_net::SocketOptions;

const ROUTED: usize = b"routed\n".len();

fn routed(client: &mut Client) -> usize {
    client.listen();
    client.got.len() / ROUTED
}

/// Clients with a long pipeline each, of which the way takes two requests at a time: none is passed over.
#[test]
fn they_take_turns_in_the_order_of_waiting() {
    let mut bed = Bed::new(SocketOptions::default(), 10);
    let mut clients: Vec<Client> = (0..5).map(|_| bed.connect()).collect();
    for client in &mut clients {
        bed.say(client, "route\n".repeat(40).as_bytes());
    }
    bed.settle();
    for round in 1..=20 {
        for _ in &clients {
            bed.executor.route_space = 2;
            bed.sockets.resume_routes(1);
            bed.until("two were sent", |bed| bed.executor.route_space == 0);
        }
        bed.until("all got their share", |_| {
            clients.iter_mut().all(|client| routed(client) == 2 * round)
        });
    }
}

/// Neither replies nor input give a turn to a connection that waits in order.
#[test]
fn what_arrives_meanwhile_waits() {
    let mut bed = Bed::new(SocketOptions::default(), 10);
    let mut client = bed.connect();
    bed.say(&mut client, b"later\nroute\n");
    bed.settle();
    let pending = bed.executor.pending_replies.pop().expect("a pending reply");
    bed.executor.route_space = 1;
    bed.sockets.fill(pending, b"now\n");
    bed.say(&mut client, b"hello\n");
    bed.settle();
    assert_eq!(bed.executor.route_space, 1);
    assert_eq!(bed.hear(&mut client, 4), b"now\n");
    bed.sockets.resume_routes(1);
    assert_eq!(bed.hear(&mut client, 13), b"routed\nhello\n");
}
