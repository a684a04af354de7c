//! [`Rings`]: requests between the cores of a server, and their replies.
//!
//! ```text
//!   core 0                                                     core 1
//!   session --send--> Outbound --- requests 0 -> 1 ---> Inbound --serve--> its partition
//!   sockets <--fill-- Inbound  <--- replies 1 -> 0 ---'
//! ```
//! A message is its pending reply (16 bytes) and a body as in [`forward`](crate::forward); a reply is the same pending
//! reply and the reply's bytes. So no core keeps state about requests under way: a reply to a closed connection finds
//! no pending reply and is dropped.
//!
//! The rings cannot deadlock. A core always takes replies; it takes requests unless its reply to an earlier request of
//! the same core still waits for space, and space appears as soon as that core takes its replies. A core holds at most
//! one such reply per other core.

use crate::staged::StagedReplies;
use crate::{CoreRouter, RouteFull, gather};
use drover_base::KeyHash;
use drover_mem::AllocError;
use drover_net::{Output, PendingReply};
use drover_rt::{RingConsumer, RingProducer, ring};
use drover_store::Hint;
use drover_verbs::Waker;
use std::io::IoSlice;
use std::sync::{Arc, OnceLock};

/// Bytes of the pending reply before a message.
const HOLE_BYTES: usize = 16;
/// Replies that one step takes from one ring: about the requests of one connection's turn.
const REPLIES: usize = 64;
/// Maximum number of requests that are prefetched together; a batch also ends at [`BATCH_BYTES`].
const BATCH_MAX: usize = 16;
const BATCH_BYTES: usize = 16 << 10;
/// Request batches that one step takes from one ring.
const BATCHES: usize = 4;
/// Reply to a request whose execution panicked.
const PANICKED: &[u8] = b"SERVER_ERROR internal error\r\n";

/// Waker of another core, set once that core has provided it.
type Bell = Arc<OnceLock<Waker>>;

/// One core's ends of the rings between all cores of a server.
#[derive(Debug)]
pub struct Rings {
    /// Sends requests of the core's sessions to other cores.
    pub outbound: Outbound,
    /// Receives requests of other cores and replies to this core's own; the core steps it.
    pub inbound: Inbound,
    bell: Bell,
}

impl Rings {
    /// Creates the rings between `core_count` cores and returns each core's ends, by core index. Each ring has
    /// `ring_bytes`; there are two rings per ordered pair of cores, for requests and for replies.
    ///
    /// # Errors
    /// [`AllocError`] if the memory cannot be allocated.
    ///
    /// # Panics
    /// If `ring_bytes` is not a power of two of at least 64.
    pub fn between(core_count: usize, ring_bytes: usize) -> Result<Vec<Rings>, AllocError> {
        let mut all: Vec<Rings> = (0..core_count).map(|own| Rings::none(own, core_count)).collect();
        for from in 0..core_count {
            for to in (0..core_count).filter(|&to| to != from) {
                let (asks, asked) = ring(ring_bytes, ringer(&all[to].bell))?;
                let (answers, answered) = ring(ring_bytes, ringer(&all[from].bell))?;
                all[from].outbound.requests[to] = Some(asks);
                all[from].inbound.replies.push(answered);
                all[to].inbound.peers.push(RingPair {
                    core: from,
                    requests: asked,
                    replies: answers,
                    waiting: Waiting::Nothing,
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

    /// Sets the waker that ends this core's sleep when a request or reply arrives; until then nothing wakes it. Only
    /// the first call counts.
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

/// Outgoing requests of a core to all others; its [`CoreRouter`].
#[derive(Debug)]
pub struct Outbound {
    own: usize,
    /// Producers by core; `None` for this core.
    requests: Vec<Option<RingProducer>>,
    /// A request found its ring full since [`has_space_again`](Outbound::has_space_again) was last true.
    refused: bool,
}

impl Outbound {
    /// Makes sent messages visible to the other cores. To be called after each batch of work: until then they may not
    /// arrive.
    pub fn publish(&mut self) {
        self.requests.iter_mut().flatten().for_each(RingProducer::publish);
    }

    /// Whether requests that found a ring full should be retried: true, once, when a ring has new space. The caller
    /// then gives a turn to the sessions that wait for other cores.
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

    fn has_space(&mut self, core: usize, bytes: usize) -> bool {
        let ring = self.requests.get_mut(core).and_then(Option::as_mut);
        ring.is_some_and(|ring| ring.has_space(HOLE_BYTES + bytes))
    }

    fn send(&mut self, core: usize, pending_reply: PendingReply, pieces: &[&[u8]]) -> Result<(), RouteFull> {
        let Some(ring) = self.requests.get_mut(core).and_then(Option::as_mut) else {
            debug_assert!(false, "core {core} is this one or none");
            return Err(RouteFull);
        };
        let pending_reply = hole_bytes(pending_reply);
        // Requests have one to three pieces after the pending reply: this avoids a list per message.
        let sent = match *pieces {
            [a] => ring.push(&[&pending_reply, a]),
            [a, b] => ring.push(&[&pending_reply, a, b]),
            [a, b, c] => ring.push(&[&pending_reply, a, b, c]),
            _ => ring.push(&[&pending_reply, &pieces.concat()]),
        };
        sent.map_err(|_| {
            // The other core must see the messages before it can free space.
            ring.publish();
            self.refused = true;
            RouteFull
        })
    }
}

/// What a core does with messages that arrive through its rings.
pub trait Receiver {
    /// Prefetches the bucket of a request that will be served soon.
    fn prefetch(&mut self, message: &[u8]) {
        let _ = message;
    }

    /// Called after `prefetch` for each request of a batch of two or more: looks at the bucket and prefetches the item.
    /// Its result is passed to `serve`; a request that comes alone is served with [`Hint::NONE`].
    fn hint(&mut self, message: &[u8]) -> Hint {
        let _ = message;
        Hint::NONE
    }

    /// Called before a batch of requests from the core `from` is served, after they have arrived.
    fn arrived(&mut self, from: usize) {
        let _ = from;
    }

    /// Answers another core's request: appends the reply, which may be empty, to `reply`.
    fn serve(&mut self, message: &[u8], hint: Hint, reply: &mut Output);

    /// Called once when a step has served requests, before any reply leaves: the time to publish what they have counted.
    fn served(&mut self) {}

    /// Takes the reply to a message, which may be about several requests: by default, [fills](Receiver::fill) their pending
    /// replies.
    #[inline]
    fn reply(&mut self, pending_reply: PendingReply, reply: &[u8]) {
        gather::each_reply(pending_reply, reply, |pending, bytes| self.fill(pending, bytes));
    }

    /// Handles the reply to a request of this core. The connection that sent it may be gone.
    fn fill(&mut self, pending_reply: PendingReply, reply: &[u8]);
}

/// Incoming messages of a core: requests of other cores, and replies to its own requests.
#[derive(Debug)]
pub struct Inbound {
    peers: Vec<RingPair>,
    replies: Vec<RingConsumer>,
    /// Bytes of the current message.
    scratch: Vec<u8>,
    /// Core and pending reply of the request being served, kept for recovery after a panic.
    serving: Option<(usize, PendingReply)>,
}

/// Replies that have not left.
#[derive(Debug)]
enum Waiting {
    Nothing,
    /// One that found the ring full.
    Held(Vec<u8>),
    /// In a member with replicas: all of them, until they may leave.
    Staged(StagedReplies),
}

/// Incoming requests of another core, and the ring for replies to it.
#[derive(Debug)]
struct RingPair {
    core: usize,
    requests: RingConsumer,
    replies: RingProducer,
    waiting: Waiting,
    /// Requests taken together for prefetching, as in a session's batch. The buffers are kept.
    batch: Vec<(Vec<u8>, Hint)>,
    /// Number of requests in the batch, and of those already served.
    taken: usize,
    served: usize,
}

impl Inbound {
    /// Handles a bounded number of the replies and requests that have arrived. Returns whether it did anything. `reply`
    /// is empty before and after; the caller keeps it to reuse its memory. Cost without messages: per ring, a load of a
    /// cache line that no core is writing.
    pub fn step(&mut self, receiver: &mut impl Receiver, reply: &mut Output) -> bool {
        let mut busy = false;
        for ring in &mut self.replies {
            for _ in 0..REPLIES {
                if !ring.pop(&mut self.scratch) {
                    break;
                }
                busy = true;
                let (pending_reply, bytes) = split(&self.scratch);
                receiver.reply(pending_reply, bytes);
            }
            ring.release();
        }
        let mut served = false;
        for index in 0..self.peers.len() {
            served |= self.serve_peer(index, receiver, reply);
        }
        if served {
            receiver.served();
        }
        for peer in &mut self.peers {
            peer.replies.publish();
        }
        busy | served
    }

    fn serve_peer(&mut self, index: usize, receiver: &mut impl Receiver, reply: &mut Output) -> bool {
        let mut busy = self.peers[index].send_waiting();
        for _ in 0..BATCHES {
            let peer = &mut self.peers[index];
            if peer.is_full() || !peer.gather(receiver) {
                break;
            }
            busy = true;
            receiver.arrived(peer.core);
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
        self.peers[index].requests.release();
        busy
    }

    /// Whether a reply to another core waits for space in its ring. No wake-up comes when that core makes space, so the
    /// caller must not sleep long.
    pub fn owes(&self) -> bool {
        self.peers.iter().any(RingPair::owes)
    }

    /// From now on replies leave only when they are [released](Inbound::release).
    pub fn stage_replies(&mut self) {
        for peer in &mut self.peers {
            peer.waiting = Waiting::Staged(StagedReplies::default());
        }
    }

    /// Lets the replies leave that have been staged.
    pub fn release(&mut self) {
        for peer in &mut self.peers {
            peer.send_waiting();
            peer.replies.publish();
        }
    }

    /// The replies that have been staged must never leave. Those that asked are told so.
    pub fn make_void(&mut self) {
        for peer in &mut self.peers {
            if let Waiting::Staged(staged) = &mut peer.waiting {
                staged.make_void();
            }
        }
    }

    /// Sends `SERVER_ERROR internal error` as the reply to the request during which [`step`](Inbound::step) panicked,
    /// instead of its partial reply; the next step goes on with the other requests. For a caller that has caught the
    /// panic; it must replace the `reply` output that it passed to the step.
    pub fn recover(&mut self) {
        if let Some((index, pending_reply)) = self.serving.take() {
            let peer = &mut self.peers[index];
            let message = peer.batch.get(peer.served.wrapping_sub(1));
            let message = message.map_or(&[][..], |(message, _)| split(message).1);
            let reply = gather::failed(message, PANICKED);
            match &mut peer.waiting {
                Waiting::Staged(staged) => staged.push(&hole_bytes(pending_reply), &reply),
                _ => {
                    peer.waiting = Waiting::Held([&hole_bytes(pending_reply)[..], &reply].concat());
                    peer.send_waiting();
                    peer.replies.publish();
                }
            }
        }
    }
}

impl RingPair {
    /// Ensures that there is a request to serve; returns false if none came. Batches have three passes: prefetch
    /// buckets, prefetch items, and (in the caller) serve.
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
                // Frees the memory of a long value.
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

    /// The next request of the batch, unless the reply to an earlier one still waits for space.
    fn next_request(&mut self) -> Option<usize> {
        let nth = self.served;
        let goes_on = nth < self.taken && !self.is_full();
        self.served += usize::from(goes_on);
        goes_on.then_some(nth)
    }

    /// Sends `reply` and empties it.
    fn answer(&mut self, pending_reply: PendingReply, reply: &mut Output) {
        let pending_reply = hole_bytes(pending_reply);
        if let Waiting::Staged(staged) = &mut self.waiting {
            return staged.push_output(&pending_reply, reply);
        }
        if let Some(bytes) = reply.only_piece() {
            if self.replies.push(&[&pending_reply, bytes]).is_err() {
                self.waiting = Waiting::Held([&pending_reply, bytes].concat());
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
        self.waiting = Waiting::Held(message);
        self.send_waiting();
    }

    /// Whether replies wait.
    fn owes(&self) -> bool {
        match &self.waiting {
            Waiting::Nothing => false,
            Waiting::Held(_) => true,
            Waiting::Staged(staged) => !staged.is_empty(),
        }
    }

    /// Whether so many wait that no further request is served.
    fn is_full(&self) -> bool {
        match &self.waiting {
            Waiting::Nothing => false,
            Waiting::Held(_) => true,
            Waiting::Staged(staged) => staged.is_full(),
        }
    }

    /// Sends replies that wait. Returns whether there were any, and space for them.
    #[inline]
    fn send_waiting(&mut self) -> bool {
        match self.waiting {
            Waiting::Nothing => false,
            _ => self.send_those(),
        }
    }

    #[cold]
    fn send_those(&mut self) -> bool {
        match &mut self.waiting {
            Waiting::Nothing => false,
            Waiting::Held(message) => {
                let sent = self.replies.push(&[message]).is_ok();
                if sent {
                    self.waiting = Waiting::Nothing;
                }
                sent
            }
            Waiting::Staged(staged) => staged.send(&mut self.replies),
        }
    }
}

fn hole_bytes(pending_reply: PendingReply) -> [u8; HOLE_BYTES] {
    let mut bytes = [0; HOLE_BYTES];
    bytes[..8].copy_from_slice(&pending_reply.connection.to_le_bytes());
    bytes[8..].copy_from_slice(&pending_reply.number.to_le_bytes());
    bytes
}

/// Splits a message into its pending reply and its body.
fn split(message: &[u8]) -> (PendingReply, &[u8]) {
    let word = |at: usize| message[at..at + 8].try_into().map(u64::from_le_bytes);
    let pending_reply = PendingReply {
        connection: word(0).expect("eight bytes"),
        number: word(8).expect("eight bytes"),
    };
    (pending_reply, &message[HOLE_BYTES..])
}
