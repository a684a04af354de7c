//! [`Cache`]: one simulated cache: a size, a policy, and what it missed.

use crate::batch::{Batch, Request};
use crate::counts::{Checkpoints, Sum};
use crate::feed::SEED;
use crate::lru::Lru;
use crate::trace::Op;
use crate::{Options, Policy, Rate};
use drover_base::Cpu;
use drover_mem::AllocError;
use drover_store::{
    Condition, ExtraOutcome, ExtraPut, Join, Key, Mode, Partition, PartitionOptions, PutOutcome,
    VALUE_BYTES_MAX,
};

/// A cache of one size with one policy.
pub(crate) struct Cache {
    pub(crate) size_bytes: u64,
    pub(crate) policy: Policy,
    pub(crate) rate: Rate,
    held: Held,
    fill: bool,
    /// Longest value accepted: what a server of the whole size accepts.
    value_bytes_max: u64,
    missed: Sum,
    checkpoints: Checkpoints<Sum>,
    refused: u64,
}

/// Items.
enum Held {
    /// In our own store, with a value of zeros that is long enough for all.
    Ours(Box<Partition>, Vec<u8>),
    Lru(Lru),
}

/// Requests whose memory is fetched ahead together, as a server does with a batch.
const AHEAD: usize = 16;
/// Memory of a server is whole pages.
const PAGE_BYTES: u64 = 4096;

impl Cache {
    /// An empty cache. Cost: its memory is allocated, but not touched.
    pub(crate) fn new(size_bytes: u64, policy: Policy, options: &Options) -> Result<Cache, AllocError> {
        let rate = options.rate(size_bytes);
        let whole = partition_options(Mode::S3_FIFO, size_bytes);
        let value_bytes_max = options
            .item_bytes_max
            .min(VALUE_BYTES_MAX)
            .min(whole.log_bytes / 2);
        let bytes = rate.of(size_bytes);
        let held = match policy.eviction() {
            None => Held::Lru(Lru::new(bytes, options.overhead_bytes)),
            Some(eviction) => {
                let partition = PartitionOptions {
                    value_bytes_max,
                    hash_seed: Some(SEED),
                    ..partition_options(Mode::Cache { eviction }, bytes)
                };
                Held::Ours(Box::new(Partition::new(&partition)?), vec![0; value_bytes_max])
            }
        };
        Ok(Cache {
            size_bytes,
            policy,
            rate,
            held,
            fill: options.fill,
            value_bytes_max: value_bytes_max as u64,
            missed: Sum::default(),
            checkpoints: Checkpoints::new(),
            refused: 0,
        })
    }

    /// Plays a batch. `cpu` only prefetches.
    pub(crate) fn play<C: Cpu>(&mut self, cpu: &C, batch: &Batch) {
        for requests in batch.requests.chunks(AHEAD) {
            self.held.prefetch(cpu, requests, self.rate);
            let rate = self.rate;
            for request in requests.iter().filter(|request| rate.takes(request.hash)) {
                self.play_one(cpu, request, batch.key(request));
            }
        }
    }

    fn play_one<C: Cpu>(&mut self, cpu: &C, request: &Request, key: Key<'_>) {
        match request.op {
            Op::Get => {
                if self.held.get(cpu, key, request.now_s) {
                    return;
                }
                self.checkpoints.reach(request.index, self.missed);
                self.missed.add(request.value_bytes);
                if self.fill {
                    self.store(cpu, request, key);
                }
            }
            Op::Delete => self.held.delete(cpu, key, request.now_s),
            Op::Touch => self.held.touch(cpu, key, request),
            Op::Set | Op::Add | Op::Replace | Op::Append => self.store(cpu, request, key),
        }
    }

    fn store<C: Cpu>(&mut self, cpu: &C, request: &Request, key: Key<'_>) {
        let fits = request.value_bytes <= self.value_bytes_max
            && self.held.store(cpu, key, request, self.value_bytes_max);
        self.refused += u64::from(!fits);
    }

    /// What it missed from `share` of all `request_count` requests on.
    pub(crate) fn missed(&self, share: f64, request_count: u64) -> Sum {
        self.checkpoints
            .clone()
            .after(share, request_count, self.missed)
            .1
    }

    /// Number of items now.
    pub(crate) fn item_count(&self) -> u64 {
        match &self.held {
            Held::Ours(partition, _) => partition.stats().items,
            Held::Lru(lru) => lru.item_count(),
        }
    }

    /// Number of items evicted.
    pub(crate) fn evicted(&self) -> u64 {
        match &self.held {
            Held::Ours(partition, _) => partition.stats().evicted(),
            Held::Lru(lru) => lru.evicted(),
        }
    }

    /// Number of stores refused because the value or the item is too long.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }
}

/// The memory of a worker of `drover serve -m SIZE -t 1`.
fn partition_options(mode: Mode, size_bytes: u64) -> PartitionOptions {
    PartitionOptions::for_memory(mode, (size_bytes & !(PAGE_BYTES - 1)) as usize)
}

impl Held {
    /// Fetches the memory of our own caches ahead.
    fn prefetch<C: Cpu>(&self, cpu: &C, requests: &[Request], rate: Rate) {
        let Held::Ours(partition, _) = self else { return };
        let sampled = || requests.iter().filter(|request| rate.takes(request.hash));
        sampled().for_each(|request| partition.prefetch_bucket(cpu, request.hash, false));
        for request in sampled() {
            partition.prefetch_item(cpu, request.hash);
        }
    }

    fn get<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, now_s: u32) -> bool {
        match self {
            Held::Ours(partition, _) => partition.get(cpu, key, now_s).is_some(),
            Held::Lru(lru) => lru.get(key.hash, now_s),
        }
    }

    fn delete<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, now_s: u32) {
        match self {
            Held::Ours(partition, _) => {
                partition.delete(cpu, key, now_s);
            }
            Held::Lru(lru) => lru.delete(key.hash),
        }
    }

    fn touch<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, request: &Request) {
        match self {
            Held::Ours(partition, _) => {
                partition.set_expiry(cpu, key, request.expire_s, request.now_s);
            }
            Held::Lru(lru) => lru.touch(key.hash, request.expire_s, request.now_s),
        }
    }

    /// Stores the value if the operation's condition holds; returns false if it is too long.
    fn store<C: Cpu>(&mut self, cpu: &C, key: Key<'_>, request: &Request, value_bytes_max: u64) -> bool {
        match self {
            Held::Ours(partition, zeros) => {
                // A value longer than the zeros was refused before.
                let value = &zeros[..request.value_bytes as usize];
                store_in(partition, cpu, key, value, request)
            }
            Held::Lru(lru) => store_in_lru(lru, key, request, value_bytes_max),
        }
    }
}

fn store_in<C: Cpu>(
    partition: &mut Partition,
    cpu: &C,
    key: Key<'_>,
    value: &[u8],
    request: &Request,
) -> bool {
    let (expire_s, now_s) = (request.expire_s, request.now_s);
    let condition = match request.op {
        Op::Add => Condition::IfAbsent,
        Op::Replace => Condition::IfPresent,
        Op::Append => {
            let put = ExtraPut {
                value: &[value],
                join: Join::Append,
                keep: true,
                condition: Condition::IfPresent,
                ..ExtraPut::default()
            };
            return partition.put_extra(cpu, key, &put, now_s) != ExtraOutcome::TooLarge;
        }
        _ => Condition::Always,
    };
    let outcome = match condition {
        Condition::Always => partition.put(cpu, key, value, expire_s, now_s),
        condition => partition.put_if(cpu, key, value, expire_s, now_s, condition),
    };
    outcome != PutOutcome::TooLarge
}

fn store_in_lru(lru: &mut Lru, key: Key<'_>, request: &Request, value_bytes_max: u64) -> bool {
    let old = match request.op {
        Op::Add | Op::Replace | Op::Append => lru.item(key.hash, request.now_s),
        _ => None,
    };
    let (mut value_bytes, mut expire_s) = (request.value_bytes, request.expire_s);
    match (request.op, old) {
        (Op::Add, Some(_)) | (Op::Replace | Op::Append, None) => return true,
        (Op::Append, Some((old_bytes, old_expire_s))) => {
            value_bytes += old_bytes;
            expire_s = old_expire_s;
        }
        _ => {}
    }
    let key_bytes = key.bytes.len() as u64;
    value_bytes <= value_bytes_max && lru.put(key.hash, key_bytes, value_bytes, expire_s, request.now_s)
}
