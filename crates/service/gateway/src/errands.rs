//! [`Errands`]: all commands of a worker that are under way.
//!
//! ```text
//! session --send--> errand --submit--> system
//! sockets <--fill-- errand <---poll--- system
//! ```
//! A command that is one operation is submitted at once: the system keeps the order of one client's operations on a key.
//! One that reads, decides and then writes *blocks* its key: later commands of this worker about that key wait for its
//! end, so that a client's pipelined commands take effect in order, and do not make each other lose their conditions.

use crate::backend::Backend;
use crate::command::{Action, Reply, Step, Terms, Turn, is_silent};
use crate::errand::{Errand, NONE, Slot, State};
use drover_base::{KeyHash, Ns, Rng};
use drover_kv::{Completion, OperationOffers, Outcome, Refusal, SubmitError};
use drover_memcached::{CoreRouter, Counters, RouteFull};
use drover_net::PendingReply;
use std::collections::VecDeque;

/// Longest wait of a command before it reads its item anew, because that has changed before the write, the first time. It
/// doubles with each further time.
const REST: Ns = Ns(500);
/// How often it doubles: to a quarter of a millisecond.
const REST_DOUBLINGS: u32 = 9;
/// Reply to a command that has lost its condition up to its deadline.
const BUSY: &[u8] = b"SERVER_ERROR busy\r\n";
const MALFORMED: &[u8] = b"SERVER_ERROR malformed message between cores\r\n";
/// Longer replies leave no memory behind.
const KEPT_BYTES: usize = 64 << 10;

/// What is to be done with a pending reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer<'a> {
    /// Its bytes, which may be none.
    Reply(&'a [u8]),
    /// There is no true reply: the connection is to be closed.
    Close,
}

/// Receives the answers of [`Errands`].
pub type Fill<'f> = dyn FnMut(PendingReply, Answer<'_>) + 'f;

/// Options of a worker's errands.
#[derive(Clone, Copy, Debug)]
pub struct GatewayOptions {
    /// Index of the worker.
    pub worker: usize,
    /// Number of workers of the gateway.
    pub worker_count: usize,
    /// Most commands under way at a time, at least 1.
    pub capacity: usize,
    /// What the system offers.
    pub offers: OperationOffers,
    /// `-I`: longest item as memcached counts it, bytes.
    pub item_bytes_max: usize,
    /// When `now_s` is 0, seconds since 1970.
    pub start_unix_s: u64,
    /// Time from the first lost condition of a command on after which it is given up.
    pub patience: Ns,
    /// Seed of the time that commands wait which have lost their condition; each worker of all gateways has its own.
    pub seed: u64,
}

/// The commands of one worker that are under way, and the client that executes them. It is the
/// [router](CoreRouter) of the worker's sessions, to which every key is another core's.
pub struct Errands {
    backend: Box<dyn Backend>,
    commands: Commands,
    /// Replies that were known at once; the sessions have not reserved their places yet.
    staged: Vec<(PendingReply, Option<usize>)>,
    staged_bytes: Vec<u8>,
    own: usize,
    core_count: usize,
    /// Operations were submitted since the last poll.
    submitted: bool,
}

impl Errands {
    /// Creates the errands of a worker whose commands `backend` executes.
    pub fn new(backend: Box<dyn Backend>, options: &GatewayOptions) -> Errands {
        let capacity = options.capacity.max(1);
        Errands {
            backend,
            commands: Commands {
                slots: (0..capacity).map(|_| Errand::new()).collect(),
                free: (0..capacity as Slot).rev().collect(),
                blocking: Vec::with_capacity(capacity),
                ready: VecDeque::with_capacity(capacity),
                resting: Vec::with_capacity(capacity),
                patience: options.patience,
                rng: Rng::new(options.seed, options.worker as u64, 0),
                terms: Terms {
                    offers: options.offers,
                    item_bytes_max: options.item_bytes_max,
                    start_unix_s: options.start_unix_s,
                    now_s: 1,
                },
                reply: Reply::default(),
                value: Vec::new(),
                counters: Counters::default(),
            },
            staged: Vec::with_capacity(capacity),
            staged_bytes: Vec::new(),
            own: options.worker,
            core_count: options.worker_count + 1,
            submitted: false,
        }
    }

    /// Sets the time for expiry: seconds since [`GatewayOptions::start_unix_s`], at least 1.
    pub fn set_now_s(&mut self, now_s: u32) {
        self.commands.terms.now_s = now_s;
    }

    /// Takes the answers of the system, and asks on. Calls `fill` with every reply that is known, those that were known when
    /// the command was sent, too. Returns whether anything happened.
    pub fn poll(&mut self, fill: &mut Fill<'_>) -> bool {
        self.fill_staged(fill);
        self.submitted = false;
        let Errands {
            backend, commands, ..
        } = self;
        let finished = backend.poll(&mut |completion: Completion<'_>| {
            commands.completed(completion.token as Slot, &completion.outcome, true, fill);
        });
        if !commands.resting.is_empty() {
            commands.wake(backend.now(), fill);
        }
        self.pump(fill);
        finished > 0 || self.is_busy()
    }

    /// Gives the replies that were known when their commands were sent, once the sessions have their places.
    pub fn fill_staged(&mut self, fill: &mut Fill<'_>) {
        let mut start = 0;
        for (pending, end) in self.staged.drain(..) {
            match end {
                Some(end) => {
                    fill(pending, Answer::Reply(&self.staged_bytes[start..end]));
                    start = end;
                }
                None => fill(pending, Answer::Close),
            }
        }
        self.staged_bytes.clear();
    }

    /// Whether the next [`poll`](Errands::poll) has something to do, although nothing may have arrived.
    pub fn is_busy(&self) -> bool {
        self.submitted || !self.commands.resting.is_empty()
    }

    /// Number of commands under way.
    pub fn under_way(&self) -> usize {
        self.commands.slots.len() - self.commands.free.len()
    }

    /// Time by which [`poll`](Errands::poll) must be called again even if nothing arrives.
    pub fn next_timer(&self) -> Ns {
        self.backend.next_timer()
    }

    /// Number of further commands that there is space for.
    pub fn space(&self) -> usize {
        self.commands.free.len()
    }

    /// Takes what the commands have counted since the last call; `None` if that is nothing.
    pub fn take_counters(&mut self) -> Option<Counters> {
        let counters = std::mem::take(&mut self.commands.counters);
        (counters != Counters::default()).then_some(counters)
    }

    /// Submits what is ready, in order, as long as the client accepts it.
    fn pump(&mut self, fill: &mut Fill<'_>) {
        while let Some(slot) = self.commands.ready.pop_front() {
            if !self.go_on(slot, fill) {
                return self.commands.ready.push_front(slot);
            }
        }
    }

    /// Begins an errand, or submits the operation that it holds; returns whether the client had space.
    fn go_on(&mut self, slot: Slot, fill: &mut Fill<'_>) -> bool {
        let errand = &mut self.commands.slots[slot as usize];
        let State::Held(step) = errand.state else {
            if errand.state == State::New && !self.commands.admit(slot) {
                return true; // It waits for another one.
            }
            if let Some(at_s) = self.commands.slots[slot as usize].flush_at_s() {
                return self.flush(slot, at_s, fill);
            }
            self.commands.begin(slot, fill);
            return match self.commands.slots[slot as usize].state {
                State::Held(_) => self.go_on(slot, fill),
                _ => true,
            };
        };
        let submitted = self.backend.submit(&errand.held.as_op(), u64::from(slot));
        let refusal = match submitted {
            Ok(()) => {
                errand.state = State::Asked(step);
                self.submitted = true;
                return true;
            }
            Err(SubmitError::WindowFull) => return false,
            Err(SubmitError::TooLarge) => Refusal::TooLarge,
            Err(SubmitError::BadKey) => Refusal::BadRequest,
            Err(_) => Refusal::Unavailable,
        };
        errand.state = State::Asked(step);
        self.commands
            .completed(slot, &Outcome::Refused(refusal), false, fill);
        match self.commands.ready.back() {
            // It holds another operation: at once, before others about its key.
            Some(&last)
                if last == slot && matches!(self.commands.slots[slot as usize].state, State::Held(_)) =>
            {
                self.commands.ready.pop_back();
                self.go_on(slot, fill)
            }
            _ => true,
        }
    }

    /// Asks for a flush; returns whether the client had space.
    fn flush(&mut self, slot: Slot, at_s: u32, fill: &mut Fill<'_>) -> bool {
        let delay_s = at_s.saturating_sub(self.commands.terms.now_s);
        match self.backend.flush(delay_s, u64::from(slot)) {
            Ok(()) => {
                self.commands.slots[slot as usize].state = State::Flushing;
                self.submitted = true;
            }
            Err(SubmitError::WindowFull) => return false,
            Err(_) => self.commands.act(slot, Next::Close, fill),
        }
        true
    }

    /// Begins the errand in a new slot, or leaves it until its turn.
    fn start(&mut self, slot: Slot) {
        if !self.commands.ready.is_empty() {
            return self.commands.ready.push_back(slot);
        }
        let (mut staged, mut bytes) = (
            std::mem::take(&mut self.staged),
            std::mem::take(&mut self.staged_bytes),
        );
        let accepted = self.go_on(slot, &mut |pending, answer| {
            stage(&mut staged, &mut bytes, pending, answer)
        });
        (self.staged, self.staged_bytes) = (staged, bytes);
        if !accepted {
            self.commands.ready.push_back(slot);
        }
    }
}

fn stage(
    staged: &mut Vec<(PendingReply, Option<usize>)>,
    bytes: &mut Vec<u8>,
    pending: PendingReply,
    answer: Answer<'_>,
) {
    match answer {
        Answer::Reply(reply) => {
            bytes.extend_from_slice(reply);
            staged.push((pending, Some(bytes.len())));
        }
        Answer::Close => staged.push((pending, None)),
    }
}

impl CoreRouter for Errands {
    fn core_count(&self) -> usize {
        self.core_count
    }

    fn own(&self) -> usize {
        self.own
    }

    /// No worker of the gateway: the system.
    fn core_of(&self, _: KeyHash) -> usize {
        self.core_count - 1
    }

    /// Keys of a fetch are errands of their own.
    fn has_space(&mut self, _: usize, _: usize) -> bool {
        false
    }

    fn send(&mut self, core: usize, pending: PendingReply, pieces: &[&[u8]]) -> Result<(), RouteFull> {
        if core != self.core_count - 1 {
            stage(
                &mut self.staged,
                &mut self.staged_bytes,
                pending,
                Answer::Reply(b""),
            );
            return Ok(());
        }
        let slot = self.commands.free.pop().ok_or(RouteFull)?;
        if self.commands.slots[slot as usize].take(pending, pieces) {
            self.start(slot);
        } else {
            self.commands.free.push(slot);
            stage(
                &mut self.staged,
                &mut self.staged_bytes,
                pending,
                Answer::Reply(MALFORMED),
            );
        }
        Ok(())
    }
}

/// All commands of a worker, without the client that executes their operations.
struct Commands {
    slots: Vec<Errand>,
    free: Vec<Slot>,
    /// Those that block their keys.
    blocking: Vec<Slot>,
    /// Those that can go on as soon as the client accepts their operations, in order.
    ready: VecDeque<Slot>,
    /// Those that have lost their condition, and the time when they read anew, once it is chosen. Without a wait, one of two
    /// workers whose operations reach a server in step would lose for ever.
    resting: Vec<(Slot, Option<Ns>)>,
    patience: Ns,
    rng: Rng,
    terms: Terms,
    reply: Reply,
    value: Vec<u8>,
    counters: Counters,
}

/// What an errand does next, without its operation.
enum Next {
    Hold(Step),
    HoldThenReply(Step),
    Reply,
    Again,
    Close,
}

impl Commands {
    /// Whether a new errand may begin; if not, it waits for the one that blocks its key, or flushes for its connection.
    fn admit(&mut self, slot: Slot) -> bool {
        let own = &self.slots[slot as usize];
        let connection = |errand: &Errand| errand.pending.map(|pending| pending.connection);
        let blocks = |other: &Errand| match other.flush_at_s() {
            None => other.hash == own.hash && own.flush_at_s().is_none(),
            Some(_) => connection(other) == connection(own),
        };
        let blocker = self
            .blocking
            .iter()
            .copied()
            .find(|&other| blocks(&self.slots[other as usize]));
        let Some(blocker) = blocker else {
            if own.blocks {
                self.blocking.push(slot);
            }
            return true;
        };
        let errand = &mut self.slots[slot as usize];
        (errand.state, errand.next_waiting) = (State::Waiting, NONE);
        let last = std::mem::replace(&mut self.slots[blocker as usize].last_waiting, slot);
        match last {
            NONE => self.slots[blocker as usize].first_waiting = slot,
            last => self.slots[last as usize].next_waiting = slot,
        }
        false
    }

    fn begin(&mut self, slot: Slot, fill: &mut Fill<'_>) {
        let next = self.decide(slot, None);
        self.act(slot, next, fill);
    }

    /// An operation has ended. `late`: others about its key may have been submitted since it was.
    fn completed(&mut self, slot: Slot, outcome: &Outcome<'_>, late: bool, fill: &mut Fill<'_>) {
        let state = self.slots[slot as usize].state;
        if state == State::Flushing {
            self.reply.bytes.clear();
            let next = match outcome {
                Outcome::Deleted => Next::Reply,
                _ => Next::Close,
            };
            return self.act(slot, next, fill);
        }
        let State::Asked(step) = state else {
            debug_assert!(false, "a completion without an operation");
            return;
        };
        let next = match self.decide(slot, Some((step, outcome))) {
            Next::HoldThenReply(Step::Drop) if late && !self.is_last_about_its_key(slot) => Next::Reply,
            next => next,
        };
        let holds = matches!(next, Next::Hold(_) | Next::HoldThenReply(_));
        self.act(slot, next, fill);
        if holds {
            self.ready.push_back(slot);
        }
    }

    /// Whether no other errand that has begun is about the key of this one.
    fn is_last_about_its_key(&self, slot: Slot) -> bool {
        let own = &self.slots[slot as usize];
        let others = self
            .slots
            .iter()
            .enumerate()
            .filter(|&(other, _)| other != slot as usize);
        own.blocks
            || others
                .filter(|(_, other)| other.state != State::Free)
                .all(|(_, other)| other.hash != own.hash)
    }

    /// Decides what is next: at the beginning, or after an outcome. Keeps the operation.
    fn decide(&mut self, slot: Slot, ended: Option<(Step, &Outcome<'_>)>) -> Next {
        let errand = &mut self.slots[slot as usize];
        self.reply.bytes.clear();
        if let Some((Step::Drop, _)) = ended {
            errand.swap_reply(&mut self.reply.bytes);
        }
        let (what, key, memo, held) = errand.parts();
        let mut turn = Turn {
            terms: &self.terms,
            key,
            memo,
            reply: &mut self.reply,
            counters: &mut self.counters,
        };
        let action = match ended {
            None => turn.begin(&what),
            Some((step, outcome)) => turn.proceed(&what, step, outcome, &mut self.value),
        };
        match action {
            Action::Ask(step, ref op) => {
                held.replace(op);
                Next::Hold(step)
            }
            Action::AskThenReply(step, ref op) => {
                held.replace(op);
                Next::HoldThenReply(step)
            }
            Action::Reply => Next::Reply,
            Action::Again => Next::Again,
            Action::Close => Next::Close,
        }
    }

    fn act(&mut self, slot: Slot, next: Next, fill: &mut Fill<'_>) {
        match next {
            Next::Hold(step) => self.slots[slot as usize].state = State::Held(step),
            Next::HoldThenReply(step) => {
                let errand = &mut self.slots[slot as usize];
                errand.swap_reply(&mut self.reply.bytes);
                errand.state = State::Held(step);
            }
            Next::Reply => {
                self.answer(slot, fill);
                self.end(slot);
            }
            Next::Close => {
                if let Some(pending) = self.slots[slot as usize].pending.take() {
                    fill(pending, Answer::Close);
                }
                self.end(slot);
            }
            Next::Again => {
                self.slots[slot as usize].state = State::Resting;
                self.resting.push((slot, None));
            }
        }
    }

    /// A poll is over: those that have rested long enough read anew, and those that have lost for too long are given up.
    fn wake(&mut self, now: Ns, fill: &mut Fill<'_>) {
        let mut resting = std::mem::take(&mut self.resting);
        resting.retain_mut(|(slot, until)| {
            let errand = &mut self.slots[*slot as usize];
            let until = *until.get_or_insert_with(|| {
                let longest = REST.0 << errand.losses.min(REST_DOUBLINGS);
                errand.losses = errand.losses.saturating_add(1);
                now + Ns(self.rng.below(longest))
            });
            if now > *errand.give_up_at.get_or_insert(now + self.patience) {
                self.give_up(*slot, fill);
                return false;
            }
            if until <= now {
                self.ready.push_back(*slot);
            }
            until > now
        });
        self.resting = resting;
    }

    /// Ends a command that has lost its condition each time.
    fn give_up(&mut self, slot: Slot, fill: &mut Fill<'_>) {
        self.reply.bytes.clear();
        if !is_silent(&self.slots[slot as usize].command()) {
            self.reply.bytes.extend_from_slice(BUSY);
        }
        self.answer(slot, fill);
        self.end(slot);
    }

    fn answer(&mut self, slot: Slot, fill: &mut Fill<'_>) {
        if let Some(pending) = self.slots[slot as usize].pending.take() {
            fill(pending, Answer::Reply(&self.reply.bytes));
        }
        if self.reply.bytes.capacity() > KEPT_BYTES {
            self.reply.bytes = Vec::new();
        }
    }

    /// Frees the slot, and lets those go on that waited for it.
    fn end(&mut self, slot: Slot) {
        let errand = &mut self.slots[slot as usize];
        errand.release();
        self.free.push(slot);
        if !std::mem::take(&mut errand.blocks) {
            return;
        }
        self.blocking.retain(|&other| other != slot);
        // In order, and before all that is ready: what is there about the same key came later.
        let mut waiting = self.slots[slot as usize].take_waiting();
        let mut place = 0;
        while waiting != NONE {
            let errand = &mut self.slots[waiting as usize];
            errand.state = State::New;
            let next = std::mem::replace(&mut errand.next_waiting, NONE);
            self.ready.insert(place, waiting);
            (place, waiting) = (place + 1, next);
        }
    }
}
