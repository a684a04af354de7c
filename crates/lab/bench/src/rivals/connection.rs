//! [`Connection`]: one connection to a rival with one batch of operations, which is being filled or answered.

use super::wire::{Reply, Unexpected};
use super::{Kind, Stream};
use drover_kv::{Op, Outcome, Token};
use std::io;
use std::os::fd::BorrowedFd;

/// A request of a batch that waits for its reply.
#[derive(Clone, Copy, Debug)]
enum Awaited {
    Put(Token),
    Delete(Token),
    /// The GETs `first..first + count` of the batch, in one request.
    Gets {
        first: usize,
        count: usize,
    },
}

/// A GET of the batch: its token, and the position of its key.
#[derive(Clone, Copy, Debug)]
struct Get {
    token: Token,
    key_at: usize,
    key_len: usize,
}

/// One connection. Its buffers grow to the size of a batch and are kept.
pub(super) struct Connection {
    kind: Kind,
    stream: Stream,
    /// Maximum number of GETs per request.
    group: usize,
    out: Vec<u8>,
    sent: usize,
    /// Keys of the request being built.
    open_keys: Vec<u8>,
    open_count: usize,
    gets: Vec<Get>,
    keys: Vec<u8>,
    awaited: Vec<Awaited>,
    answered: usize,
    /// Number of answered GETs in the request being answered.
    answered_gets: usize,
    staged: usize,
    received: Vec<u8>,
    received_len: usize,
    taken: usize,
}

/// Initial size of the receive buffer; doubled when a reply does not fit.
const RECEIVE_BYTES: usize = 16 << 10;

impl Connection {
    pub(super) fn new(kind: Kind, stream: Stream, group: usize) -> Connection {
        Connection {
            kind,
            stream,
            group: group.max(1),
            out: Vec::with_capacity(RECEIVE_BYTES),
            sent: 0,
            open_keys: Vec::with_capacity(4096),
            open_count: 0,
            gets: Vec::with_capacity(128),
            keys: Vec::with_capacity(4096),
            awaited: Vec::with_capacity(128),
            answered: 0,
            answered_gets: 0,
            staged: 0,
            received: vec![0; RECEIVE_BYTES],
            received_len: 0,
            taken: 0,
        }
    }

    /// Number of operations in the batch.
    pub(super) fn staged(&self) -> usize {
        self.staged
    }

    /// Adds an operation to the batch.
    pub(super) fn stage(&mut self, op: &Op<'_>, token: Token) {
        self.staged += 1;
        match *op {
            Op::Put { key, value, .. } => {
                self.kind.put(&mut self.out, key, value);
                self.awaited.push(Awaited::Put(token));
            }
            Op::Delete { key, .. } => {
                self.kind.delete(&mut self.out, key);
                self.awaited.push(Awaited::Delete(token));
            }
            Op::Touch { .. } => unreachable!("no workload has a touch"),
            Op::Get { key } | Op::GetItem { key } => {
                let (key_at, key_len) = (self.keys.len(), key.len());
                self.keys.extend_from_slice(key);
                self.gets.push(Get {
                    token,
                    key_at,
                    key_len,
                });
                self.kind.get_key(&mut self.open_keys, key);
                self.open_count += 1;
                if self.open_count == self.group {
                    self.close_request();
                }
            }
        }
    }

    fn close_request(&mut self) {
        let count = std::mem::take(&mut self.open_count);
        if count == 0 {
            return;
        }
        self.kind
            .get(&mut self.out, &self.open_keys, count, self.group > 1);
        self.open_keys.clear();
        let first = self.gets.len() - count;
        self.awaited.push(Awaited::Gets { first, count });
    }

    /// Completes the batch and sends as much as the socket takes.
    pub(super) fn send(&mut self) -> io::Result<()> {
        self.close_request();
        self.push_out()
    }

    /// Whether the socket has not taken the whole batch.
    pub(super) fn has_unsent(&self) -> bool {
        self.sent < self.out.len()
    }

    /// Descriptor to poll.
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.stream.socket()
    }

    /// Sends more of the batch.
    pub(super) fn push_out(&mut self) -> io::Result<()> {
        while self.sent < self.out.len() {
            match self.stream.send(&self.out[self.sent..])? {
                0 => break,
                n => self.sent += n,
            }
        }
        Ok(())
    }

    /// Handles received replies. Returns true when the whole batch is answered and the connection is free again.
    ///
    /// # Errors
    /// The socket failed, or the reply is malformed.
    pub(super) fn receive(&mut self, sink: &mut impl FnMut(Token, Outcome<'_>)) -> io::Result<bool> {
        if self.received_len == self.received.len() {
            self.make_space();
        }
        let n = self.stream.receive(&mut self.received[self.received_len..])?;
        if n == 0 {
            return Ok(false);
        }
        self.received_len += n;
        self.take_replies(sink).map_err(io::Error::other)?;
        if self.answered < self.awaited.len() {
            return Ok(false);
        }
        if self.taken < self.received_len {
            return Err(io::Error::other("the rival answered more than it was asked"));
        }
        self.clear();
        Ok(true)
    }

    fn make_space(&mut self) {
        if self.taken > 0 {
            self.received.copy_within(self.taken..self.received_len, 0);
            self.received_len -= self.taken;
            self.taken = 0;
        } else {
            self.received.resize(self.received.len() * 2, 0);
        }
    }

    fn clear(&mut self) {
        self.out.clear();
        self.gets.clear();
        self.keys.clear();
        self.awaited.clear();
        (self.sent, self.answered, self.answered_gets, self.staged) = (0, 0, 0, 0);
        (self.received_len, self.taken) = (0, 0);
    }

    fn take_replies(&mut self, sink: &mut impl FnMut(Token, Outcome<'_>)) -> Result<(), Unexpected> {
        while let Some(&awaited) = self.awaited.get(self.answered) {
            let bytes = &self.received[self.taken..self.received_len];
            let Some((reply, n)) = self.kind.parse(bytes)? else {
                return Ok(());
            };
            let mut batch = Batch {
                gets: &self.gets,
                keys: &self.keys,
                answered: &mut self.answered_gets,
            };
            let whole = batch.answer(awaited, reply, sink)?;
            self.taken += n;
            if whole {
                self.answered += 1;
                self.answered_gets = 0;
            }
        }
        Ok(())
    }
}

/// The GETs of a batch, and how far the current request is answered.
struct Batch<'a> {
    gets: &'a [Get],
    keys: &'a [u8],
    answered: &'a mut usize,
}

impl Batch<'_> {
    /// Passes `reply` to the sink. Returns true when the request is completely answered.
    fn answer(
        &mut self,
        awaited: Awaited,
        reply: Reply<'_>,
        sink: &mut impl FnMut(Token, Outcome<'_>),
    ) -> Result<bool, Unexpected> {
        let strange = || Unexpected {
            said: format!("{reply:?} where {awaited:?} was waiting"),
        };
        match (awaited, reply) {
            (Awaited::Put(token), Reply::Stored) => {
                sink(token, Outcome::Stored);
                Ok(true)
            }
            // memcached's reply to a DELETE that found its key is the one to a PUT.
            (Awaited::Delete(token), Reply::Stored | Reply::Deleted) => {
                sink(token, Outcome::Deleted);
                Ok(true)
            }
            (Awaited::Delete(token), Reply::NotDeleted) => {
                sink(token, Outcome::NotFound);
                Ok(true)
            }
            (Awaited::Gets { count, .. }, Reply::Array(n)) if n == count && *self.answered == 0 => Ok(false),
            (Awaited::Gets { first, count }, Reply::Value { key: None, value }) => {
                self.next(first, sink, Outcome::Value(value));
                Ok(*self.answered == count)
            }
            (Awaited::Gets { first, count }, Reply::Nil) => {
                self.next(first, sink, Outcome::NotFound);
                Ok(*self.answered == count)
            }
            (
                Awaited::Gets { first, count },
                Reply::Value {
                    key: Some(key),
                    value,
                },
            ) => {
                // Earlier keys of the request without an answer do not exist.
                while *self.answered < count && self.key(first + *self.answered) != key {
                    self.next(first, sink, Outcome::NotFound);
                }
                if *self.answered == count {
                    return Err(strange());
                }
                self.next(first, sink, Outcome::Value(value));
                Ok(false)
            }
            (Awaited::Gets { first, count }, Reply::End) => {
                while *self.answered < count {
                    self.next(first, sink, Outcome::NotFound);
                }
                Ok(true)
            }
            _ => Err(strange()),
        }
    }

    fn next(&mut self, first: usize, sink: &mut impl FnMut(Token, Outcome<'_>), outcome: Outcome<'_>) {
        sink(self.gets[first + *self.answered].token, outcome);
        *self.answered += 1;
    }

    fn key(&self, nth: usize) -> &[u8] {
        let get = self.gets[nth];
        &self.keys[get.key_at..get.key_at + get.key_len]
    }
}
