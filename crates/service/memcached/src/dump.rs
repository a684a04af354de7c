//! [`Dump`]: `lru_crawler metadump`, `mgdump` and `stats cachedump`, a few buckets at a time. A dump holds no memory except
//! its position, so neither many items nor a slow reader costs memory.

pub(crate) mod limit;

use crate::Executor;
use crate::parse::base64::{self, TEXT_BYTES_MAX};
use drover_base::Cpu;
use drover_net::Output;
use drover_store::{ItemRef, KEY_BYTES_MAX, Sharing};

/// Items of one piece, if they are spread evenly: so no piece takes long.
const PIECE_ITEMS: u64 = 256;
/// Buckets of one piece: a full one has 8 items, and of empty ones this many are read in some ten microseconds.
const PIECE_BUCKETS: std::ops::RangeInclusive<u64> = 64..=2048;

/// Number of hashes that choose a bucket.
const HASHES: u64 = 1 << 32;

/// Format of a dump's lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// `key= exp= la= cas= fetch= cls= size=`, times in seconds since 1970.
    Meta,
    /// `mg <key>`, which a client can send as is.
    Keys,
    /// `ITEM <key> [<bytes of the value> b; <exp> s]`, of `stats cachedump`.
    Items,
}

impl Kind {
    /// Last line of a dump.
    pub(crate) fn end(self) -> &'static str {
        match self {
            Kind::Meta | Kind::Items => "END",
            Kind::Keys => "EN",
        }
    }

    fn of_byte(byte: u8) -> Option<Kind> {
        [Kind::Meta, Kind::Keys, Kind::Items]
            .into_iter()
            .find(|&kind| kind as u8 == byte)
    }
}

/// Bytes of a piece in a message: kind, then its other fields in their order.
const BYTES: usize = 25;

/// Position of a dump: one piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Dump {
    pub(crate) kind: Kind,
    /// Where this piece begins among the hashes of keys, 0 to 2^32.
    pub(crate) from: u64,
    /// Number of hashes of a piece.
    hashes: u64,
    /// Number of the dump's [limit](limit::LineLimit); 0: it has none.
    pub(crate) limit: u64,
}

impl Dump {
    /// The first piece of a core. Its index has `bucket_count` buckets for about `item_count` items.
    pub(crate) fn new(kind: Kind, limit: u64, bucket_count: u64, item_count: u64) -> Dump {
        let bucket_count = bucket_count.max(1);
        let buckets = PIECE_ITEMS.saturating_mul(bucket_count) / item_count.max(1);
        let buckets = buckets.clamp(*PIECE_BUCKETS.start(), *PIECE_BUCKETS.end());
        Dump {
            kind,
            from: 0,
            hashes: (HASHES * buckets / bucket_count).max(1),
            limit,
        }
    }

    /// The piece after this one, or `None` if this is the last of a core.
    pub(crate) fn next(self) -> Option<Dump> {
        let from = self.end();
        (from < HASHES).then_some(Dump { from, ..self })
    }

    /// End of this piece among the hashes.
    fn end(self) -> u64 {
        self.from.saturating_add(self.hashes)
    }

    /// Encodes the piece for another core.
    pub(crate) fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [self.kind as u8; BYTES];
        for (field, value) in bytes[1..]
            .chunks_exact_mut(8)
            .zip([self.from, self.hashes, self.limit])
        {
            field.copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    /// The inverse of [`to_bytes`](Dump::to_bytes).
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Dump> {
        let (&kind, fields) = bytes.split_first()?;
        let ([from, hashes, limit], []) = fields.as_chunks::<8>() else {
            return None;
        };
        let [from, hashes, limit] = [from, hashes, limit].map(|field| u64::from_le_bytes(*field));
        Some(Dump {
            kind: Kind::of_byte(kind)?,
            from,
            hashes,
            limit,
        })
    }

    /// Appends the lines of this piece's items on this core, as far as the dump's limit allows.
    pub(crate) fn write<C: Cpu, S: Sharing>(self, executor: &mut Executor<'_, C, S>, output: &mut Output) {
        let start_unix_s = executor.server.start_unix_s;
        let end = self.end();
        let lines_max = match self.limit {
            0 => u64::MAX,
            number => executor.server.line_limits.remaining(number),
        };
        let mut lines = 0;
        let line = &mut executor.core.line;
        // The position may have come from another core's message.
        executor
            .partition
            .scan(self.from..end.min(HASHES), executor.now_s, |item| {
                let mut key = [0; KEY_BYTES_MAX];
                let key_bytes = item.copy_key(&mut key);
                let key = &key[..key_bytes];
                // An item may store only its key's hash; then no memcached client could name it.
                if key.is_empty() || lines == lines_max {
                    return;
                }
                match self.kind {
                    Kind::Meta => write_meta(line, item, key, start_unix_s),
                    Kind::Keys => write_key(line, key),
                    Kind::Items if !is_plain(key) => return,
                    Kind::Items => write_item(line, item, key, start_unix_s),
                }
                output.push(line.bytes());
                lines += 1;
            });
        if self.limit != 0 {
            executor.server.line_limits.spend(self.limit, lines);
        }
    }
}

/// Whether a key stands unchanged in a line of words; others can come only by meta commands with flag `b`.
fn is_plain(key: &[u8]) -> bool {
    !key.iter().any(|byte| matches!(byte, b' ' | b'\n' | b'\r' | 0))
}

fn write_item(line: &mut crate::line::LineBuffer, item: ItemRef<'_>, key: &[u8], start_unix_s: u64) {
    line.start(b"ITEM ").push(key).push(b" [");
    line.number(item.value_len() as u64).push(b" b; ");
    line.number(match item.expire_s() {
        0 => 0,
        expire_s => u64::from(expire_s) + start_unix_s,
    });
    line.push(b" s]\r\n");
}

fn write_meta(line: &mut crate::line::LineBuffer, item: ItemRef<'_>, key: &[u8], start_unix_s: u64) {
    line.start(b"key=");
    crate::line::push_escaped(line, key);
    line.push(b" exp=");
    match item.expire_s() {
        0 => line.push(b"-1"),
        expire_s => line.number(u64::from(expire_s) + start_unix_s),
    };
    line.push(b" la=")
        .number(u64::from(item.accessed_s()) + start_unix_s);
    line.push(b" cas=").number(item.cas());
    line.push(if item.is_fetched() {
        b" fetch=yes"
    } else {
        b" fetch=no"
    });
    line.push(b" cls=1 size=").number(item.bytes() as u64).push(b"\n");
}

fn write_key(line: &mut crate::line::LineBuffer, key: &[u8]) {
    line.start(b"mg ");
    if key.iter().all(|byte| (0x21..0x7f).contains(byte)) {
        line.push(key).push(b"\r\n");
        return;
    }
    let mut text = [0; TEXT_BYTES_MAX];
    let len = base64::encode(key, &mut text);
    line.push(&text[..len]).push(b" b\r\n");
}
