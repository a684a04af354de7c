//! [`RfpClient`]: every operation is a call, whose result is fetched or pushed.
//!
//! [`drover_one_sided::Client`] keeps the operations: their order, deadlines, sessions and long values.
//! [`FetchClient`](drover_rpc::fetch::FetchClient) makes the calls. This module joins the two: an operation's place is
//! the place of its call.

mod in_place;
mod session;

pub use drover_control::Dial;

use crate::costs::{AGAIN, FETCHED, POLL, PUSHED, SENT, SHARD, SUBMIT};
use crate::layout::{REPLY_HEADER_BYTES, Reply, Status, item_bytes, value_sum};
use drover_base::{Cpu, Ns};
use drover_kv::{Calls, ConnectOptions, FetchChoice, FetchObjective, InUse, OpKind, Outcome, Reads, Refusal};
use drover_one_sided::{Reader as _, Sink};
use drover_rpc::CallError;
use drover_rpc::fetch::{CallerOptions, CallerStats, Choice, Guards, Measured, Objective, Selector};
use drover_rt::WHICH;
use drover_verbs::{Provider, Wc};
use in_place::InPlaceValue;
use session::Session;
use std::marker::PhantomData;

/// A client of all shards of a service, for one thread.
pub type RfpClient<P, G> = drover_one_sided::Client<P, Reader<G>>;

/// Options of an [`RfpClient`].
pub type ClientOptions = drover_one_sided::ClientOptions<FetchPolicy>;

/// The operations and links of a client.
type Operations<P, G> = drover_one_sided::Operations<P, Reader<G>>;

/// Maximum number of pushed results per shard and poll. A client that takes all of a window of 16 leaves its server without
/// requests meanwhile, and waits for the next 16 results itself: 8 at a time are 7 % faster over shared memory.
const PUSHED_AT_ONCE: usize = 8;

/// How results are READ.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FetchPolicy {
    /// R and F; then nothing is measured or chosen.
    pub prescribed: Option<FetchChoice>,
    /// What F is chosen by, otherwise.
    pub objective: FetchObjective,
}

/// Counters of a client since its creation, all shards together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClientStats {
    /// GETs that returned a value.
    pub hits: u64,
    /// GETs that ended as "not found".
    pub misses: u64,
    /// Values that the server wrote to the client's memory, and that were not complete when its result was; the client asked again.
    pub torn_values: u64,
    /// Results that said that the shard does not own the key.
    pub elsewhere: u64,
    /// Times that the client has measured what verbs take: not if another one of this process has, over the same device.
    pub measurements: u64,
    /// R, P and F that are in use.
    pub in_use: InUse,
    /// What the calls took, as of the last look at the control channels. The last calls of a session that was lost are
    /// not counted.
    pub calls: CallerStats,
}

/// The systems' part of a client: begins calls and handles results.
pub struct Reader<G> {
    /// The result of a call that has ended.
    result: Vec<u8>,
    /// A value that the server wrote to the client's memory.
    value: Vec<u8>,
    /// When a call must be looked at though nothing has arrived.
    next_timer: Ns,
    stats: ClientStats,
    policy: FetchPolicy,
    /// What verbs take on the fabric, measured with the first shard's session.
    measured: Option<Measured>,
    /// Whether calls take turns with their READs.
    takes_turns: bool,
    /// Chooses R and F of GETs from the sizes of their results; once verbs are measured.
    selector: Option<Selector>,
    now: Ns,
    guards: PhantomData<G>,
}

impl<G: Guards> Reader<G> {
    /// Goes on with the measurement that R, P and F follow from.
    #[cold]
    fn measure<P: Provider>(&mut self, ops: &mut Operations<P, G>) {
        let Some(session) = ops.session_with(0) else {
            return;
        };
        if !session.fetches() {
            self.measured = Some(Measured::default());
            return;
        }
        let Some((measured, is_own)) = session.measure() else {
            return;
        };
        self.stats.measurements += u64::from(is_own);
        let (switch, usual) = (measured.switch(), CallerOptions::default());
        let first = Choice {
            slow_reads: switch.slow_reads,
            first_bytes: usual.first_bytes,
        };
        let curves = measured.curves(first, session.result_bytes());
        self.selector = Some(Selector::new(self.objective(), curves));
        self.takes_turns = measured.has_short_reads();
        self.measured = Some(measured);
        self.stats.in_use = InUse {
            first_bytes: first.first_bytes as u64,
            slow_reads: u64::from(switch.slow_reads),
            push_time_ns: switch.push_time.0,
        };
        tracing::debug!(
            first_bytes = first.first_bytes,
            slow_reads = switch.slow_reads,
            push_time = %switch.push_time,
            "measured what verbs take"
        );
    }

    fn objective(&self) -> Objective {
        match self.policy.objective {
            FetchObjective::Exact => Objective::Exact,
            FetchObjective::Paper => Objective::Paper,
        }
    }

    fn ended<P: Provider>(
        &mut self,
        ops: &mut Operations<P, G>,
        at: usize,
        result: Result<usize, CallError>,
        sink: Sink<'_>,
    ) {
        let bytes = std::mem::take(&mut self.result);
        match result.ok().and_then(|len| Reply::decode(&bytes[..len])) {
            Some((reply, rest)) => self.take_reply(ops, at, reply, rest, sink),
            None => malformed(ops, at, &result),
        }
        self.result = bytes;
    }

    #[inline]
    fn take_reply<P: Provider>(
        &mut self,
        ops: &mut Operations<P, G>,
        at: usize,
        reply: Reply,
        rest: &[u8],
        sink: Sink<'_>,
    ) {
        let kind = ops.kind(at);
        if (reply.status, kind) == (Status::Value, OpKind::Get) {
            self.stats.hits += 1;
            if let Some(selector) = &mut self.selector {
                selector.observe(REPLY_HEADER_BYTES + rest.len());
            }
            return ops.finish_answered(at, rest, sink);
        }
        match (reply.status, reply.status.outcome(kind)) {
            (Status::Elsewhere, _) => self.go_elsewhere(ops, at, rest, sink),
            (status, Some(outcome)) => {
                self.stats.misses += u64::from(status == Status::NotFound && kind == OpKind::Get);
                ops.finish(at, outcome, sink);
            }
            (Status::InPlace, None) => self.take_in_place(ops, at, reply.value_bytes, rest),
            (Status::Written, None) => self.take_written(ops, at, reply.value_bytes, rest, sink),
            (Status::Long, None) => self.ask(ops, at, true),
            _ => ops.finish(at, Outcome::Refused(Refusal::BadRequest), sink),
        }
    }

    /// The server says that another shard owns the key.
    #[cold]
    fn go_elsewhere<P: Provider>(
        &mut self,
        ops: &mut Operations<P, G>,
        at: usize,
        epoch: &[u8],
        sink: Sink<'_>,
    ) {
        tracing::debug!(
            operation = at,
            epoch = epoch.try_into().map_or(0, u64::from_le_bytes),
            "another shard owns the key, by the server's map of this epoch"
        );
        self.stats.elsewhere += 1;
        ops.redirect(at, sink);
    }

    /// The server says that it has written the value to the client's memory.
    fn take_written<P: Provider>(
        &mut self,
        ops: &mut Operations<P, G>,
        at: usize,
        value_bytes: usize,
        sum: &[u8],
        sink: Sink<'_>,
    ) {
        let Some(get) = ops.view(at) else { return };
        let values = &get.session.resources.values;
        let (Some(large), true) = (get.large(), value_bytes <= values.bytes()) else {
            return malformed(ops, at, &Err(CallError::Corrupt));
        };
        let mut value = std::mem::take(&mut self.value);
        value.resize(value_bytes, 0);
        values.copy_out(large, &mut value);
        if G::SUM && value_sum(&value) != sum {
            // The result was fetched before the value had arrived: nothing orders a WRITE and a READ in opposite
            // directions.
            self.stats.torn_values += 1;
            self.ask(ops, at, true);
        } else {
            self.stats.hits += 1;
            ops.finish_answered(at, &value, sink);
        }
        self.value = value;
    }
}

/// Ends a session whose server does not keep to the protocol.
#[cold]
fn malformed<P: Provider, G: Guards>(
    ops: &mut Operations<P, G>,
    at: usize,
    result: &Result<usize, CallError>,
) {
    let Some(session) = ops.session(at) else { return };
    let agreed = &mut session.resources.agreed;
    let result = std::fmt::from_fn(|f| match result {
        Ok(bytes) => write!(f, "{bytes} bytes"),
        Err(error) => write!(f, "{error}"),
    });
    tracing::debug!(
        %result,
        session = agreed.id,
        operation = at,
        "the server sent a malformed result"
    );
    agreed.broken = true;
}

impl<P: Provider, G: Guards> drover_one_sided::Reader<P> for Reader<G> {
    type Session = Session<P, G>;
    type Wait = ();
    type GetState = InPlaceValue;
    type Miss = FetchPolicy;
    type Stats = ClientStats;

    fn policy(options: &ConnectOptions) -> FetchPolicy {
        FetchPolicy {
            prescribed: options.fetch,
            objective: options.objective,
        }
    }

    fn operations_for(depth: usize) -> usize {
        session::operations_for::<P, G>(depth)
    }

    fn item_bytes(key_bytes: usize, value_bytes: usize) -> usize {
        item_bytes(key_bytes, value_bytes)
    }

    fn new(_: usize, policy: FetchPolicy) -> Reader<G> {
        let takes_turns = policy.prescribed.is_some_and(|choice| choice.takes_turns);
        Reader {
            takes_turns,
            result: Vec::new(),
            value: Vec::new(),
            next_timer: Ns::MAX,
            stats: ClientStats::default(),
            policy,
            measured: None,
            selector: None,
            now: Ns::ZERO,
            guards: PhantomData,
        }
    }

    fn stats(&self) -> ClientStats {
        self.stats
    }

    fn reads(stats: &ClientStats) -> Reads {
        Reads {
            hits: stats.hits,
            misses: stats.misses,
            probes: stats.calls.first_reads,
            records: stats.calls.second_reads,
            asked: stats.hits + stats.misses,
            torn: stats.torn_values,
        }
    }

    fn calls<'a>(&self, sessions: impl Iterator<Item = &'a Session<P, G>>) -> Option<Calls>
    where
        P: 'a,
        G: 'a,
    {
        let mut calls = session::counted(&self.stats.calls);
        sessions.for_each(|session| calls.add(&session::counted(session.stats())));
        (calls.in_use, calls.elsewhere) = (self.stats.in_use, self.stats.elsewhere);
        Some(calls)
    }

    #[inline]
    fn begin(&mut self, ops: &mut Operations<P, G>, at: usize) {
        self.ask(ops, at, false);
    }

    fn again(&mut self, _: &mut Operations<P, G>, at: usize) {
        unreachable!("operation {at} READs nothing of its own");
    }

    fn read_long(&mut self, ops: &mut Operations<P, G>, at: usize, (): ()) {
        self.read_in_place(ops, at);
    }

    #[inline]
    fn sent(&mut self, ops: &mut Operations<P, G>, _: usize, _: u64) {
        ops.cpu().charge(SUBMIT.cost, 1);
        if self.takes_turns {
            // The call may be the next to READ, and nothing else would wake the client.
            self.next_timer = Ns::ZERO;
        }
    }

    #[inline]
    fn completed(&mut self, ops: &mut Operations<P, G>, shard: usize, wc: &Wc, sink: Sink<'_>) {
        let now = ops.now();
        let wr_id = wc.wr_id.0;
        if in_place::is_read(wr_id) {
            return self.completed_in_place(ops, (wr_id & WHICH) as usize, sink);
        }
        let session = ops
            .session_with(shard)
            .expect("the session whose queue pair was polled");
        let is_read = session.is_read(wr_id);
        let ended = session.completed(wr_id, now, &mut self.result);
        let work = match (session::is_request(wr_id), &ended) {
            (true, _) => SENT,
            (false, None) => AGAIN,
            (false, Some(_)) => FETCHED,
        };
        ops.cpu().charge(work.cost, 1);
        let at = (wr_id & WHICH) as usize;
        // A READ completes for its request, too, which may be unsignaled.
        if session::is_request(wr_id) || (is_read && ops.is_sending(at)) {
            ops.carried(at);
        }
        if let Some((at, result)) = ended {
            self.ended(ops, at, result, sink);
        }
    }

    fn take_replies(&mut self, ops: &mut Operations<P, G>, sink: Sink<'_>) {
        let now = ops.now();
        ops.cpu().charge(POLL.cost, 1);
        ops.cpu().charge(SHARD.cost, ops.shard_count() as u32);
        (self.next_timer, self.now) = (Ns::MAX, now);
        if self.measured.is_none() && self.policy.prescribed.is_none() {
            self.measure(ops);
        }
        for shard in 0..ops.shard_count() {
            let (mut from, mut left) = (0, PUSHED_AT_ONCE);
            while let Some(session) = ops.session_with(shard) {
                if left == 0 {
                    self.next_timer = now;
                    break;
                }
                let Some((at, result)) = session.poll(&mut from, now, &mut self.result) else {
                    self.next_timer = self.next_timer.min(session.next_timer());
                    break;
                };
                ops.cpu().charge(PUSHED.cost, 1);
                self.ended(ops, at, result, sink);
                left -= 1;
            }
        }
    }

    fn next_timer(&self) -> Ns {
        self.next_timer
    }

    fn control_polled(&mut self, session: &mut Session<P, G>) {
        self.stats.calls.add(&session.take_stats());
        if let Some(choice) = self.policy.prescribed {
            return session.prescribe(choice);
        }
        let Some(selector) = &mut self.selector else {
            return;
        };
        selector.choose(self.now);
        let choice = selector.current();
        if let Some(measured) = &self.measured {
            session.use_measured(measured);
        }
        session.set_choice(choice);
        self.stats.in_use.first_bytes = choice.first_bytes as u64;
    }
}
