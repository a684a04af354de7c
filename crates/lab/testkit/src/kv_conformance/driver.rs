//! Runs random operations of several clients against a bed and records the history.

use super::{Bed, BedOptions};
use crate::history::{Call, Event, History};
use crate::linear::Model;
use drover_base::Rng;
use drover_kv::{Completion, KvClient, Op, Outcome, Refusal, SubmitError};

/// Description of a run of a [`Driver`]: how many clients carry out how many random operations (half GETs, 40 % PUTs,
/// 10 % DELETEs).
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of clients.
    pub client_count: usize,
    /// Total number of operations that all clients submit, those that the system then refuses included.
    pub op_count: usize,
    /// Number of distinct keys, which all clients share; at least 1.
    pub key_count: u64,
    /// Maximum length of values in bytes. Values have at least 8 bytes, which hold their identity.
    pub value_bytes_max: usize,
    /// Whether to crash and restart the server once, when half of the operations have been submitted.
    pub crash: bool,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            client_count: 3,
            op_count: 1500,
            key_count: 12,
            value_bytes_max: 64,
            crash: false,
        }
    }
}

/// Maximum number of operations in flight per client. Checking a history with more overlap takes too long, above all
/// while a server is down.
const IN_FLIGHT_MAX: usize = 8;

struct Pending {
    key: u64,
    client: u32,
    call: Call,
    called_at: u64,
    done: bool,
}

/// A bed with clients that carry out a [`Plan`] and record the history.
pub struct Driver<B: Bed> {
    /// Bed of the system under test.
    pub bed: B,
    clients: Vec<B::Client>,
    rng: Rng,
    history: History,
    pending: Vec<Pending>,
    /// Number of PUTs and DELETEs so far whose result was `Indeterminate`: they may or may not have happened.
    pub indeterminate_count: usize,
    /// Number of operations so far that were refused because no server answered before the deadline.
    pub unavailable_count: usize,
    /// Number of PUTs so far that were refused because the memory or the table was full.
    pub full_count: usize,
}

impl<B: Bed> Driver<B> {
    /// Starts the bed and connects as many clients as `plan` has; the rest of `plan` is unused here.
    pub fn new(options: &BedOptions, plan: &Plan) -> Driver<B> {
        let mut bed = B::start(options);
        let clients = (0..plan.client_count).map(|_| bed.connect()).collect();
        Driver {
            bed,
            clients,
            rng: Rng::new(options.seed, 0, 0xd21e),
            history: History::default(),
            pending: Vec::new(),
            indeterminate_count: 0,
            unavailable_count: 0,
            full_count: 0,
        }
    }

    /// Runs `plan` with the clients of [`new`](Driver::new), until all operations are completed; returns the history.
    /// Refused operations are counted, but are not part of it. Operations of an earlier call count towards
    /// [`op_count`](Plan::op_count).
    ///
    /// # Panics
    /// If operations hang, complete twice or get a result that does not fit them, a GET returns damaged bytes, or the
    /// bed cannot crash its server.
    pub fn run(&mut self, plan: &Plan) -> &History {
        let mut idle_rounds = 0u32;
        let crash_at = plan.crash.then_some(plan.op_count / 2);
        let mut crashed = false;
        loop {
            let mut progress = 0;
            if self.pending.len() < plan.op_count {
                progress += self.submit_some(plan);
            }
            progress += self.poll_all();
            self.bed.step();
            if !crashed && crash_at.is_some_and(|at| self.pending.len() >= at) {
                crashed = true;
                assert!(self.bed.crash_and_restart(), "this bed cannot restart its server");
            }
            let in_flight: usize = self.clients.iter().map(KvClient::in_flight).sum();
            if in_flight == 0 && self.pending.len() >= plan.op_count {
                break;
            }
            idle_rounds = if progress > 0 { 0 } else { idle_rounds + 1 };
            assert!(idle_rounds < 20_000_000, "{in_flight} operations hang");
        }
        let lost = self.pending.iter().filter(|p| !p.done).count();
        assert_eq!(lost, 0, "operations that were taken but never completed");
        &self.history
    }

    /// Checks that the history is linearizable.
    ///
    /// # Panics
    /// If it is not, or too many operations overlap for the check.
    pub fn assert_linearizable(&self, model: Model) {
        if let Err(why) = self.history.check(model) {
            panic!("{why}");
        }
    }

    fn submit_some(&mut self, plan: &Plan) -> usize {
        let mut submitted = 0;
        for client_index in 0..self.clients.len() {
            for _ in 0..self.rng.below(4) {
                if self.pending.len() >= plan.op_count {
                    return submitted;
                }
                if self.clients[client_index].in_flight() >= IN_FLIGHT_MAX {
                    break;
                }
                let key = self.rng.below(plan.key_count);
                let token = self.pending.len() as u64;
                let (text, value);
                let kind = self.rng.below(10);
                text = key_text(key);
                let (op, call) = match kind {
                    0..=4 => (Op::Get { key: text.as_bytes() }, Call::Get(None)),
                    5..=8 => {
                        let span = plan.value_bytes_max.max(8) - 7;
                        value = value_bytes(token, 8 + self.rng.below(span as u64) as usize);
                        (Op::put(text.as_bytes(), &value), Call::Put(token))
                    }
                    _ => (Op::delete(text.as_bytes()), Call::Delete(None)),
                };
                let called_at = self.bed.now();
                match self.clients[client_index].submit(self.bed.cpu(), &op, token) {
                    Ok(()) => {
                        let client = client_index as u32;
                        self.pending.push(Pending {
                            key,
                            client,
                            call,
                            called_at,
                            done: false,
                        });
                        submitted += 1;
                    }
                    Err(SubmitError::WindowFull) => break,
                    Err(error) => panic!("{op:?}: {error}"),
                }
            }
        }
        submitted
    }

    fn poll_all(&mut self) -> usize {
        let mut finished = 0;
        for client in &mut self.clients {
            let (pending, history) = (&mut self.pending, &mut self.history);
            let (bed, counts) = (
                &self.bed,
                (
                    &mut self.indeterminate_count,
                    &mut self.unavailable_count,
                    &mut self.full_count,
                ),
            );
            finished += client.poll(bed.cpu(), &mut |completion: Completion<'_>| {
                let op = &mut pending[completion.token as usize];
                assert!(!op.done, "operation {} completed twice", completion.token);
                op.done = true;
                let mut returned_at = Some(bed.now());
                let call = match (op.call, completion.outcome) {
                    (Call::Get(_), Outcome::Value(bytes)) => Call::Get(Some(value_id(bytes))),
                    (Call::Get(_), Outcome::NotFound) => Call::Get(None),
                    (Call::Put(id), Outcome::Stored) => Call::Put(id),
                    (Call::Delete(_), Outcome::Deleted) => Call::Delete(Some(true)),
                    (Call::Delete(_), Outcome::NotFound) => Call::Delete(Some(false)),
                    (call @ (Call::Put(_) | Call::Delete(_)), Outcome::Indeterminate) => {
                        *counts.0 += 1;
                        returned_at = None;
                        call
                    }
                    // An update, too: what is refused did not happen.
                    (_, Outcome::Refused(Refusal::Unavailable)) => {
                        *counts.1 += 1;
                        return;
                    }
                    (Call::Put(_), Outcome::Refused(Refusal::Full | Refusal::TableFull)) => {
                        *counts.2 += 1;
                        return;
                    }
                    (call, outcome) => panic!("{call:?} answered {outcome:?}"),
                };
                let event = Event {
                    client: op.client,
                    call,
                    called_at: op.called_at,
                    returned_at,
                };
                history.push(key_text(op.key).as_bytes(), event);
            });
        }
        finished
    }
}

fn key_text(key: u64) -> String {
    format!("key-{key:012}")
}

/// Returns a value of `len` bytes, but at least 8: `id` in 8 bytes, then bytes computed from `id` and their position,
/// so that [`value_id`] notices a mixture of two values.
pub fn value_bytes(id: u64, len: usize) -> Vec<u8> {
    let mut bytes = id.to_le_bytes().to_vec();
    bytes.extend((8..len).map(|i| (id as u8).wrapping_mul(167) ^ (i as u8)));
    bytes.truncate(len.max(8));
    bytes
}

/// Returns the identity of a value that [`value_bytes`] made.
///
/// # Panics
/// If the value is damaged: it is no result of [`value_bytes`], or has fewer than 8 bytes.
pub fn value_id(bytes: &[u8]) -> u64 {
    let id = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
    assert!(
        bytes == value_bytes(id, bytes.len()),
        "a value nobody wrote: {bytes:02x?}"
    );
    id
}
