//! [`PilafClient`]: GETs by READs, everything else by messages.
//!
//! What all one-sided clients do, [`drover_one_sided::Client`] does. Of ours is what is read next: [`Lookup`] decides, `reads.rs`
//! does it; what messages carry: `session.rs`, `replies.rs`; and how readers follow a table that grows: `tables.rs`.

mod reads;
mod replies;
mod session;
mod tables;

pub use drover_rt::control::Dial;

use crate::layout::record_bytes;
use crate::logic::{Lookup, Miss};
use drover_kv::{OpKind, Reads};
use drover_one_sided::{Sink, WHICH};
use drover_verbs::{Provider, Wc};
use session::{ENTRY, PIECE, RECORD, SENT, Session};

/// A client of all shards of a service, for one thread.
pub type PilafClient<P> = drover_one_sided::Client<P, Reader>;

/// How a client wants to work.
pub type ClientOptions = drover_one_sided::ClientOptions<Miss>;

/// Operations and links.
type Operations<P> = drover_one_sided::Operations<P, Reader>;

/// What a client did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClientStats {
    /// GETs that found their value.
    pub hits: u64,
    /// READs of entries.
    pub entry_reads: u64,
    /// READs of records.
    pub record_reads: u64,
    /// Torn entries and records.
    pub torn: u64,
    /// Messages asking for a key: misses confirmed, and readers who gave up.
    pub asked: u64,
    /// Misses by READs for which the server had a value: keys that moved, or came just then.
    pub false_misses: u64,
    /// Tables that gave way to larger ones while we were connected.
    pub tables: u64,
    /// Sessions that ended, for whatever reason.
    pub lost: u64,
}

/// What an operation waits for by READ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// An entry.
    Entry,
    /// A record.
    Record {
        /// The server named it, so the key is not in doubt.
        told: bool,
    },
}

/// What is kept for an operation.
#[derive(Default)]
pub struct GetState(Option<Lookup>);

impl GetState {
    fn lookup(&mut self) -> &mut Lookup {
        self.0.as_mut().expect("a GET that has begun")
    }
}

/// What is Pilaf's own in a client.
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
            _ => {
                session.take_reply(at, wc.byte_len as usize, &mut self.scratch);
                self.reply_came(ops, shard, sink);
            }
        }
    }

    fn looked(&mut self, session: &mut Session<P>) {
        self.stats.tables += std::mem::take(&mut session.table_count);
    }

    fn lost(&mut self, _: &mut Operations<P>) {
        self.stats.lost += 1;
    }
}
