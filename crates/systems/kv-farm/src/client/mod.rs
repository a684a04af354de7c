//! [`FarmClient`]: GETs by READs, everything else by records in a ring.
//!
//! What all one-sided clients do, [`drover_one_sided::Client`] does. Of ours is what is read next: [`Lookup`] decides, `reads.rs`
//! does it; and how requests get to the server and replies back: `session.rs`, `messages.rs`.

mod mailbox;
mod messages;
mod reads;
mod session;

pub use drover_rt::control::Dial;
#[doc(hidden)]
pub use mailbox::fuzz_mailbox;

use crate::logic::{Lookup, Miss};
use drover_base::Ns;
use drover_index::hopscotch::{Object, item_bytes};
use drover_kv::Reads;
use drover_one_sided::{Sink, WHICH};
use drover_verbs::{Provider, Wc};
use session::{MOVES, OBJECT, SENT, SLOTS, Session};

/// A client of all shards of a service, for one thread.
pub type FarmClient<P> = drover_one_sided::Client<P, Reader>;

/// How a client wants to work.
pub type ClientOptions = drover_one_sided::ClientOptions<Miss>;

/// An operation whose session works.
type View<'a, P> = drover_one_sided::OperationView<'a, P, Reader>;

/// Operations and links.
type Operations<P> = drover_one_sided::Operations<P, Reader>;

/// What a client did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClientStats {
    /// GETs that found their value.
    pub hits: u64,
    /// READs of neighbourhoods.
    pub neighbourhood_reads: u64,
    /// READs of overflow blocks.
    pub overflow_reads: u64,
    /// READs of objects.
    pub object_reads: u64,
    /// READs of the count of moves.
    pub moves_reads: u64,
    /// Torn slots and objects, stale pointers, and what took too long: read once more, or asked for.
    pub retries: u64,
    /// Misses that the server, or the count of moves, confirmed.
    pub confirmed_misses: u64,
    /// Misses for which the server had a value: keys that moved, or came just then.
    pub false_misses: u64,
    /// Records WRITTEN.
    pub messages: u64,
}

impl ClientStats {
    /// READs of all kinds.
    pub fn reads(&self) -> u64 {
        self.neighbourhood_reads + self.overflow_reads + self.object_reads + self.moves_reads
    }
}

/// What an operation waits for by READ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Slots.
    Slots,
    /// The count of moves.
    Moves,
    /// An object.
    Object,
}

/// What is kept for an operation.
#[derive(Default)]
pub struct GetState {
    lookup: Option<Lookup>,
    /// When its READ was staged.
    read_at: Ns,
    /// The ring's tail behind its record.
    tail: u64,
}

impl GetState {
    fn lookup(&mut self) -> &mut Lookup {
        self.lookup.as_mut().expect("a GET that has begun")
    }
}

/// What is FaRM-KV's own in a client.
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
            probes: stats.neighbourhood_reads + stats.overflow_reads,
            records: stats.object_reads,
            asked: stats.confirmed_misses + stats.false_misses,
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
            && session.hear_notice()
        {
            session.is_blocked = false;
            ops.stir();
        }
    }

    fn take_replies(&mut self, ops: &mut Operations<P>, sink: Sink<'_>) {
        self.look_for_replies(ops, sink);
    }

    fn lost(&mut self, ops: &mut Operations<P>) {
        // Nobody waits for a reply of a session that is over.
        self.asked.retain(|at| ops.awaited_reply(*at as usize).is_some());
    }
}
