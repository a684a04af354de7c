//! What to ask of the system for a command, and what to answer: decisions only, no I/O.
//!
//! ```text
//! begin ---> ask (one operation) ---> proceed ---> ask again, or reply
//!                                        `--- again: the condition was lost, so the command begins anew
//! ```

mod fetch;
mod meta;
mod number;
mod store;

use crate::refusals::has_refused_flag;
use drover_base::Condition;
use drover_kv::{Op, OperationOffers, Outcome, Refusal};
use drover_memcached::decide::{TOO_LARGE_LINE, meta_status, unknown_flag_line};
use drover_memcached::forward::What;
use drover_memcached::request::{Expiry, Meta, MetaKind, Request, TooLarge};
use drover_memcached::{Counters, LineBuffer};
use drover_store::ExtraOutcome;
use std::io::Write;

/// What commands depend on besides their words and their item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// What the system offers.
    pub(crate) offers: OperationOffers,
    /// `-I`: longest item as memcached counts it, bytes.
    pub(crate) item_bytes_max: usize,
    /// Start of the gateway, seconds since 1970.
    pub(crate) start_unix_s: u64,
    /// Time since that start, seconds.
    pub(crate) now_s: u32,
}

/// Time to live of an item, as commands give it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ttl {
    /// Seconds; 0: unlimited.
    For(u32),
    /// It is over already.
    Over,
}

impl Terms {
    fn ttl(&self, expiry: Expiry) -> Ttl {
        match expiry.to_server_s(self.now_s, self.start_unix_s) {
            0 => Ttl::For(0),
            at_s if at_s <= self.now_s => Ttl::Over,
            at_s => Ttl::For(at_s - self.now_s),
        }
    }
}

/// The operation of a command that is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// A GET of the item.
    Read,
    /// A PUT.
    Write,
    /// A DELETE.
    Delete,
    /// A touch.
    Touch,
    /// A GET after a PUT, for the version of what was put.
    ReadBack,
    /// A DELETE of a value whose successor was too large.
    Drop,
}

/// What a command remembers between two operations.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Memo {
    /// Checksum of the value that was put.
    written: u64,
    /// The new number of an `ma` or `incr`.
    number: u64,
    /// An `ma` creates its item.
    creates: bool,
}

/// What is to be done next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action<'a> {
    /// Ask the system; its outcome is for [`Turn::proceed`].
    Ask(Step, Op<'a>),
    /// Ask, then give the reply that is there, whatever the outcome: its receiver may rely on the operation being over.
    AskThenReply(Step, Op<'a>),
    /// Reply; an empty reply is one, too.
    Reply,
    /// The item has changed since it was read: begin anew.
    Again,
    /// There is no true reply: close the connection.
    Close,
}

/// A reply under construction.
#[derive(Default, Debug)]
pub(crate) struct Reply {
    pub(crate) bytes: Vec<u8>,
    line: LineBuffer,
}

impl Reply {
    fn push(&mut self, noreply: bool, bytes: &[u8]) {
        if !noreply {
            self.bytes.extend_from_slice(bytes);
        }
    }
}

/// One decision about a command.
pub(crate) struct Turn<'a, 't> {
    pub(crate) terms: &'t Terms,
    /// The decoded key.
    pub(crate) key: &'a [u8],
    pub(crate) memo: &'t mut Memo,
    /// Empty at first.
    pub(crate) reply: &'t mut Reply,
    pub(crate) counters: &'t mut Counters,
}

/// Whether a command is always one operation, so that the system keeps its place among others of its key.
pub(crate) fn is_one_operation(what: &What<'_>) -> bool {
    match what {
        What::Fetch(fetch, _) => fetch.touch.is_none(),
        What::Request(Request::Store(store)) => !store::joins(store.mode),
        What::Request(Request::Arithmetic { .. }) => false,
        What::Request(Request::Meta(meta)) => match meta.kind {
            MetaKind::Get => !meta.has(b'T'),
            MetaKind::Set => !matches!(meta.mode, b'A' | b'P') && !meta.has(b'c'),
            MetaKind::Delete | MetaKind::Debug => true,
            MetaKind::Arithmetic => false,
        },
        What::Flush { .. } => false,
        _ => true,
    }
}

/// Whether the client wants no reply, whatever comes of it.
pub(crate) fn is_silent(what: &What<'_>) -> bool {
    match what {
        What::Request(Request::Store(store)) => store.noreply,
        What::Request(
            Request::Delete { noreply, .. }
            | Request::Arithmetic { noreply, .. }
            | Request::Touch { noreply, .. },
        ) => *noreply,
        _ => false,
    }
}

impl<'a> Turn<'a, '_> {
    /// The first thing to do for a command.
    pub(crate) fn begin(&mut self, what: &What<'a>) -> Action<'a> {
        match what {
            What::Fetch(fetch, _) => self.begin_fetch(*fetch),
            What::TooLarge { drop_old: true, .. } => {
                self.counters.store_too_large += 1;
                Action::Ask(Step::Drop, Op::delete(self.key))
            }
            What::TooLarge { .. } => {
                self.counters.store_too_large += 1;
                Action::Reply
            }
            What::Request(request) => self.begin_request(request),
            What::Fetches(_)
            | What::FetchAlone(..)
            | What::Flush { .. }
            | What::FlushAfter { .. }
            | What::Dump(_)
            | What::Handover(..)
            | What::Copies(..) => self.refuse(false, b"ERROR\r\n"),
        }
    }

    fn begin_request(&mut self, request: &Request<'a>) -> Action<'a> {
        let offers = &self.terms.offers;
        match *request {
            Request::Store(ref store) => self.begin_store(store),
            Request::Delete { .. } => Action::Ask(Step::Delete, Op::delete(self.key)),
            Request::Arithmetic { noreply, .. } if !offers.versions || !offers.conditions => {
                self.refuse(noreply, b"ERROR\r\n")
            }
            Request::Arithmetic { .. } => self.read(),
            Request::Touch { noreply, .. } if !offers.touch => self.refuse(noreply, b"ERROR\r\n"),
            Request::Touch { expiry, .. } => match self.terms.ttl(expiry) {
                Ttl::For(ttl_s) => Action::Ask(Step::Touch, Op::Touch { key: self.key, ttl_s }),
                Ttl::Over => Action::Ask(Step::Delete, Op::delete(self.key)),
            },
            Request::Meta(ref meta) if meta.kind == MetaKind::Debug => self.refuse(false, b"ERROR\r\n"),
            Request::Meta(ref meta) if has_refused_flag(meta, offers) => {
                self.refuse(false, unknown_flag_line(meta.kind))
            }
            Request::Meta(ref meta) => self.begin_meta(meta),
            Request::TooLarge(TooLarge { .. }) | Request::Fetch { .. } | Request::General(_) => {
                self.refuse(false, b"ERROR\r\n")
            }
        }
    }

    /// The next thing to do, after the operation of `step` has ended with `outcome`. `value`: memory for a new value.
    pub(crate) fn proceed(
        &mut self,
        what: &What<'a>,
        step: Step,
        outcome: &Outcome<'_>,
        value: &'a mut Vec<u8>,
    ) -> Action<'a> {
        if step == Step::Drop {
            return Action::Reply;
        }
        match *what {
            What::Fetch(fetch, _) => self.proceed_fetch(fetch, step, outcome),
            What::Request(Request::Store(ref store)) => self.proceed_store(store, step, outcome, value),
            What::Request(Request::Delete { noreply, .. }) => {
                let line: &[u8] = match outcome {
                    Outcome::Deleted => {
                        self.counters.delete_hits += 1;
                        b"DELETED\r\n"
                    }
                    Outcome::NotFound => {
                        self.counters.delete_misses += 1;
                        b"NOT_FOUND\r\n"
                    }
                    _ => return self.fail(noreply, outcome),
                };
                self.reply.push(noreply, line);
                Action::Reply
            }
            What::Request(Request::Touch { noreply, .. }) => {
                let line: &[u8] = match outcome {
                    Outcome::Touched | Outcome::Deleted => {
                        self.counters.touch_hits += 1;
                        b"TOUCHED\r\n"
                    }
                    Outcome::NotFound => {
                        self.counters.touch_misses += 1;
                        b"NOT_FOUND\r\n"
                    }
                    _ => return self.fail(noreply, outcome),
                };
                self.counters.cmd_touch += 1;
                self.reply.push(noreply, line);
                Action::Reply
            }
            What::Request(Request::Arithmetic {
                delta, up, noreply, ..
            }) => self.proceed_number((delta, up, noreply), step, outcome, value),
            What::Request(Request::Meta(ref meta)) => self.proceed_meta(meta, step, outcome, value),
            _ => Action::Reply,
        }
    }

    fn read(&self) -> Action<'a> {
        Action::Ask(Step::Read, Op::GetItem { key: self.key })
    }

    fn delete_if(&self, condition: Condition) -> Op<'a> {
        let key = self.key;
        Op::Delete { key, condition }
    }

    fn refuse(&mut self, noreply: bool, line: &[u8]) -> Action<'a> {
        self.reply.push(noreply, line);
        Action::Reply
    }

    /// Replies that the operation failed.
    fn fail(&mut self, noreply: bool, outcome: &Outcome<'_>) -> Action<'a> {
        if noreply {
            return Action::Reply;
        }
        let line = &mut self.reply.bytes;
        // Into memory.
        let _ = match outcome {
            Outcome::Refused(Refusal::TooLarge) => line.write_all(TOO_LARGE_LINE),
            Outcome::Refused(refusal) => write!(line, "SERVER_ERROR {refusal}\r\n"),
            Outcome::Indeterminate => line
                .write_all(b"SERVER_ERROR the server failed, and nobody knows whether this was executed\r\n"),
            _ => line.write_all(b"SERVER_ERROR unexpected answer of the system\r\n"),
        };
        Action::Reply
    }

    /// Replies with a status of a meta command.
    fn status(&mut self, status: &[u8], meta: &Meta<'_>, cas: Option<u64>) -> Action<'a> {
        meta_status(&mut self.reply.line, status, meta, self.key, cas);
        self.reply.bytes.extend_from_slice(self.reply.line.bytes());
        Action::Reply
    }
}

/// What came of a PUT, in the store's words; `None` if it failed for reasons that no store has.
fn stored(outcome: &Outcome<'_>) -> Option<ExtraOutcome> {
    Some(match outcome {
        Outcome::Stored => ExtraOutcome::Stored { cas: 0 },
        Outcome::Exists => ExtraOutcome::Present { cas: 0 },
        Outcome::NotFound => ExtraOutcome::Absent,
        Outcome::Refused(Refusal::TooLarge) => ExtraOutcome::TooLarge,
        Outcome::Refused(Refusal::Full | Refusal::TableFull) => ExtraOutcome::Full,
        _ => return None,
    })
}

/// The condition of an update of an item that was read.
fn unchanged(version: u64) -> Condition {
    Condition::IfVersion(version)
}
