//! [`RfpClient`]: every operation is a call, whose result is fetched or pushed.
//!
//! [`drover_one_sided::Client`] keeps the operations: their order, deadlines, sessions and long values.
//! [`FetchClient`](drover_rpc::fetch::FetchClient) makes the calls. This module joins the two: an operation's place is
//! the place of its call.

mod in_place;
mod session;

pub use drover_control::Dial;

use crate::layout::{Reply, Status, item_bytes, value_sum};
use drover_base::Ns;
use drover_kv::{OpKind, Outcome, Reads, Refusal};
use drover_one_sided::{Reader as _, Sink};
use drover_rpc::CallError;
use drover_rpc::fetch::{CallerStats, Guards};
use drover_rt::WHICH;
use drover_verbs::{Provider, Wc};
use in_place::InPlaceValue;
use session::Session;
use std::marker::PhantomData;

/// A client of all shards of a service, for one thread.
pub type RfpClient<P, G> = drover_one_sided::Client<P, Reader<G>>;

/// Options of an [`RfpClient`].
pub type ClientOptions = drover_one_sided::ClientOptions<()>;

/// The operations and links of a client.
type Operations<P, G> = drover_one_sided::Operations<P, Reader<G>>;

/// Counters of a client since its creation, all shards together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClientStats {
    /// GETs that returned a value.
    pub hits: u64,
    /// GETs that ended as "not found".
    pub misses: u64,
    /// Values that the server wrote to the client's memory, and that were not complete when its result was; the client asked again.
    pub torn_values: u64,
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
    guards: PhantomData<G>,
}

impl<G: Guards> Reader<G> {
    fn ended<P: Provider>(
        &mut self,
        ops: &mut Operations<P, G>,
        at: usize,
        result: Result<usize, CallError>,
        sink: Sink<'_>,
    ) {
        let bytes = std::mem::take(&mut self.result);
        match result.ok().and_then(|_| Reply::decode(&bytes)) {
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
        match (reply.status, reply.status.outcome(kind)) {
            (Status::Value, None) => {
                self.stats.hits += 1;
                ops.finish(at, Outcome::Value(rest), sink);
            }
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
            ops.finish(at, Outcome::Value(&value), sink);
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
    tracing::debug!(
        ?result,
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
    type Miss = ();
    type Stats = ClientStats;

    fn operations_for(depth: usize) -> usize {
        session::operations_for::<P, G>(depth)
    }

    fn item_bytes(key_bytes: usize, value_bytes: usize) -> usize {
        item_bytes(key_bytes, value_bytes)
    }

    fn new(_: usize, (): ()) -> Reader<G> {
        Reader {
            result: Vec::new(),
            value: Vec::new(),
            next_timer: Ns::MAX,
            stats: ClientStats::default(),
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
    fn sent(&mut self, _: &mut Operations<P, G>, _: usize, _: u64) {}

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
        let ended = session.completed(wr_id, now, &mut self.result);
        if session::is_request(wr_id) {
            ops.carried((wr_id & WHICH) as usize);
        }
        if let Some((at, result)) = ended {
            self.ended(ops, at, result, sink);
        }
    }

    fn take_replies(&mut self, ops: &mut Operations<P, G>, sink: Sink<'_>) {
        let now = ops.now();
        self.next_timer = Ns::MAX;
        for shard in 0..ops.shard_count() {
            let mut from = 0;
            while let Some(session) = ops.session_with(shard) {
                let Some((at, result)) = session.poll(&mut from, now, &mut self.result) else {
                    self.next_timer = self.next_timer.min(session.next_timer());
                    break;
                };
                self.ended(ops, at, result, sink);
            }
        }
    }

    fn next_timer(&self) -> Ns {
        self.next_timer
    }

    fn control_polled(&mut self, session: &mut Session<P, G>) {
        self.stats.calls.add(&session.take_stats());
    }
}
