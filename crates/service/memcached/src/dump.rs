//! [`Dump`]: `lru_crawler metadump` and `mgdump`, a few buckets at a time. A dump holds no memory except its position,
//! so neither many items nor a slow reader costs memory.

use crate::Executor;
use crate::parse::base64::{self, TEXT_BYTES_MAX};
use drover_base::Cpu;
use drover_net::Output;
use drover_store::{ItemRef, KEY_BYTES_MAX, Sharing};

/// Buckets of one piece: some 500 items at most, so that no piece takes long.
const PIECE_BUCKETS: u64 = 64;

/// Number of hashes that choose a bucket.
const HASHES: u64 = 1 << 32;

/// Format of a dump's lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// `key= exp= la= cas= fetch= cls= size=`, times in seconds since 1970.
    Meta,
    /// `mg <key>`, which a client can send as is.
    Keys,
}

/// Position of a dump: one piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Dump {
    pub(crate) kind: Kind,
    /// Where this piece begins among the hashes of keys, 0 to 2^32.
    pub(crate) from: u64,
}

impl Dump {
    /// A dump that starts at the first hash.
    pub(crate) fn new(kind: Kind) -> Dump {
        Dump { kind, from: 0 }
    }

    /// The piece after this one, or `None` if this is the last of an index of `bucket_count` buckets.
    pub(crate) fn next(self, bucket_count: u64) -> Option<Dump> {
        let from = self.end_of(bucket_count);
        (from < HASHES).then_some(Dump { from, ..self })
    }

    /// End of this piece among the hashes.
    fn end_of(self, bucket_count: u64) -> u64 {
        self.from
            .saturating_add((HASHES * PIECE_BUCKETS / bucket_count.max(1)).max(1))
    }

    /// Encodes the piece for another core.
    pub(crate) fn to_bytes(self) -> [u8; 9] {
        let mut bytes = [u8::from(self.kind == Kind::Keys); 9];
        bytes[1..].copy_from_slice(&self.from.to_le_bytes());
        bytes
    }

    /// The inverse of [`to_bytes`](Dump::to_bytes).
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Dump> {
        let (&kind, from) = bytes.split_first()?;
        Some(Dump {
            kind: if kind == 0 { Kind::Meta } else { Kind::Keys },
            from: u64::from_le_bytes(from.try_into().ok()?),
        })
    }

    /// Last line of a dump.
    pub(crate) fn end(self) -> &'static str {
        match self.kind {
            Kind::Meta => "END",
            Kind::Keys => "EN",
        }
    }

    /// Appends the lines of this piece's items on this core.
    pub(crate) fn write<C: Cpu, S: Sharing>(self, executor: &mut Executor<'_, C, S>, output: &mut Output) {
        let start_unix_s = executor.server.start_unix_s;
        let end = self.end_of(executor.server.settings.bucket_count);
        let line = &mut executor.core.line;
        // The position may have come from another core's message.
        executor
            .partition
            .scan(self.from..end.min(HASHES), executor.now_s, |item| {
                let mut key = [0; KEY_BYTES_MAX];
                let len = item.copy_key(&mut key);
                if len == 0 {
                    return; // The item stores only its key's hash, so no memcached client could name it.
                }
                line.start(b"");
                match self.kind {
                    Kind::Meta => write_meta(line, item, &key[..len], start_unix_s),
                    Kind::Keys => write_key(line, &key[..len]),
                }
                output.push(line.bytes());
            });
    }
}

fn write_meta(line: &mut crate::line::LineBuffer, item: ItemRef<'_>, key: &[u8], start_unix_s: u64) {
    line.push(b"key=");
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
    line.push(b"mg ");
    if key.iter().all(|byte| (0x21..0x7f).contains(byte)) {
        line.push(key).push(b"\r\n");
        return;
    }
    let mut text = [0; TEXT_BYTES_MAX];
    let len = base64::encode(key, &mut text);
    line.push(&text[..len]).push(b" b\r\n");
}
