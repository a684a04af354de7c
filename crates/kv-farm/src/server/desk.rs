//! [`Desk`]: what all clients of a server share.

use super::ServerStats;
use super::shard::Shard;
use crate::layout::{Request, Status};
use drover_base::{KeyHash, KeyHasher, Ns};
use drover_kv::Refusal;
use drover_verbs::{MemoryRegion, Provider, Sge};

/// Values under way at a time, all clients together; one client has one at most. *(our choice)*
pub(super) const STAGES: usize = 4;

/// Buffers for values on their way from or to clients' memory: no reader ever sees them, because what lies in objects' memory
/// must carry versions.
pub(super) struct Staging<P: Provider> {
    mr: P::Mr,
    bytes: usize,
    free: Vec<u8>,
}

impl<P: Provider> Staging<P> {
    /// `mr` is divided into [`STAGES`].
    pub(super) fn new(mr: P::Mr) -> Staging<P> {
        Staging {
            bytes: mr.region().len() / STAGES,
            mr,
            free: (0..STAGES as u8).collect(),
        }
    }

    pub(super) fn lend(&mut self) -> Option<u8> {
        self.free.pop()
    }

    pub(super) fn take_back(&mut self, stage: u8) {
        self.free.push(stage);
    }

    /// `len` bytes of it, for requests.
    pub(super) fn sge(&self, stage: u8, len: usize) -> Sge {
        self.mr.sge(usize::from(stage) * self.bytes, len)
    }

    fn copy_out(&self, stage: u8, out: &mut [u8]) {
        self.mr.region().copy_out(usize::from(stage) * self.bytes, out);
    }

    fn copy_in(&self, stage: u8, bytes: &[u8]) {
        self.mr.region().copy_in(usize::from(stage) * self.bytes, bytes);
    }
}

/// The shard, and what it is served with.
pub(super) struct Desk<P: Provider> {
    pub(super) shard: Shard,
    pub(super) stats: ServerStats,
    pub(super) staging: Staging<P>,
    hasher: KeyHasher,
    started: Ns,
    /// A value on its way from or to a stage.
    value: Vec<u8>,
}

impl<P: Provider> Desk<P> {
    pub(super) fn new(shard: Shard, hasher: KeyHasher, staging: Staging<P>, started: Ns) -> Desk<P> {
        Desk {
            shard,
            stats: ServerStats::default(),
            staging,
            hasher,
            started,
            value: Vec::new(),
        }
    }

    /// Seconds of the server's clock; from 1 on, since 0 means never.
    pub(super) fn now_s(&self, now: Ns) -> u32 {
        now.since(self.started).as_s() as u32 + 1
    }

    pub(super) fn put(&mut self, request: &Request, key: &[u8], value: &[u8], now: Ns) -> Status {
        let hash = self.hasher.hash(key);
        let now_s = self.now_s(now);
        let expire_s = match request.ttl_s {
            0 => 0,
            ttl_s => now_s.saturating_add(ttl_s),
        };
        match self.shard.put(hash, key, value, expire_s, (now, now_s)) {
            Ok(()) => Status::Stored,
            Err(refusal) => refused(refusal),
        }
    }

    /// A value of `request` has come into `stage`.
    pub(super) fn put_staged(&mut self, request: &Request, key: &[u8], stage: u8, now: Ns) -> Status {
        let mut value = std::mem::take(&mut self.value);
        value.resize(request.value_bytes, 0);
        self.staging.copy_out(stage, &mut value);
        let status = self.put(request, key, &value, now);
        self.value = value;
        status
    }

    pub(super) fn delete(&mut self, key: &[u8], now: Ns) -> Status {
        let (hash, now_s) = (self.hasher.hash(key), self.now_s(now));
        match self.shard.remove(hash, now, now_s) {
            true => Status::Deleted,
            false => Status::NotFound,
        }
    }

    /// What `key` has.
    pub(super) fn get(&mut self, key: &[u8], now: Ns) -> Option<&[u8]> {
        let (hash, now_s) = (self.hash(key), self.now_s(now));
        self.shard.get(hash, key, now_s)
    }

    /// Copies what `key` has into `stage`; its length.
    pub(super) fn stage(&mut self, key: &[u8], stage: u8, now: Ns) -> Option<usize> {
        let (hash, now_s) = (self.hash(key), self.now_s(now));
        let value = self.shard.get(hash, key, now_s)?;
        self.staging.copy_in(stage, value);
        Some(value.len())
    }

    fn hash(&self, key: &[u8]) -> KeyHash {
        self.hasher.hash(key)
    }
}

pub(super) fn refused(refusal: Refusal) -> Status {
    match refusal {
        Refusal::TooLarge => Status::TooLarge,
        Refusal::Full => Status::Full,
        _ => Status::BadRequest,
    }
}
