//! [`FarmClient`]: GETs by READs, updates by records in a ring.
//!
//! [`drover_one_sided::Client`] does what all one-sided clients have in common. This module does the rest: [`Lookup`]
//! decides which READ is next, and `reads.rs` issues it; `session.rs` and `messages.rs` send requests and receive
//! replies.

mod messages;
mod reads;
mod session;

pub use drover_control::Dial;

use crate::logic::{Lookup, Miss};
use drover_base::Ns;
use drover_index::hopscotch::{Object, item_bytes};
use drover_kv::{OpKind, Reads};
use drover_one_sided::Sink;
use drover_rpc::ring::SENT;
use drover_rt::WHICH;
use drover_verbs::{Provider, Wc};
use session::{MOVES, OBJECT, SLOTS, Session};

/// A client of all shards of a FaRM-KV service, for one thread.
pub type FarmClient<P> = drover_one_sided::Client<P, Reader>;

/// Options of a [`FarmClient`].
pub type ClientOptions = drover_one_sided::ClientOptions<Miss>;

/// One operation whose session works.
type View<'a, P> = drover_one_sided::OperationView<'a, P, Reader>;

/// The operations and links of a client.
type Operations<P> = drover_one_sided::Operations<P, Reader>;

/// Counters of a client since its creation, all shards together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClientStats {
    /// GETs that returned a value, whether by READs or from the server.
    pub hits: u64,
    /// GETs that ended as "not found".
    pub misses: u64,
    /// READs of neighbourhoods of the table.
    pub neighbourhood_reads: u64,
    /// READs of overflow blocks.
    pub overflow_reads: u64,
    /// READs of objects.
    pub object_reads: u64,
    /// READs of the table's count of moves.
    pub moves_reads: u64,
    /// Number of times that a GET began its READs again after a pause: because of a torn slot or object, a stale
    /// pointer, a READ that took too long, or a count of moves that was odd or changed. Without the times that a GET
    /// then asked the server instead.
    pub retries: u64,
    /// GETs that ended as "not found" after their READs found no key, or an item that seemed expired: confirmed by the
    /// server or by the count of moves, or trusted. Without those whose READs were torn too often.
    pub confirmed_misses: u64,
    /// GETs whose READs found no key, or an item that seemed expired, although the server had a value: the key moved
    /// during the READs, was inserted just then, or had not expired yet by the server's clock.
    pub false_misses: u64,
    /// GET messages sent: to confirm misses and expiries, and after too many torn or late READs. A GET may send
    /// several.
    pub asked: u64,
    /// Request records WRITTEN into rings, without fillers.
    pub messages: u64,
}

impl ClientStats {
    /// Number of READs of all kinds: neighbourhoods, overflow blocks, objects and the count of moves.
    pub fn reads(&self) -> u64 {
        self.neighbourhood_reads + self.overflow_reads + self.object_reads + self.moves_reads
    }
}

/// The READ that an operation waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// A READ of slots: the neighbourhood or an overflow block.
    Slots,
    /// A READ of the count of moves.
    Moves,
    /// A READ of an object.
    Object,
}

/// State of one operation: for a GET its lookup and the start of its READ; the end of its request in the ring.
#[derive(Default)]
pub struct GetState {
    lookup: Option<Lookup>,
    /// When its READ was staged.
    read_at: Ns,
    /// The ring's tail after the operation's record.
    tail: u64,
}

impl GetState {
    fn lookup(&mut self) -> &mut Lookup {
        self.lookup.as_mut().expect("a GET that has begun")
    }
}

/// FaRM-KV's part of a client: decides what to READ and handles replies.
pub struct Reader {
    /// Places that wait for a reply.
    asked: Vec<u32>,
    miss: Miss,
    scratch: Vec<u8>,
    object: Object,
    stats: ClientStats,
}

impl<P: Provider> drover_one_sided::Reader<P> for Reader {
    type Session = Session<P>;
    type Wait = Wait;
    type GetState = GetState;
    type Miss = Miss;
    type Stats = ClientStats;

    fn operations_for(depth: usize) -> usize {
        session::operations_for(depth)
    }

    fn item_bytes(key_bytes: usize, value_bytes: usize) -> usize {
        item_bytes(key_bytes, value_bytes)
    }

    fn new(places: usize, miss: Miss) -> Reader {
        Reader {
            asked: Vec::with_capacity(places),
            miss,
            scratch: Vec::new(),
            object: Object::default(),
            stats: ClientStats::default(),
        }
    }

    fn stats(&self) -> ClientStats {
        self.stats
    }

    fn reads(stats: &ClientStats) -> Reads {
        Reads {
            hits: stats.hits,
            misses: stats.misses,
            probes: stats.neighbourhood_reads + stats.overflow_reads,
            records: stats.object_reads,
            asked: stats.asked,
            torn: stats.retries,
        }
    }

    #[inline]
    fn begin(&mut self, ops: &mut Operations<P>, at: usize) {
        let now = ops.now();
        if let Some(get) = ops.view(at) {
            get.own.lookup = Some(Lookup::new(get.hash, self.miss));
            self.look_up(get, now);
        }
    }

    fn again(&mut self, ops: &mut Operations<P>, at: usize) {
        let now = ops.now();
        if let Some(get) = ops.view(at) {
            self.look_up(get, now);
        }
    }

    fn read_long(&mut self, ops: &mut Operations<P>, at: usize, _: Wait) {
        self.read_object_now(ops, at);
    }

    fn sent(&mut self, ops: &mut Operations<P>, at: usize, sent: u64) {
        ops.own(at).tail = sent;
        self.asked.push(at as u32);
        self.stats.messages += 1;
        self.stats.asked += u64::from(ops.kind(at) == OpKind::Get);
    }

    #[inline]
    fn completed(&mut self, ops: &mut Operations<P>, _: usize, wc: &Wc, sink: Sink<'_>) {
        let at = (wc.wr_id.0 & WHICH) as usize;
        match wc.wr_id.0 & !WHICH {
            SENT => self.carried(ops, at),
            MOVES => self.moves_came(ops, at, sink),
            OBJECT => self.object_came(ops, at, sink),
            SLOTS => self.slots_came(ops, at, sink),
            other => panic!("a completion of nothing that was posted: {other:#x}, slot {at}"),
        }
    }

    fn polled(&mut self, ops: &mut Operations<P>, shard: usize) {
        if let Some(session) = ops.session_with(shard)
            && session.is_blocked
            && session.read_notice()
        {
            session.is_blocked = false;
            ops.retry_all();
        }
    }

    fn take_replies(&mut self, ops: &mut Operations<P>, sink: Sink<'_>) {
        self.look_for_replies(ops, sink);
    }

    fn lost(&mut self, ops: &mut Operations<P>) {
        // Operations of an ended session no longer wait for replies.
        self.asked.retain(|at| ops.awaited_reply(*at as usize).is_some());
    }
}
