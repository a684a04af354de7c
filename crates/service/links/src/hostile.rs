//! What a peer that passed the handshake can do with garbled bytes: it loses its link, and nothing else happens.

use crate::frame::{self, KEEP_ALIVE};
use crate::handler::{LinkHandler, LinkReply, Source};
use crate::inbox::Arrival;
use crate::incoming::Incoming;
use crate::options::LinksOptions;
use crate::outgoing::{LinkFailure, Outgoing};
use drover_base::{Ns, Rng};
use drover_net::{Event, Output, PendingReply};
use drover_testkit::seeds::Seeds;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

const BUFFER_BYTES: usize = 256;
const SOURCE: Source = Source(1);
const READABLE: Event = Event {
    token: 0,
    readable: true,
    writable: false,
    hung_up: true,
};

#[derive(Default)]
struct Counts {
    served: usize,
    replies: Vec<u64>,
    lost: Vec<u64>,
    unsent: Vec<u64>,
}

impl LinkHandler for Counts {
    type Hint = ();
    const NO_HINT: () = ();

    fn serve(&mut self, _: Source, message: &[u8], (): (), reply: &mut Output) {
        self.served += 1;
        reply.push(message);
    }

    fn fill(&mut self, pending_reply: PendingReply, reply: LinkReply<'_>) {
        match reply {
            LinkReply::Bytes(_) => self.replies.push(pending_reply.number),
            LinkReply::Lost { .. } => self.lost.push(pending_reply.number),
        }
    }

    fn unsent(&mut self, _: usize, pending_reply: PendingReply, _: &[u8]) {
        self.unsent.push(pending_reply.number);
    }
}

fn options() -> LinksOptions {
    LinksOptions {
        message_bytes_max: 1000,
        reply_bytes_max: 1000,
        queue_bytes: 2000,
        ..LinksOptions::default()
    }
}

/// Frames, some of them with a wrong length, and random bytes. Short enough for a socket's buffer.
fn garbled(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < 3_000 {
        let len_max = [40, 40, 40, 900][rng.below(4) as usize];
        let body = vec![b'b'; rng.below(len_max) as usize];
        match rng.below(40) {
            0 => bytes.extend((0..1 + rng.below(40)).map(|_| rng.next_u64() as u8)),
            1 => bytes.extend(frame::prefix(rng.below(3_000) as usize)),
            2..6 => bytes.extend(KEEP_ALIVE),
            _ => bytes.extend([&frame::prefix(body.len())[..], &body].concat()),
        }
    }
    bytes
}

/// A link with `count` messages under way of which the last is not written, and the peer's end.
fn outgoing(count: u64) -> (Outgoing, UnixStream) {
    let (own, mut peer) = UnixStream::pair().expect("descriptors");
    peer.set_nonblocking(true).expect("it can");
    let mut link = Outgoing::new(0, 0);
    link.opened(own.into(), Ns::ZERO);
    let pending_reply = |number| PendingReply {
        connection: 0,
        number,
    };
    (0..count - 1).for_each(|number| link.push(pending_reply(number), &[b"message"]));
    link.write().expect("it is open");
    link.push(pending_reply(count - 1), &[b"message"]);
    let _ = peer.flush();
    (link, peer)
}

/// Reads until the link fails.
fn read_all(link: &mut Outgoing, counts: &mut Counts) -> LinkFailure {
    let mut buffer = [0; BUFFER_BYTES];
    link.notice(&READABLE);
    loop {
        if let Err(failure) = link.read(counts, &mut buffer, &options(), Ns::ZERO) {
            return failure;
        }
    }
}

#[test]
fn garbled_replies_end_the_link_and_each_message_ends_once() {
    let seeds = Seeds::new(20, 200);
    println!("{seeds}");
    seeds.each(|seed| {
        let mut rng = Rng::new(seed, 0, 0);
        let count = 1 + rng.below(300);
        let (mut link, mut peer) = outgoing(count);
        peer.write_all(&garbled(&mut rng)).expect("it has space");
        drop(peer);
        let mut counts = Counts::default();
        read_all(&mut link, &mut counts);
        link.close(0, &mut counts, Ns::ZERO);
        let ends = [counts.replies, counts.lost, counts.unsent].concat();
        assert!(ends.into_iter().eq(0..count), "in the order of the messages");
    });
}

#[test]
fn a_reply_without_a_message_ends_the_link() {
    let (mut link, mut peer) = outgoing(3);
    // The third message is not written, so this cannot be its reply.
    let reply = [&frame::prefix(5)[..], b"reply"].concat();
    peer.write_all(&reply.repeat(3)).expect("it has space");
    let mut counts = Counts::default();
    let failure = read_all(&mut link, &mut counts);
    assert!(matches!(failure, LinkFailure::Unasked), "{failure}");
    assert_eq!(counts.replies, [0, 1]);
    link.close(0, &mut counts, Ns::ZERO);
    assert_eq!((counts.lost, counts.unsent), (vec![], vec![2]));
}

#[test]
fn garbled_messages_end_the_link() {
    let seeds = Seeds::new(20, 200);
    println!("{seeds}");
    seeds.each(|seed| {
        let mut rng = Rng::new(seed, 0, 0);
        let (own, mut peer) = UnixStream::pair().expect("descriptors");
        let arrival = Arrival {
            socket: own.into(),
            member: "peer".into(),
            _place: Arc::default(),
        };
        let mut link = Incoming::new(SOURCE, arrival);
        peer.write_all(&garbled(&mut rng)).expect("it has space");
        peer.shutdown(std::net::Shutdown::Write).expect("it is open");
        let (mut counts, mut buffer) = (Counts::default(), [0; BUFFER_BYTES]);
        let mut reply = Output::new(0, usize::MAX);
        link.notice(&READABLE);
        let failed = loop {
            let served = link.turn(&mut counts, &mut buffer, &mut reply, &options());
            assert!(
                link.queue.len() <= 2000 + 1000 + 16 + BUFFER_BYTES,
                "the queue is bounded"
            );
            let _ = link.write(Ns::ZERO);
            if let Err(failure) = served {
                break failure;
            }
        };
        assert!(
            matches!(failed, LinkFailure::System(_) | LinkFailure::TooLong(_)),
            "{failed}"
        );
    });
}
