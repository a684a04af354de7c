//! The client: keeps a window of requests per partition, matches replies, retransmits, resynchronises,
//! reconnects.
//!
//! ```text
//! submit -- hash -- conflict with an operation under way? --yes--> waiting --pump-.
//!                     | no                                                        |
//!                     v                                                           v
//!                  window slot -> staged WRITE -> flush ... reply -> completion (or retransmission)
//! ```
//!
//! One operation is one request in one slot at a time. It stays the client's until it has a definite end:
//!
//! | what happens | PUT, DELETE | GET |
//! |---|---|---|
//! | no reply in time | same request again, up to 5 times; then the slot is quarantined and the server asked | same |
//! | `Resynced`: executed | its status | sent anew |
//! | `Resynced`: not executed, and never will be | sent anew | sent anew |
//! | the session ends, request posted | `Indeterminate` | sent anew in the next session |
//! | the session ends, not posted | sent in the next session | same |
//! | deadline, request posted | `Indeterminate`; the slot stays quarantined | `Refused(Unavailable)` |
//! | deadline, not posted | `Refused(Unavailable)` | same |
//!
//! Conflicting operations on one key are under way together only where nothing of this can reorder them ([`conflict`]).

mod asynch;
mod blocking;
mod bulk;
mod conflict;
mod connect;
mod format;
mod imports;
mod options;
mod paper;
mod receive;
mod request;
mod retry;
mod rto;
mod send_queue;
mod session;
mod stats;
mod thread;
mod waiting;
mod window;

pub use asynch::{AsyncClient, OpError};
pub use blocking::BlockingClient;
pub use connect::RECONNECT_MAX;
pub use drover_rt::control::Dial;
pub use format::{Keyed, Paper, RequestFormat};
pub use options::{ClientOptions, SetupError};
pub use stats::ClientStats;
pub use thread::{ClientThread, Handle};

use crate::costs::{ANSWER, LOOK, SUBMIT, SUBMIT_GET};
use crate::layout::{Commit, ReplyImm, SlotOp, Status, TRAILER_BYTES};
use bulk::{BulkMemory, BulkOp};
use conflict::Conflicts;
use connect::Link;
use drover_base::{Cpu, KeyHash, Ns, key_words};
use drover_kv::{Completion, KEY_BYTES_MAX, KvClient, Op, Outcome, Refusal, SubmitError, Token};
use drover_verbs::{CompletionQueue, Opcode, Provider, Wc, WcStatus};
use request::{Body, LINE_BODY_BYTES, Line};
use rto::Rto;
use session::{Session, answered};
use std::hint::cold_path;
use std::rc::Rc;
use waiting::{Queue, Waiting};
use window::{Before, Slot, SlotState, commit_writes};

/// Completions taken per look at the completion queue.
const POLL_MAX: usize = 32;
/// Timers are looked at this often: a quarter of the shortest retransmission timeout.
const TICK: Ns = Ns::from_us(250);
/// One request in this many (a power of two) is a sample of the round trip.
const SAMPLE_EVERY: u32 = 64;

/// The sink as the rare paths see it.
type Sink<'a> = &'a mut dyn FnMut(Completion<'_>);

/// A client of one HERD server, for one thread. See the [module](self).
///
/// Time is `cpu.now()`: run loops refresh the clock once per step.
pub struct HerdClient<P: Provider, F: RequestFormat = Keyed> {
    /// Requests may be posted: there is a session and it is not being left.
    open: bool,
    /// The rare paths have something to do before the next tick.
    urgent: bool,
    next_tick: Ns,
    session: Option<Box<Session<P, F>>>,
    conflicts: Conflicts,
    in_flight: usize,
    completed: usize,
    rto: Rto,
    wcs: Box<[Wc; POLL_MAX]>,
    value: Box<[u8; 1024]>,
    stats: ClientStats,
    waiting: Queue,
    bulk_ops: Vec<Option<BulkOp>>,
    bulk: BulkMemory<P>,
    /// Operations refused before they were sent.
    refused: Vec<(Token, Refusal)>,
    link: Link<P, F>,
    /// The next attempt asks for datagrams: the server has no slots left.
    without_slots: bool,
    dial: Dial,
    /// Wait before the next attempt to connect, should the current one fail.
    backoff: Ns,
    sessions: u64,
    last_epoch: u64,
    server_stats: Option<String>,
    last_error: Option<SetupError>,
    options: ClientOptions,
    format: F,
    ctx: Rc<P::Context>,
}

/// What became of an attempt to put an operation into a slot.
enum Placed {
    Posted,
    /// The partition's window is full.
    NoSlot,
    /// It does not fit a slot.
    TooLong,
}

#[inline(always)]
fn is_write(op: &Op<'_>) -> bool {
    !matches!(op, Op::Get { .. })
}

/// Op of the request and status of the reply, for one comparison instead of two.
#[inline(always)]
fn usual(commit: Commit, imm: ReplyImm) -> u32 {
    (commit.0 >> 52) as u32 & 0xf0 | imm.0 >> 28
}

const fn pair(op: SlotOp, status: Status) -> u32 {
    (op as u32) << 4 | status as u32
}

const GET_OK: u32 = pair(SlotOp::Get, Status::Ok);
const GET_MISS: u32 = pair(SlotOp::Get, Status::NotFound);
const PUT_OK: u32 = pair(SlotOp::Put, Status::Ok);
const PUT_TTL_OK: u32 = pair(SlotOp::PutTtl, Status::Ok);
const DELETE_OK: u32 = pair(SlotOp::Delete, Status::Ok);
const DELETE_MISS: u32 = pair(SlotOp::Delete, Status::NotFound);

impl<P: Provider, F: RequestFormat> HerdClient<P, F> {
    /// Counters.
    pub fn stats(&self) -> &ClientStats {
        &self.stats
    }

    /// Whether requests can be sent now.
    pub fn is_ready(&self) -> bool {
        self.open
    }

    /// The session's epoch: another one after a reconnection means another server process.
    pub fn epoch(&self) -> Option<u64> {
        self.session.as_ref().map(|session| session.params.epoch)
    }

    /// Partitions of the server, once known.
    pub fn partition_count(&self) -> Option<usize> {
        self.session
            .as_ref()
            .map(|session| session.params.partition_count)
    }

    /// Why there is no session, if there was a reason since the last call.
    pub fn take_error(&mut self) -> Option<SetupError> {
        self.last_error.take()
    }

    /// The context it works in.
    pub fn context(&self) -> &Rc<P::Context> {
        &self.ctx
    }

    /// Submits operations `ops[i]` with token `first_token + i` until one does not fit; returns how many were
    /// taken. Errors: the first operation's own, if none was.
    pub fn submit_batch(
        &mut self,
        cpu: &P::Cpu,
        ops: &[Op<'_>],
        first_token: Token,
    ) -> Result<usize, SubmitError> {
        for (i, op) in ops.iter().enumerate() {
            match self.submit(cpu, op, first_token + i as u64) {
                Ok(()) => {}
                Err(_) if i > 0 => return Ok(i),
                Err(error) => return Err(error),
            }
        }
        Ok(ops.len())
    }

    /// Puts an operation into the next slot of its partition, behind what conflicts with it.
    #[inline(always)]
    fn place(
        session: &mut Session<P, F>,
        op: &Op<'_>,
        before: Before,
        hash: KeyHash,
        token: Token,
        submitted: Ns,
        now: Ns,
    ) -> Placed {
        let partition = hash.partition_index(session.params.partition_count);
        let conditional = before == Before::Reads;
        let (slot_op, key, value, ttl_s) = match *op {
            Op::Get { key } => (SlotOp::Get, key, &[][..], 0),
            Op::Put { key, value, ttl_s: 0 } => (SlotOp::Put, key, value, 0),
            Op::Put { key, value, ttl_s } => (SlotOp::PutTtl, key, value, ttl_s),
            Op::Delete { key } => (SlotOp::Delete, key, &[][..], 0),
        };
        if session.params.plain && ttl_s == 0 && key.len() + value.len() <= LINE_BODY_BYTES {
            let body = (key.len(), value.len());
            let placed = Self::post_line(
                session,
                slot_op,
                conditional,
                body,
                hash,
                token,
                submitted,
                now,
                |line, commit| {
                    request::build_line(line, commit, hash, key, value);
                },
            );
            return match placed {
                true => Placed::Posted,
                false => Placed::NoSlot,
            };
        }
        let Some((at, seq)) = session.window.next(partition) else {
            return Placed::NoSlot;
        };
        if !session.fits(key, value, ttl_s) {
            return Placed::TooLong;
        }
        let body = Body {
            commit: Commit::new(slot_op, seq, key.len(), value.len(), session.params.crc)
                .with_condition(conditional),
            hash,
            key,
            value,
            ttl_s,
        };
        Self::post(session, partition, at, &body, token, submitted, now);
        Placed::Posted
    }

    /// A GET of a key of 16 bytes in a session without anything special: what most clients do most of the time, with
    /// the key in registers from the hash to the request. False: nothing done, [`submit`](KvClient::submit) sees
    /// what is different.
    #[inline(always)]
    fn submit_plain_get(&mut self, cpu: &P::Cpu, key: [u64; 2], token: Token) -> bool {
        let session = match self.session.as_deref_mut() {
            Some(session) if self.open && session.params.plain => session,
            _ => return false,
        };
        cpu.charge(SUBMIT_GET, 1);
        let hash = session.hasher.hash_words(key);
        if !self.conflicts.try_add_read(hash) {
            return false;
        }
        let now = cpu.now();
        let build = |line: &mut _, commit| request::build_get(line, commit, hash, key);
        if !Self::post_line(session, SlotOp::Get, false, (16, 0), hash, token, now, now, build) {
            self.conflicts.remove(hash, false);
            return false;
        }
        self.in_flight += 1;
        if session.sends.is_batch() {
            session.flush(cpu);
        }
        true
    }

    /// Takes the next slot of the key's partition for a request of one line, whose key and value have `body` bytes,
    /// and stages what `build` makes of it; false: the window is full.
    #[inline(always)]
    #[expect(
        clippy::too_many_arguments,
        reason = "a request, spread out: it is to stay in registers"
    )]
    fn post_line(
        session: &mut Session<P, F>,
        op: SlotOp,
        conditional: bool,
        body: (usize, usize),
        hash: KeyHash,
        token: Token,
        submitted: Ns,
        now: Ns,
        build: impl FnOnce(&mut Line, Commit),
    ) -> bool {
        let partition = hash.partition_index(session.params.partition_count);
        let Some(claim) = session.window.claim(partition) else {
            return false;
        };
        let commit = Commit::new(op, claim.seq, body.0, body.1, false).with_condition(conditional);
        let len = TRAILER_BYTES + body.0 + body.1;
        Self::fill(claim.slot, commit, hash, token, submitted, now, len);
        let at = claim.at;
        session.stage_plain(at, len, |line| build(line, commit));
        true
    }

    /// Any operation.
    #[inline(never)]
    fn submit_multi_line(&mut self, cpu: &P::Cpu, op: &Op<'_>, token: Token) -> Result<(), SubmitError> {
        let key = op.key();
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Err(SubmitError::BadKey);
        }
        cpu.charge(SUBMIT, 1);
        let now = cpu.now();
        let session = match self.session.as_deref_mut() {
            Some(session) if self.open => session,
            _ => return self.submit_waiting(op, self.hash(key), token, now),
        };
        if session.window.is_full() {
            return Err(SubmitError::WindowFull);
        }
        let hash = session.hasher.hash(key);
        let write = is_write(op);
        let before = match self.conflicts.may_conflict(hash, write) {
            true => self.before(hash, write),
            false => Before::Nothing,
        };
        if before == Before::Unsure {
            return self.submit_behind(op, hash, token, now);
        }
        let Some(session) = self.session.as_deref_mut() else {
            return Err(SubmitError::Closed);
        };
        if session.cannot_say(op) {
            return self.submit_waiting(op, hash, token, now);
        }
        match Self::place(session, op, before, hash, token, now, now) {
            Placed::Posted => {}
            Placed::NoSlot => return Err(SubmitError::WindowFull),
            // A bulk transfer begins before its turn in the lane would come.
            Placed::TooLong if before != Before::Nothing => return self.submit_behind(op, hash, token, now),
            Placed::TooLong => return self.submit_long(op, hash, token, now),
        }
        self.conflicts.add(hash, write);
        self.in_flight += 1;
        if session.sends.is_batch() {
            session.flush(cpu);
        }
        Ok(())
    }

    /// Builds a request in slot `at`, which is free and its partition's next, and stages it.
    #[inline(always)]
    fn post(
        session: &mut Session<P, F>,
        partition: usize,
        at: usize,
        body: &Body<'_>,
        token: Token,
        submitted: Ns,
        now: Ns,
    ) {
        let len = match session.params.format.is_paper() {
            true => paper::build(session.sends.block_mut(at), body),
            false => request::build(session.sends.block_mut(at), body),
        };
        let slot = session.window.take(partition, at);
        Self::fill(slot, body.commit, body.hash, token, submitted, now, len);
        session.stage(at, len);
    }

    #[inline(always)]
    fn fill(
        slot: &mut Slot,
        commit: Commit,
        hash: KeyHash,
        token: Token,
        submitted: Ns,
        now: Ns,
        len: usize,
    ) {
        *slot = Slot {
            token,
            commit,
            hash,
            submitted,
            sent: now,
            len: len as u16,
            tries: 0,
            state: SlotState::Posted,
            forgotten: false,
        };
    }

    /// The hash of a key in this session. Before there is one, any: hashes are renewed when a session begins.
    fn hash(&self, key: &[u8]) -> KeyHash {
        self.session
            .as_ref()
            .map_or(KeyHash::default(), |session| session.hasher.hash(key))
    }

    /// The operation does not fit a slot: by bulk transfer, or not at all.
    #[cold]
    fn submit_long(&mut self, op: &Op<'_>, hash: KeyHash, token: Token, now: Ns) -> Result<(), SubmitError> {
        let Some(session) = &self.session else {
            return self.submit_waiting(op, hash, token, now);
        };
        let Op::Put { value, .. } = *op else {
            // Only the key is too long for these slots: no other way in.
            return Err(SubmitError::TooLarge);
        };
        if session.params.format.is_paper()
            || value.len() > session.params.item_bytes_max
            || self.bulk.is_refused()
        {
            return Err(SubmitError::TooLarge);
        }
        if self.bulk_ops.iter().flatten().count() >= self.options.waiting_max {
            return Err(SubmitError::WindowFull);
        }
        self.conflicts.add(hash, true);
        self.in_flight += 1;
        self.begin_bulk(Waiting::new(op, hash, token, now), None);
        Ok(())
    }

    /// What stands before an operation. Exact, and slow.
    #[cold]
    fn before(&self, hash: KeyHash, write: bool) -> Before {
        let waits = self.waiting.iter().any(|w| w.conflicts_with(hash, write));
        match &self.session {
            _ if waits || self.conflicts_with_bulk(hash, write) => Before::Unsure,
            Some(session) => session.before(hash, write),
            None => Before::Nothing,
        }
    }

    /// Completions of the last look, from number `from` to `count`, as long as they are the usual ends of small
    /// operations. Returns how many were.
    #[inline(always)]
    fn complete_inline(
        &mut self,
        cpu: &P::Cpu,
        from: usize,
        count: usize,
        sink: &mut impl FnMut(Completion<'_>),
    ) -> usize {
        let wcs = self.wcs.get(from..count).unwrap_or_default();
        let Some(session) = self.session.as_deref_mut() else {
            return wcs.len();
        };
        let Session {
            window,
            routes,
            receive,
            ..
        } = session;
        let mut done = 0;
        for wc in wcs {
            if wc.opcode != Opcode::Recv || wc.status != WcStatus::Success {
                break;
            }
            let Some((_, imm, slot)) = answered(window, routes, wc) else {
                break;
            };
            let what = usual(slot.commit, imm);
            // The most frequent end of all, told apart from the others first: by a branch, not by a table of jumps.
            let (outcome, write) = if what == GET_OK {
                match receive.payload(wc, &mut self.value) {
                    Some(value) => (Outcome::Value(value), false),
                    None => break,
                }
            } else {
                cold_path();
                match what {
                    GET_MISS => (Outcome::NotFound, false),
                    DELETE_MISS => (Outcome::NotFound, true),
                    PUT_OK | PUT_TTL_OK => (Outcome::Stored, true),
                    DELETE_OK => (Outcome::Deleted, true),
                    _ => break,
                }
            };
            if slot.commit.seq().is_multiple_of(SAMPLE_EVERY) && slot.tries == 0 {
                self.rto.sample(cpu.now().since(slot.sent));
            }
            slot.state = SlotState::Free;
            self.conflicts.remove(slot.hash, write);
            self.waiting.ended(slot.hash);
            done += 1;
            sink(Completion {
                token: slot.token,
                outcome,
            });
        }
        window.freed(done);
        receive.done(done);
        self.in_flight -= done;
        self.completed += done;
        done
    }

    /// Any other completion.
    #[cold]
    fn complete_waiting(&mut self, cpu: &P::Cpu, i: usize, sink: Sink<'_>) {
        let (Some(session), Some(wc)) = (self.session.as_deref_mut(), self.wcs.get(i).copied()) else {
            return;
        };
        if wc.opcode != Opcode::Recv || wc.status != WcStatus::Success {
            return self.complete_other(cpu, &wc, sink);
        }
        session.receive.done(1);
        match session.answered(&wc) {
            Some((at, imm)) => self.complete_bulk(cpu, &wc, at, imm, sink),
            None => {
                self.stats.stale_replies += 1;
                self.rto.was_early();
                self.urgent = true; // more may stand behind it: this look had a bound
            }
        }
    }

    /// A reply that is not the usual end of a small operation.
    #[cold]
    fn complete_bulk(&mut self, cpu: &P::Cpu, wc: &Wc, at: usize, imm: ReplyImm, sink: Sink<'_>) {
        let now = cpu.now();
        self.urgent = true;
        let Some(session) = self.session.as_deref_mut() else {
            return;
        };
        let slot = session.window.slot(at).clone();
        let bulk = matches!(slot.commit.op(), Some(SlotOp::PutBulk | SlotOp::GetBulk));
        let refusal = match imm.status() {
            // As soon as what it was posted behind is complete.
            Some(Status::Retry) if slot.commit.is_conditional() => return self.again(at, now),
            Some(Status::Retry) => return self.again(at, now + TICK),
            Some(Status::WrongPartition) => {
                tracing::warn!("the server has other partitions than it told us: connecting anew");
                self.leave_when_idle();
                return self.again(at, now);
            }
            Some(Status::StaleEpoch) => {
                session.window.slot_mut(at).forgotten = true;
                return self.quarantine(at);
            }
            Some(Status::TooLarge) => Refusal::TooLarge,
            Some(Status::Full) => Refusal::Full,
            Some(Status::BadRequest) => Refusal::BadRequest,
            Some(Status::Bulk) if slot.commit.op() == Some(SlotOp::Get) => return self.get_is_bulk(wc, at),
            Some(Status::Ok | Status::NotFound) if bulk => return self.bulk_answered(cpu, wc, at, imm, sink),
            Some(Status::Bulk | Status::Ok | Status::NotFound) | None => {
                self.stats.garbage += 1;
                return;
            }
        };
        self.finish_slot(at, Outcome::Refused(refusal), sink);
    }

    /// The operation in a slot is complete, and the slot free.
    fn finish_slot(&mut self, at: usize, outcome: Outcome<'_>, sink: Sink<'_>) {
        let Some(session) = self.session.as_deref_mut() else {
            return;
        };
        let slot = session.window.slot(at).clone();
        session.window.release(at);
        self.urgent = true;
        if matches!(slot.commit.op(), Some(SlotOp::PutBulk | SlotOp::GetBulk)) {
            return self.finish_bulk(slot.token as usize, outcome, sink);
        }
        self.conflicts.remove(slot.hash, commit_writes(slot.commit));
        if slot.state != SlotState::Ghost {
            self.complete(slot.token, outcome, sink);
        }
    }

    /// Hands a result to the caller.
    fn complete(&mut self, token: Token, outcome: Outcome<'_>, sink: Sink<'_>) {
        self.in_flight -= 1;
        self.completed += 1;
        self.stats.indeterminate += u64::from(outcome == Outcome::Indeterminate);
        sink(Completion { token, outcome });
    }

    /// A completion that is no reply: the send queue's sign of life, a bulk transfer, or a failure.
    #[cold]
    fn complete_other(&mut self, cpu: &P::Cpu, wc: &Wc, sink: Sink<'_>) {
        match (wc.status, wc.opcode) {
            (WcStatus::Success, _) if bulk::is_bulk(wc.wr_id) => self.bulk_moved(cpu, wc, sink),
            (WcStatus::Success, Opcode::Write | Opcode::Send) => {
                if let Some(session) = &mut self.session {
                    session.sends.has_left(wc.wr_id);
                }
            }
            (WcStatus::Success, _) => self.stats.garbage += 1,
            (status, _) => {
                tracing::debug!(?status, "a request of the session failed");
                if let Some(session) = &mut self.session {
                    session.broken = true;
                }
                self.urgent = true;
            }
        }
    }

    /// The rare paths: control channel, timers, waiting operations, bulk transfers.
    #[cold]
    fn tend(&mut self, cpu: &P::Cpu, sink: Sink<'_>) {
        let now = cpu.now();
        let tick = now >= self.next_tick;
        self.urgent = false;
        self.tend_link(cpu, tick, sink);
        if tick {
            self.next_tick = now + TICK;
            self.look_at_timers(now, sink);
        }
        self.pump(cpu);
        self.advance_bulk(cpu, sink);
        self.say_refused(sink);
    }
}

impl<P: Provider, F: RequestFormat> KvClient<P> for HerdClient<P, F> {
    #[inline]
    fn submit(&mut self, cpu: &P::Cpu, op: &Op<'_>, token: Token) -> Result<(), SubmitError> {
        if let Op::Get { key } = *op
            && let Some(key) = key_words(key)
            && self.submit_plain_get(cpu, key, token)
        {
            return Ok(());
        }
        self.submit_multi_line(cpu, op, token)
    }

    #[inline]
    fn poll(&mut self, cpu: &P::Cpu, sink: &mut impl FnMut(Completion<'_>)) -> usize {
        let before = self.completed;
        if let Some(session) = self.session.as_deref_mut() {
            session.flush(cpu);
            let count = session.cq.poll(cpu, &mut self.wcs[..]);
            cpu.charge(LOOK, 1);
            cpu.charge(ANSWER, count as u32);
            let mut taken = self.complete_inline(cpu, 0, count, sink);
            while taken < count {
                self.complete_waiting(cpu, taken, sink);
                taken += 1;
                taken += self.complete_inline(cpu, taken, count, sink);
            }
            if count > 0
                && let Some(session) = self.session.as_deref_mut()
                && !session.receive.repost(cpu)
            {
                session.broken = true;
                self.urgent = true;
            }
        }
        if self.urgent || cpu.now() >= self.next_tick {
            self.tend(cpu, sink);
        } else if self.waiting.may_go() {
            self.pump(cpu);
            self.say_refused(sink);
        }
        self.completed - before
    }

    #[inline]
    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn next_timer(&self) -> Ns {
        self.earliest_timer()
    }
}
