//! [`Errand`]: a command under way, with all that it needs between two answers of the system.

use crate::command::{Memo, Step, is_one_operation};
use drover_base::{KeyHash, Ns};
use drover_kv::{Op, OwnedOp};
use drover_memcached::decide::meta_key;
use drover_memcached::forward::{Message, What};
use drover_memcached::request::{Fetch, Request};
use drover_net::PendingReply;

/// A longer message does not stay in the memory of an errand that has ended.
const KEPT_BYTES: usize = 16 << 10;

/// Index of an errand; [`NONE`]: no errand.
pub(crate) type Slot = u32;
pub(crate) const NONE: Slot = Slot::MAX;

/// Where an errand stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// The slot is free.
    Free,
    /// It has not begun.
    New,
    /// It waits for another errand about its key.
    Waiting,
    /// It has lost its condition, and begins anew after some time.
    Resting,
    /// Its operation is in [`Errand::held`] and could not be submitted yet.
    Held(Step),
    /// The system has its operation.
    Asked(Step),
    /// The system flushes.
    Flushing,
}

/// A command under way.
#[derive(Debug)]
pub(crate) struct Errand {
    pub(crate) state: State,
    /// Place of the reply; `None` once it has been given.
    pub(crate) pending: Option<PendingReply>,
    pub(crate) hash: KeyHash,
    /// Key, decoded.
    pub(crate) key: Vec<u8>,
    /// `flush_all`, and the second in which all goes; 0: now.
    flush_at_s: Option<u32>,
    /// Fetch of one key; `None`: the message is a request.
    fetch: Option<Fetch>,
    /// The client's request, with head.
    message: Vec<u8>,
    pub(crate) memo: Memo,
    /// How often it has lost its condition.
    pub(crate) losses: u32,
    /// When it is given up; `None` before its first loss.
    pub(crate) give_up_at: Option<Ns>,
    /// Others about its key wait for its end, once it has begun.
    pub(crate) blocks: bool,
    /// First and last that wait for this one, and the one behind it in the same queue.
    pub(crate) first_waiting: Slot,
    pub(crate) last_waiting: Slot,
    pub(crate) next_waiting: Slot,
    pub(crate) held: OwnedOp,
    /// Reply that is given when its operation has ended, if it is known already.
    reply: Vec<u8>,
}

impl Errand {
    pub(crate) fn new() -> Errand {
        Errand {
            state: State::Free,
            pending: None,
            hash: KeyHash::default(),
            key: Vec::new(),
            flush_at_s: None,
            fetch: None,
            message: Vec::new(),
            memo: Memo::default(),
            losses: 0,
            give_up_at: None,
            blocks: false,
            first_waiting: NONE,
            last_waiting: NONE,
            next_waiting: NONE,
            held: no_op(),
            reply: Vec::new(),
        }
    }

    /// Takes over the message that is the concatenation of `pieces`; returns whether it is well-formed and about a key.
    pub(crate) fn take(&mut self, pending: PendingReply, pieces: &[&[u8]]) -> bool {
        self.message.clear();
        for piece in pieces {
            self.message.extend_from_slice(piece);
        }
        (self.pending, self.memo) = (Some(pending), Memo::default());
        (self.losses, self.give_up_at) = (0, None);
        self.reply.clear();
        let Some(message) = Message::of(&self.message) else {
            return false;
        };
        self.hash = message.hash;
        self.key.clear();
        (self.state, self.fetch, self.flush_at_s) = (State::New, None, None);
        self.blocks = !is_one_operation(&message.what);
        match message.what {
            What::Fetch(fetch, key) => {
                self.fetch = Some(fetch);
                self.key.extend_from_slice(key);
            }
            What::Flush { at_s } => self.flush_at_s = Some(at_s),
            What::TooLarge { key, .. } => self.key.extend_from_slice(key),
            What::Request(Request::Meta(ref meta)) => meta_key(meta, |key| self.key.extend_from_slice(key)),
            What::Request(
                Request::Delete { key, .. } | Request::Arithmetic { key, .. } | Request::Touch { key, .. },
            ) => self.key.extend_from_slice(key),
            What::Request(Request::Store(ref store)) => self.key.extend_from_slice(store.key),
            _ => return false,
        }
        true
    }

    /// The second in which all goes, if this is a `flush_all`; 0: now.
    pub(crate) fn flush_at_s(&self) -> Option<u32> {
        self.flush_at_s
    }

    /// The command.
    pub(crate) fn command(&self) -> What<'_> {
        command(self.fetch, &self.message, &self.key)
    }

    /// The command, its key, and what they need between two answers.
    pub(crate) fn parts(&mut self) -> (What<'_>, &[u8], &mut Memo, &mut OwnedOp) {
        let what = command(self.fetch, &self.message, &self.key);
        (what, &self.key, &mut self.memo, &mut self.held)
    }

    /// Exchanges `bytes` for the reply that waits for the end of the operation under way.
    pub(crate) fn swap_reply(&mut self, bytes: &mut Vec<u8>) {
        std::mem::swap(&mut self.reply, bytes);
    }

    /// Gives up memory that few errands need.
    pub(crate) fn release(&mut self) {
        self.state = State::Free;
        if self.message.capacity() > KEPT_BYTES {
            self.message = Vec::new();
            self.held = no_op();
        }
        if self.reply.capacity() > KEPT_BYTES {
            self.reply = Vec::new();
        }
    }

    /// Takes the first that waits for this one; the others follow it.
    pub(crate) fn take_waiting(&mut self) -> Slot {
        self.last_waiting = NONE;
        std::mem::replace(&mut self.first_waiting, NONE)
    }
}

fn command<'e>(fetch: Option<Fetch>, message: &'e [u8], key: &'e [u8]) -> What<'e> {
    match fetch {
        Some(fetch) => What::Fetch(fetch, key),
        None => {
            let message = Message::of(message).expect("it was well-formed when it was taken over");
            message.what
        }
    }
}

/// An operation that takes no memory.
fn no_op() -> OwnedOp {
    OwnedOp::new(&Op::Get { key: b"" })
}
