//! [`InPlaceReads`]: GETs of keys of other cores, read in those cores' partitions instead of asked for.
//!
//! A GET is read in place unless
//!
//! - an earlier request of its connection for the same key may still be under way to the other core
//!   ([`UnderWay`](crate::session::UnderWay)): it must not overtake that;
//! - the read met the owner's writes twice, or the item is longer than [`ItemCopy::BYTES_MAX`], has expired or is due to be
//!   flushed ([`ReadOutcome::Unknown`]);
//! - the server is a member with [replicas](crate::replicas): the owner's replies may be held until other members have what they say;
//! - answering it changes the item: its time of access, its expiry, or a mark. Only the owner writes items.
//!
//! All else is forwarded (`docs/decisions/0021-gets-read-the-partitions-of-other-cores.md`).

use crate::exec;
use crate::request::{MetaKind, Request};
use crate::{Executor, Server};
use drover_base::sync::{AtomicU64, Ordering};
use drover_base::{Cpu, KeyHash};
use drover_net::Output;
use drover_store::{Hint, ItemCopy, Key, ReadItem, ReadOutcome, Reader, Sharing};
use std::sync::{Mutex, PoisonError};

/// The readers of all partitions, as their owners have published them.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    readers: Mutex<Vec<Option<Reader>>>,
    /// Changes with them.
    generation: AtomicU64,
}

impl Readers {
    pub(crate) fn of_cores(core_count: usize) -> Readers {
        Readers {
            readers: Mutex::new(vec![None; core_count]),
            generation: AtomicU64::new(0),
        }
    }

    fn generation(&self) -> u64 {
        // Acquire: pairs with the Release of `publish`.
        self.generation.load(Ordering::Acquire)
    }

    /// Replaces the reader of the partition of `core`.
    fn publish(&self, core: usize, reader: Option<Reader>) {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = readers.get_mut(core) {
            *place = reader;
        }
        // Release: a core that sees the new generation finds the reader.
        self.generation.fetch_add(1, Ordering::Release);
    }

    fn all(&self) -> Vec<Option<Reader>> {
        let readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.clone()
    }
}

/// A core's access to the partitions of the others.
#[derive(Debug, Default)]
pub(crate) struct InPlaceReads {
    /// By core; `None` for this one and those without a reader.
    peers: Vec<Option<Peer>>,
    copy: Option<ItemCopy>,
    /// Generation of the readers that `peers` are of.
    generation: u64,
    /// This core's partition has its reader among those of the server.
    is_published: bool,
    /// GETs that were read in place, but those of `peers`.
    count: u64,
}

/// Access to one partition.
#[derive(Debug)]
pub(crate) struct Peer {
    reader: Reader,
    /// GETs that are not in the partition's statistics yet.
    hits: u64,
    misses: u64,
    /// GETs that were read in place.
    count: u64,
}

impl Peer {
    /// Counts a GET whose reply is being written.
    #[inline]
    pub(crate) fn count(&mut self, found: Option<&ReadItem<'_>>) {
        self.count += 1;
        match found {
            Some(read) => {
                self.hits += 1;
                self.reader.count_use(read);
            }
            None => self.misses += 1,
        }
    }
}

impl InPlaceReads {
    /// Reads a key of `core`; `None` if there is no access to its partition.
    #[inline]
    pub(crate) fn get<C: Cpu>(
        &mut self,
        core: usize,
        cpu: &C,
        key: Key<'_>,
        now_s: u32,
    ) -> Option<(ReadOutcome<'_>, &mut Peer)> {
        let peer = self.peers.get_mut(core)?.as_mut()?;
        Some((peer.reader.get(cpu, key, now_s, self.copy.as_ref()?), peer))
    }

    fn reader(&self, core: usize) -> Option<&Reader> {
        Some(&self.peers.get(core)?.as_ref()?.reader)
    }

    fn total(&self) -> u64 {
        let of_peers = self.peers.iter().flatten().map(|peer| peer.count);
        self.count + of_peers.sum::<u64>()
    }

    /// Adds what was read to the partitions' statistics.
    pub(crate) fn publish_counts(&mut self) {
        for peer in self.peers.iter_mut().flatten() {
            if peer.hits + peer.misses > 0 {
                peer.reader.count(peer.hits, peer.misses);
                (peer.hits, peer.misses) = (0, 0);
            }
        }
    }
}

impl<C: Cpu, S: Sharing> Executor<'_, C, S> {
    /// Publishes the reader of this core's partition, once, and takes those that other cores have published.
    #[inline]
    pub(crate) fn follow_readers(&mut self) {
        if S::HAS_READERS {
            let reads = &self.core.reads;
            let is_old = !reads.is_published || reads.generation != self.server.readers.generation();
            if is_old && self.core.replicas().is_none() {
                self.exchange_readers(self.server);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn exchange_readers(&mut self, server: &Server) {
        let own = self.router.own();
        let reads = &mut self.core.reads;
        if !reads.is_published {
            server.readers.publish(own, self.partition.reader());
            reads.is_published = true;
        }
        reads.publish_counts();
        reads.count = reads.total();
        reads.generation = server.readers.generation();
        let peer = |(core, reader): (usize, Option<Reader>)| {
            Some(Peer {
                reader: reader.filter(|_| core != own)?,
                hits: 0,
                misses: 0,
                count: 0,
            })
        };
        reads.peers = server.readers.all().into_iter().enumerate().map(peer).collect();
        if reads.copy.is_none() {
            // Without the memory, requests are forwarded.
            reads.copy = ItemCopy::new().ok();
        }
    }

    /// As [`Partition::prefetch_bucket`](drover_store::Partition::prefetch_bucket), in the partition of `core`. If that cannot
    /// be read, it does something useless.
    #[inline]
    pub(crate) fn prefetch_bucket(&self, core: usize, hash: KeyHash) {
        if S::HAS_READERS
            && let Some(reader) = self.core.reads.reader(core)
        {
            return reader.prefetch_bucket(self.cpu, hash);
        }
        self.partition.prefetch_bucket(self.cpu, hash, false);
    }

    /// As [`Partition::prefetch_item`](drover_store::Partition::prefetch_item), in the partition of `core`. The hint is one for
    /// a key of this core only.
    #[inline]
    pub(crate) fn prefetch_item(&self, core: usize, hash: KeyHash) -> Hint {
        if S::HAS_READERS
            && let Some(reader) = self.core.reads.reader(core)
        {
            reader.prefetch_item(self.cpu, hash);
            return Hint::NONE;
        }
        self.partition.prefetch_item(self.cpu, hash)
    }

    /// Answers a request about a key of `core` by a read in place; returns whether that was possible. If not, nothing has
    /// changed.
    #[inline]
    pub(crate) fn answer_in_place(
        &mut self,
        core: usize,
        request: &Request<'_>,
        hash: KeyHash,
        output: &mut Output,
    ) -> bool {
        match request {
            Request::Meta(meta) if S::HAS_READERS && meta.kind == MetaKind::Get => {
                exec::with_key(meta, |key| {
                    self.meta_get_in_place(core, meta, Key { hash, bytes: key }, output)
                })
            }
            _ => false,
        }
    }
}

impl crate::Core {
    /// To be called after the core's partition was replaced by another, because a step has panicked: at its next step the core
    /// gives the others access to that.
    pub fn partition_replaced(&mut self) {
        self.reads.is_published = false;
        self.drop_gathered();
        self.replicas_replaced();
    }

    /// Number of GETs of this core's connections that were read in the partitions of other cores.
    pub fn read_in_place(&self) -> u64 {
        self.reads.total()
    }
}
