//! [`Batch`]: some thousand requests, read once and played by every cache in turn, so that its memory stays in the
//! processor's caches meanwhile.

use crate::trace::Op;
use drover_base::KeyHash;
use drover_store::Key;

/// Requests of a full batch.
pub(crate) const BATCH: usize = 4096;

/// A request as caches take it.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Index in the trace, from 0.
    pub(crate) index: u64,
    pub(crate) hash: KeyHash,
    /// Start and end of the key in the batch's bytes; [`Batch::push`] sets it.
    pub(crate) key: [u32; 2],
    pub(crate) value_bytes: u64,
    /// Seconds since one before the first request.
    pub(crate) now_s: u32,
    /// Expiry of what the request stores, in the same unit; 0: none.
    pub(crate) expire_s: u32,
    pub(crate) op: Op,
}

/// Requests and the bytes of their keys.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    keys: Vec<u8>,
    pub(crate) requests: Vec<Request>,
}

impl Batch {
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.requests.clear();
    }

    /// Adds a request; its key is `key`, whose hash is in `request`.
    pub(crate) fn push(&mut self, request: Request, key: &[u8]) {
        let start = self.keys.len();
        self.keys.extend_from_slice(key);
        let place = |at: usize| u32::try_from(at).expect("a batch has at most 1 MiB of keys");
        self.requests.push(Request {
            key: [start, self.keys.len()].map(place),
            ..request
        });
    }

    pub(crate) fn key(&self, request: &Request) -> Key<'_> {
        let [start, end] = request.key;
        Key {
            hash: request.hash,
            bytes: &self.keys[start as usize..end as usize],
        }
    }
}
