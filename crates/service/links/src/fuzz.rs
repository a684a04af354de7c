//! [`fuzz_link`]: what peers do with garbled bytes, before the handshake and after it.

use crate::handler::{LinkHandler, LinkReply, Source};
use crate::handshake::{HELLO_BYTES, MemberIdentity, PROOF_BYTES, SECRET_BYTES, Verifier};
use crate::inbox::Arrival;
use crate::incoming::Incoming;
use crate::options::LinksOptions;
use crate::outgoing::{LinkFailure, Outgoing};
use drover_base::Ns;
use drover_net::{Event, Output, PendingReply};
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Most bytes that are looked at: as many as a socket holds.
const INPUT_BYTES_MAX: usize = 32 << 10;
/// Small, so that short frames are long ones.
const BUFFER_BYTES: usize = 256;
const BODY_BYTES_MAX: usize = 1000;
const QUEUE_BYTES: usize = 2000;
const ENDED: Event = Event {
    token: 0,
    readable: true,
    writable: false,
    hung_up: true,
};

/// Checks that any bytes instead of a hello and a proof let nobody in, and that any bytes on a link that is open end it,
/// with each message ending once and bounded memory. Input: what the bytes are (1 byte: a handshake, messages, or replies),
/// and the bytes.
///
/// # Panics
/// If one of that does not hold.
pub fn fuzz_link(input: &[u8]) {
    let Some((kind, bytes)) = input.split_first() else {
        return;
    };
    let bytes = &bytes[..bytes.len().min(INPUT_BYTES_MAX)];
    match kind % 3 {
        0 => stranger(bytes),
        1 => {
            garbled_messages(bytes);
        }
        _ => {
            garbled_replies(u64::from(*kind), bytes);
        }
    }
}

/// Bytes of a peer that does not know the secret.
fn stranger(bytes: &[u8]) {
    let identity = MemberIdentity {
        service: "service".into(),
        member: "member".into(),
        secret: [0; SECRET_BYTES],
    };
    let mut hello = [0; HELLO_BYTES];
    let len = bytes.len().min(HELLO_BYTES);
    hello[..len].copy_from_slice(&bytes[..len]);
    if let Ok(verifier) = Verifier::new(&identity, &hello) {
        let proof = bytes[len..].chunks(PROOF_BYTES).next().unwrap_or_default();
        assert!(verifier.verify(proof).is_err());
    }
}

/// What has become of messages.
#[derive(Default)]
pub(crate) struct Ends {
    pub(crate) served: usize,
    pub(crate) replies: Vec<u64>,
    pub(crate) lost: Vec<u64>,
    pub(crate) unsent: Vec<u64>,
}

impl LinkHandler for Ends {
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
        message_bytes_max: BODY_BYTES_MAX,
        reply_bytes_max: BODY_BYTES_MAX,
        queue_bytes: QUEUE_BYTES,
        ..LinksOptions::default()
    }
}

/// Gives `bytes`, and then the end of input, to the serving end of a link. Returns how it ends, and how many messages were
/// served.
pub(crate) fn garbled_messages(bytes: &[u8]) -> (LinkFailure, usize) {
    let (own, mut peer) = UnixStream::pair().expect("descriptors");
    peer.write_all(bytes).expect("the socket has space");
    peer.shutdown(Shutdown::Write).expect("it is open");
    let arrival = Arrival {
        socket: own.into(),
        member: "peer".into(),
        _place: Arc::default(),
    };
    let (mut link, mut ends) = (Incoming::new(Source(1), arrival), Ends::default());
    let (mut buffer, mut reply) = ([0; BUFFER_BYTES], Output::new(0, usize::MAX));
    link.notice(&ENDED);
    loop {
        let turn = link.turn(&mut ends, &mut buffer, &mut reply, &options());
        let beyond = BODY_BYTES_MAX * 16 + BUFFER_BYTES;
        assert!(link.queue.len() <= QUEUE_BYTES + beyond, "the queue is bounded");
        let _ = link.write(Ns::ZERO);
        // Nobody reads the replies: the bytes written are bounded by those read.
        if let Err(failure) = turn {
            return (failure, ends.served);
        }
    }
}

/// Gives `bytes`, and then the end of input, to the asking end of a link with `count` messages under way, the last of which is
/// not written. Returns how the link ends, and the messages.
pub(crate) fn garbled_replies(count: u64, bytes: &[u8]) -> (LinkFailure, Ends) {
    let (own, mut peer) = UnixStream::pair().expect("descriptors");
    let mut link = Outgoing::new(0, 0);
    link.opened(own.into(), Ns::ZERO);
    for number in 0..count {
        if number + 1 == count {
            link.write().expect("the socket has space");
        }
        let connection = 0;
        link.push(PendingReply { connection, number }, &[b"message"]);
    }
    peer.write_all(bytes).expect("the socket has space");
    drop(peer);
    let (mut ends, mut buffer) = (Ends::default(), [0; BUFFER_BYTES]);
    link.notice(&ENDED);
    let failure = loop {
        if let Err(failure) = link.read(&mut ends, &mut buffer, &options(), Ns::ZERO) {
            break failure;
        }
    };
    link.close(0, &mut ends, Ns::ZERO);
    let all = [&ends.replies[..], &ends.lost, &ends.unsent].concat();
    assert!(all.into_iter().eq(0..count), "in the order of the messages");
    (failure, ends)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{self, KEEP_ALIVE};
    use drover_base::Rng;
    use drover_testkit::seeds::Seeds;

    /// Frames, some of them with a wrong length, and random bytes.
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

    #[test]
    fn garbled_bytes_end_their_link() {
        let seeds = Seeds::new(20, 200);
        println!("{seeds}");
        seeds.each(|seed| {
            let mut rng = Rng::new(seed, 0, 0);
            let (failure, _) = garbled_messages(&garbled(&mut rng));
            let is_expected = matches!(failure, LinkFailure::System(_) | LinkFailure::TooLong(_));
            assert!(is_expected, "{failure}");
            let count = 1 + rng.below(300);
            garbled_replies(count, &garbled(&mut rng));
            stranger(&garbled(&mut rng));
        });
    }

    #[test]
    fn whole_messages_before_the_end_are_served() {
        let messages = [&frame::prefix(3)[..], b"abc"].concat().repeat(500);
        let (failure, served) = garbled_messages(&messages);
        assert!(matches!(failure, LinkFailure::System(_)), "{failure}");
        assert_eq!(served, 500);
    }

    #[test]
    fn a_reply_without_a_message_ends_the_link() {
        let replies = [&frame::prefix(5)[..], b"reply"].concat().repeat(3);
        let (failure, ends) = garbled_replies(3, &replies);
        // The third message is not written, so this cannot be its reply.
        assert!(matches!(failure, LinkFailure::Unasked), "{failure}");
        assert_eq!(
            (ends.replies, ends.lost, ends.unsent),
            (vec![0, 1], vec![], vec![2])
        );
    }
}
