//! [`PilafClient`]: GETs by READs, updates by messages.
//!
//! [`drover_one_sided::Client`] does what all one-sided clients have in common. This module does the rest: [`Lookup`]
//! decides which READ is next, and `reads.rs` issues it; `session.rs` and `replies.rs` send and receive messages;
//! `tables.rs` follows a table that grows.

mod reads;
mod replies;
mod session;
mod tables;

pub use drover_control::Dial;

use crate::layout::record_bytes;
use crate::logic::{Lookup, Miss};
use drover_kv::{OpKind, Reads};
use drover_one_sided::Sink;
use drover_rpc::messages::{RECV, SENT};
use drover_rt::WHICH;
use drover_verbs::{Provider, Wc};
use session::{ENTRY, PIECE, RECORD, Session};

/// A client of all shards of a Pilaf service, for one thread.
pub type PilafClient<P> = drover_one_sided::Client<P, Reader>;

/// Options of a [`PilafClient`].
pub type ClientOptions = drover_one_sided::ClientOptions<Miss>;

/// The operations and links of a client.
type Operations<P> = drover_one_sided::Operations<P, Reader>;

/// Counters of a client since its creation, all shards together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClientStats {
    /// GETs that returned a value, whether by READs or from the server.
    pub hits: u64,
    /// GETs that ended as "not found".
    pub misses: u64,
    /// READs of table entries.
    pub entry_reads: u64,
    /// READs of records.
    pub record_reads: u64,
    /// READs that returned an entry or record that was torn or replaced, and after which the GET began again. Without
    /// those after which it asked the server.
    pub torn: u64,
    /// GET messages sent: to confirm misses and expiries, and after too many torn READs. A GET may send several.
    pub asked: u64,
    /// GET messages that the server answered with a value: the key moved or was inserted during the READs, or these
    /// were torn too often. Without answers that only name the record of a long value.
    pub false_misses: u64,
    /// Number of times that a session switched to a larger table.
    pub tables: u64,
    /// Sessions that ended, for whatever reason.
    pub lost: u64,
}

/// The READ that an operation waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// A READ of a table entry.
    Entry,
    /// A READ of a record.
    Record {
        /// Whether the server named the record, so that it is certainly the key's.
        told: bool,
    },
}

/// State of one operation: for a GET, its lookup.
#[derive(Default)]
pub struct GetState(Option<Lookup>);

impl GetState {
    fn lookup(&mut self) -> &mut Lookup {
        self.0.as_mut().expect("a GET that has begun")
    }
}

/// Pilaf's part of a client: decides what to READ and handles replies.
pub struct Reader {
    miss: Miss,
    scratch: Vec<u8>,
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
        record_bytes(key_bytes, value_bytes)
    }

    fn new(_: usize, miss: Miss) -> Reader {
        Reader {
            miss,
            scratch: Vec::new(),
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
            probes: stats.entry_reads,
            records: stats.record_reads,
            asked: stats.asked,
            torn: stats.torn,
        }
    }

    fn begin(&mut self, ops: &mut Operations<P>, at: usize) {
        if let Some(get) = ops.view(at) {
            get.own.0 = Some(Lookup::new(get.hash, &get.session.shape, self.miss));
            self.look_up(ops, at);
        }
    }

    fn again(&mut self, ops: &mut Operations<P>, at: usize) {
        self.look_up(ops, at);
    }

    fn read_long(&mut self, ops: &mut Operations<P>, at: usize, wait: Wait) {
        self.read_record_now(ops, at, wait == Wait::Record { told: true });
    }

    fn sent(&mut self, ops: &mut Operations<P>, at: usize, _: u64) {
        self.stats.asked += u64::from(ops.kind(at) == OpKind::Get);
    }

    fn completed(&mut self, ops: &mut Operations<P>, shard: usize, wc: &Wc, sink: Sink<'_>) {
        let at = (wc.wr_id.0 & WHICH) as usize;
        let session = ops
            .session_with(shard)
            .expect("the session whose queue pair was polled");
        match wc.wr_id.0 & !WHICH {
            SENT => ops.carried(at),
            ENTRY => {
                session.read_came(true);
                self.entry_came(ops, at, sink);
            }
            PIECE => session.read_came(false),
            RECORD => {
                session.read_came(false);
                self.record_came(ops, at, sink);
            }
            RECV => {
                session.take_reply(at, wc.byte_len as usize, &mut self.scratch);
                self.reply_came(ops, shard, sink);
            }
            other => panic!("a completion of nothing that was posted: {other:#x}, slot {at}"),
        }
    }

    fn control_polled(&mut self, session: &mut Session<P>) {
        self.stats.tables += std::mem::take(&mut session.table_count);
    }

    fn lost(&mut self, _: &mut Operations<P>) {
        self.stats.lost += 1;
    }
}
