//! [`Rings`]: requests between the cores of a server, and their replies.
//!
//! ```text
//!   core 0                                                     core 1
//!   session --send--> Outbound --- requests 0 -> 1 ---> Inbound --serve--> its partition
//!   sockets <--fill-- Inbound  <--- replies 1 -> 0 ---'
//! ```
//! A message is the pending reply that its reply fills (16 bytes) and what is described in [`forward`](crate::forwarding); a reply
//! is the pending reply again and the reply. So nobody remembers anything about requests under way: a connection that is gone
//! when its reply comes has no pending reply for it.
//!
//! Nothing can lock up. Replies that come are always taken; requests are taken unless the reply to an earlier one of the
//! same core still waits for space, of which there is some as soon as that core takes its replies. A core holds at most
//! one such reply per other core.

use crate::{CoreRouter, RouteFull};
use drover_base::KeyHash;
use drover_mem::AllocError;
use drover_net::{Output, PendingReply};
use drover_rt::{RingConsumer, RingProducer, ring};
use drover_store::Hint;
use drover_verbs::Waker;
use std::io::IoSlice;
use std::sync::{Arc, OnceLock};

/// Bytes of a pending reply before a message.
const HOLE_BYTES: usize = 16;
/// Replies that one step takes from one ring: about what a connection may have in its turn.
const REPLIES: usize = 64;
/// Requests whose memory is asked for together, and the bytes from which on there are enough of them.
const BATCH_MAX: usize = 16;
const BATCH_BYTES: usize = 16 << 10;
/// Such batches that one step takes from one ring.
const BATCHES: usize = 4;
/// What is replied for a request that made its core panic.
const PANICKED: &[u8] = b"SERVER_ERROR internal error\r\n";

/// How another core's sleep is ended, once that core has said so.
type Bell = Arc<OnceLock<Waker>>;

/// One core's ends of all its rings.
#[derive(Debug)]
pub struct Rings {
    /// For the core's sessions.
    pub outbound: Outbound,
    /// For the core itself, to step.
    pub inbound: Inbound,
    bell: Bell,
}

impl Rings {
    /// The rings between `core_count` cores, for each core its ends, in order. Each ring has `ring_bytes`, a power of
    /// two of at least 64; there are two per ordered pair of cores. Errors: [`AllocError`].
    pub fn between(core_count: usize, ring_bytes: usize) -> Result<Vec<Rings>, AllocError> {
        let mut all: Vec<Rings> = (0..core_count).map(|own| Rings::none(own, core_count)).collect();
        for from in 0..core_count {
            for to in (0..core_count).filter(|&to| to != from) {
                let (asks, asked) = ring(ring_bytes, ringer(&all[to].bell))?;
                let (answers, answered) = ring(ring_bytes, ringer(&all[from].bell))?;
                all[from].outbound.requests[to] = Some(asks);
                all[from].inbound.replies.push(answered);
                all[to].inbound.peers.push(RingPair {
                    requests: asked,
                    replies: answers,
                    held: None,
                    batch: Vec::new(),
                    taken: 0,
                    served: 0,
                });
            }
        }
        Ok(all)
    }

    fn none(own: usize, core_count: usize) -> Rings {
        Rings {
            outbound: Outbound {
                own,
                requests: (0..core_count).map(|_| None).collect(),
                refused: false,
            },
            inbound: Inbound {
                peers: Vec::new(),
                replies: Vec::new(),
                scratch: Vec::new(),
                serving: None,
            },
            bell: Bell::default(),
        }
    }

    /// From now on `waker` is called when something arrives: it ends this core's sleep. Only the first call counts.
    pub fn set_waker(&self, waker: Waker) {
        let _ = self.bell.set(waker);
    }
}

fn ringer(bell: &Bell) -> Waker {
    let bell = bell.clone();
    Waker::new(move || {
        if let Some(waker) = bell.get() {
            waker.wake();
        }
    })
}

/// Requests on their way out: the [`CoreRouter`] of a core.
#[derive(Debug)]
pub struct Outbound {
    own: usize,
    /// By core; none to this one.
    requests: Vec<Option<RingProducer>>,
    /// A request found no space since [`has_space_again`](Outbound::has_space_again) was last true.
    refused: bool,
}

impl Outbound {
    /// Shows the other cores what was sent. To be called after each batch of work, or nothing arrives.
    pub fn publish(&mut self) {
        self.requests.iter_mut().flatten().for_each(RingProducer::publish);
    }

    /// Whether a request that was refused is worth another try. True once; then those who wait for others go on.
    pub fn has_space_again(&mut self) -> bool {
        let again = self.refused && self.requests.iter().flatten().any(RingProducer::has_new_space);
        self.refused &= !again;
        again
    }
}

impl CoreRouter for Outbound {
    fn core_count(&self) -> usize {
        self.requests.len()
    }

    fn own(&self) -> usize {
        self.own
    }

    #[inline]
    fn core_of(&self, hash: KeyHash) -> usize {
        hash.partition_index(self.requests.len())
    }

    fn send(&mut self, core: usize, pending_reply: PendingReply, pieces: &[&[u8]]) -> Result<(), RouteFull> {
        let Some(ring) = self.requests.get_mut(core).and_then(Option::as_mut) else {
            debug_assert!(false, "core {core} is this one or none");
            return Err(RouteFull);
        };
        let pending_reply = hole_bytes(pending_reply);
        // The pieces behind the pending reply, without a list made for each message: requests come in one to three.
        let sent = match *pieces {
            [a] => ring.push(&[&pending_reply, a]),
            [a, b] => ring.push(&[&pending_reply, a, b]),
            [a, b, c] => ring.push(&[&pending_reply, a, b, c]),
            _ => ring.push(&[&pending_reply, &pieces.concat()]),
        };
        sent.map_err(|_| {
            // What is there must be seen for space to come.
            ring.publish();
            self.refused = true;
            RouteFull
        })
    }
}

/// What a core does with what arrives.
pub trait Receiver {
    /// This request will be served soon: asks for its key's bucket.
    fn prefetch(&mut self, message: &[u8]) {
        let _ = message;
    }

    /// A while later: looks at the bucket and asks for the item.
    fn hint(&mut self, message: &[u8]) -> Hint {
        let _ = message;
        Hint::NONE
    }

    /// Answers another core's request: its reply is added to `reply`.
    fn serve(&mut self, message: &[u8], hint: Hint, reply: &mut Output);

    /// A reply to one of this core's own requests. The connection may be gone.
    fn fill(&mut self, pending_reply: PendingReply, reply: &[u8]);
}

/// Requests and replies that arrive at a core.
#[derive(Debug)]
pub struct Inbound {
    peers: Vec<RingPair>,
    replies: Vec<RingConsumer>,
    /// The message at hand.
    scratch: Vec<u8>,
    /// Whose request is being served, and the pending reply for its reply: still there after a panic.
    serving: Option<(usize, PendingReply)>,
}

/// Another core's requests, and the way back.
#[derive(Debug)]
struct RingPair {
    requests: RingConsumer,
    replies: RingProducer,
    /// A reply that found no space.
    held: Option<Vec<u8>>,
    /// Requests taken together, so that no memory access waits, as those of a connection are. Their memory stays.
    batch: Vec<(Vec<u8>, Hint)>,
    /// Of them are requests, and of those were served.
    taken: usize,
    served: usize,
}

impl Inbound {
    /// Takes what has arrived, at most a batch per core. Says whether there was anything. `reply` is empty before and after: one of this core's own, kept from step to step
    /// for its memory. Cost without messages: a load per ring of a line that nobody writes.
    pub fn step(&mut self, receiver: &mut impl Receiver, reply: &mut Output) -> bool {
        let mut busy = false;
        for ring in &mut self.replies {
            for _ in 0..REPLIES {
                if !ring.pop(&mut self.scratch) {
                    break;
                }
                busy = true;
                let (pending_reply, bytes) = split(&self.scratch);
                receiver.fill(pending_reply, bytes);
            }
            ring.release();
        }
        for index in 0..self.peers.len() {
            busy |= self.serve_peer(index, receiver, reply);
        }
        busy
    }

    fn serve_peer(&mut self, index: usize, receiver: &mut impl Receiver, reply: &mut Output) -> bool {
        let mut busy = self.peers[index].send_held();
        for _ in 0..BATCHES {
            let peer = &mut self.peers[index];
            if peer.held.is_some() || !peer.gather(receiver) {
                break;
            }
            busy = true;
            while let Some(nth) = self.peers[index].next_request() {
                let peer = &mut self.peers[index];
                let (message, hint) = &peer.batch[nth];
                let (pending_reply, message) = split(message);
                self.serving = Some((index, pending_reply));
                receiver.serve(message, *hint, reply);
                self.serving = None;
                peer.answer(pending_reply, reply);
            }
        }
        let peer = &mut self.peers[index];
        peer.requests.release();
        peer.replies.publish();
        busy
    }

    /// Whether a reply waits for a core that does not take what it was sent: nothing tells when it does, so whoever
    /// sleeps looks again soon.
    pub fn owes(&self) -> bool {
        self.peers.iter().any(|peer| peer.held.is_some())
    }

    /// After a panic in [`step`](Inbound::step): the request that caused it is answered by an error, for its client
    /// waits; the others go on. What was in the reply at hand is worth nothing.
    pub fn recover(&mut self) {
        if let Some((index, pending_reply)) = self.serving.take() {
            let peer = &mut self.peers[index];
            peer.held = Some([&hole_bytes(pending_reply), PANICKED].concat());
            peer.send_held();
            peer.replies.publish();
        }
    }
}

impl RingPair {
    /// Makes sure that there is something to serve; false if nothing came. In three passes, of which the third is to
    /// serve it: ask for buckets, ask for items.
    fn gather(&mut self, receiver: &mut impl Receiver) -> bool {
        if self.served < self.taken {
            return true;
        }
        (self.taken, self.served) = (0, 0);
        let mut bytes = 0;
        while self.taken < BATCH_MAX && bytes < BATCH_BYTES {
            if self.batch.len() == self.taken {
                self.batch.push((Vec::new(), Hint::NONE));
            }
            let (message, hint) = &mut self.batch[self.taken];
            if message.capacity() > BATCH_BYTES {
                // What one long value took is not kept for ever.
                *message = Vec::new();
            }
            if !self.requests.pop(message) {
                break;
            }
            *hint = Hint::NONE;
            receiver.prefetch(split(message).1);
            bytes += message.len();
            self.taken += 1;
        }
        if self.taken > 1 {
            for (message, hint) in &mut self.batch[..self.taken] {
                *hint = receiver.hint(split(message).1);
            }
        }
        self.taken > 0
    }

    /// The next of the batch, unless the reply to the one before still waits for space.
    fn next_request(&mut self) -> Option<usize> {
        let nth = self.served;
        let goes_on = nth < self.taken && self.held.is_none();
        self.served += usize::from(goes_on);
        goes_on.then_some(nth)
    }

    /// Sends what is in `reply`, which is empty afterwards.
    fn answer(&mut self, pending_reply: PendingReply, reply: &mut Output) {
        let pending_reply = hole_bytes(pending_reply);
        if let Some(bytes) = reply.only_piece() {
            if self.replies.push(&[&pending_reply, bytes]).is_err() {
                self.held = Some([&pending_reply, bytes].concat());
            }
            let len = bytes.len();
            reply.wrote(len);
            return;
        }
        let mut message = pending_reply.to_vec();
        while reply.ready_bytes() > 0 {
            let mut slices = [IoSlice::new(&[]); 16];
            let count = reply.slices(&mut slices);
            let before = message.len();
            slices[..count]
                .iter()
                .for_each(|slice| message.extend_from_slice(slice));
            let len = message.len() - before;
            reply.wrote(len);
        }
        self.held = Some(message);
        self.send_held();
    }

    /// Whether there was one and it found space.
    fn send_held(&mut self) -> bool {
        let Some(message) = self.held.take() else {
            return false;
        };
        let sent = self.replies.push(&[&message]).is_ok();
        if !sent {
            self.held = Some(message);
        }
        sent
    }
}

fn hole_bytes(pending_reply: PendingReply) -> [u8; HOLE_BYTES] {
    let mut bytes = [0; HOLE_BYTES];
    bytes[..8].copy_from_slice(&pending_reply.connection.to_le_bytes());
    bytes[8..].copy_from_slice(&pending_reply.number.to_le_bytes());
    bytes
}

/// A message's pending reply and the rest.
fn split(message: &[u8]) -> (PendingReply, &[u8]) {
    let word = |at: usize| message[at..at + 8].try_into().map(u64::from_le_bytes);
    let pending_reply = PendingReply {
        connection: word(0).expect("eight bytes"),
        number: word(8).expect("eight bytes"),
    };
    (pending_reply, &message[HOLE_BYTES..])
}
