//! [`Pool`]: what all threads of a compute process know of a pool.

mod channel;
mod error;
mod greeting;
mod inquiry;
mod opening;

pub(crate) use channel::{Channel, ChannelError};
pub use error::{BadRun, MemoryError, PoolError};
pub use inquiry::{Inquiry, Order};
pub use opening::{Opened, Opening, PoolOptions, check_places};

use crate::activity::Activity;
use crate::client::ClientId;
use crate::clock::NodeClock;
use crate::epochs::ProcessEpochs;
use crate::header::{Header, PoolMembership};
use crate::locks::Lock;
use crate::sweeps::ProcessSweeps;
use crate::times::LeaseTimes;
use drover_base::Ns;
use drover_base::sync::{Arc, AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering};
use drover_verbs::{Domain, OpenError, Provider, RemoteRegion};

/// A pool as one compute process sees it: its nodes, their memory, this process's identity. Clones are handles of the
/// same. It does nothing by itself: a [`Lease`](crate::Lease) keeps the process alive in the pool, and each thread has
/// its [`Nodes`](crate::Nodes).
pub struct Pool<P: Provider>(Arc<Shared<P>>);

impl<P: Provider> Clone for Pool<P> {
    fn clone(&self) -> Pool<P> {
        Pool(self.0.clone())
    }
}

struct Shared<P: Provider> {
    nodes: Box<[PoolNode]>,
    client: ClientId,
    /// Locks taken so far.
    locks: AtomicU32,
    /// `None`: the process has one thread, whose [`Lease`](crate::Lease) holds its context.
    domain: Option<P::Domain>,
    activity: Arc<Activity>,
}

impl<P: Provider> Drop for Shared<P> {
    fn drop(&mut self) {
        if let Some(domain) = &self.domain {
            let here = self.nodes.iter().filter(|node| !node.is_absent());
            here.for_each(|node| domain.forget_region(&node.memory));
        }
    }
}

/// A node of a pool, as one compute process sees it.
pub struct PoolNode {
    server: String,
    place: PoolMembership,
    /// The header as it was when the pool was opened.
    header: Header,
    memory: RemoteRegion,
    times: LeaseTimes,
    quota_chunks: u32,
    pub(crate) epochs: Arc<ProcessEpochs>,
    pub(crate) sweeps: Arc<ProcessSweeps>,
    epoch: AtomicU64,
    clock: NodeClock,
    /// Until when this process may write there; 0: the node is lost.
    writes_until: AtomicU64,
    chunks_owned: AtomicU32,
    /// Epoch of operations that began after the node was lost; 0: it was not.
    ended: AtomicU64,
    channel: Mutex<Channel>,
}

impl<P: Provider> Pool<P> {
    fn new(
        nodes: Vec<PoolNode>,
        client: ClientId,
        domain: Option<P::Domain>,
        activity: Arc<Activity>,
    ) -> Pool<P> {
        let nodes = nodes.into();
        Pool(Arc::new(Shared {
            nodes,
            client,
            locks: AtomicU32::new(0),
            domain,
            activity,
        }))
    }

    /// Identity of this process in the pool.
    pub fn client(&self) -> ClientId {
        self.0.client
    }

    /// What this process does in the pool.
    pub fn activity(&self) -> &Activity {
        &self.0.activity
    }

    /// Number of handles of this pool, this one included: of threads, and of the lease.
    pub(crate) fn handles(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// Number of nodes.
    pub fn node_count(&self) -> usize {
        self.0.nodes.len()
    }

    /// Node `index`.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn node(&self, index: usize) -> &PoolNode {
        &self.0.nodes[index]
    }

    /// All nodes, in the order of their indices.
    pub fn nodes(&self) -> &[PoolNode] {
        &self.0.nodes
    }

    /// The word with which this process takes a lock; another one each time.
    pub fn new_lock(&self) -> Lock {
        Lock::held(self.client(), self.0.locks.fetch_add(1, Ordering::Relaxed))
    }

    /// A context for another thread of this process, in which the nodes' memory is known.
    ///
    /// # Errors
    /// [`OpenError`] as [`Domain::context`]; always, if the process entered with [one thread](Opening::of_thread).
    pub fn context(&self) -> Result<P::Context, OpenError> {
        let one_thread = OpenError::Unavailable {
            fabric: P::NAME,
            reason: "the process has entered the pool with one thread".to_owned(),
        };
        self.0.domain.as_ref().ok_or(one_thread)?.context()
    }

    /// Whether the process entered with one thread, in whose context the nodes' memory is known.
    pub(crate) fn has_one_thread(&self) -> bool {
        self.0.domain.is_none()
    }

    /// Whether this process has lost node `index` and none of its operations that began before is under way, so that nothing
    /// of it lands there any more. Operations hold [pins](crate::Nodes::pin); the [`Lease`](crate::Lease) must be stepped.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn has_stopped_at(&self, index: usize) -> bool {
        let node = self.node(index);
        let ended = node.ended.load(Ordering::Acquire);
        ended != 0 && node.epochs.to_publish() >= ended
    }

    /// Gives up what this process is in the pool, because of `why`: it uses no node any more, so that its
    /// [`Keeper`](crate::Keeper) enters again as another client, and the nodes shut the old one out.
    pub fn give_up(&self, why: &dyn std::fmt::Display) {
        self.nodes().iter().for_each(|node| node.lose(why));
    }

    /// Announces that this process has given back what it held and ends: it leaves nothing to repair.
    pub fn leave(&self) {
        for node in self.nodes().iter().filter(|node| !node.is_absent()) {
            if let Err(error) = node.channel().leave() {
                tracing::debug!(%error, server = %node.server, "leaving a node that is lost");
            }
        }
    }
}

impl PoolNode {
    /// Its name, as the opener of the pool gave it.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Whether this only keeps the place of a node that the process has not asked: see [`PoolOptions::alone`]. It is
    /// [lost](PoolNode::is_lost) from the beginning, and no pointer leads to it.
    pub fn is_absent(&self) -> bool {
        self.header.geometry.capacity == 0
    }

    /// Its place in the pool.
    pub fn place(&self) -> PoolMembership {
        self.place
    }

    /// Its header as it was when the pool was opened: roots, sizes, incarnation.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Its memory.
    pub fn memory(&self) -> &RemoteRegion {
        &self.memory
    }

    /// Times of its leases.
    pub fn times(&self) -> &LeaseTimes {
        &self.times
    }

    /// Most chunks that this process may own there.
    pub fn quota_chunks(&self) -> u32 {
        self.quota_chunks
    }

    /// Chunks that this process owns there.
    pub fn chunks_owned(&self) -> u32 {
        self.chunks_owned.load(Ordering::Relaxed)
    }

    /// Its epoch, as last read: raised whenever a client was fenced.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// Its clock at `now`, the time of a step: seconds. Never ahead of it, and not over a second behind, even while the node's
    /// processor does nothing: it goes on from what was read last.
    #[inline]
    pub fn clock_s(&self, now: Ns) -> u32 {
        self.clock.at(now)
    }

    /// Whether this process may write to the node at `now`, the time of a step. Once this is false it stays so only while
    /// the lease is not renewed; after the node is [lost](PoolNode::is_lost), for ever.
    #[inline]
    pub fn may_write(&self, now: Ns) -> bool {
        now.0 < self.writes_until.load(Ordering::Relaxed)
    }

    /// Whether the node is gone, or has shut this process out.
    #[inline]
    pub fn is_lost(&self) -> bool {
        self.writes_until.load(Ordering::Relaxed) == 0
    }

    /// What keeps the place of node `index` of this one's pool.
    fn absent(&self, index: u32) -> PoolNode {
        let mut header = self.header.clone();
        header.geometry.capacity = 0;
        PoolNode {
            server: format!("node {index}, which was not asked"),
            place: PoolMembership { index, ..self.place },
            memory: RemoteRegion {
                rkey: self.memory.rkey,
                len: 0,
                access: self.memory.access,
            },
            times: self.times,
            quota_chunks: 0,
            epochs: Arc::new(ProcessEpochs::new(0)),
            sweeps: Arc::new(ProcessSweeps::new(0)),
            epoch: AtomicU64::new(0),
            clock: NodeClock::new(0, Ns::ZERO),
            writes_until: AtomicU64::new(0),
            chunks_owned: AtomicU32::new(0),
            ended: AtomicU64::new(0),
            channel: Mutex::new(Channel::absent()),
            header,
        }
    }

    pub(crate) fn renewed(&self, at: Ns) {
        let until = at + self.times.stop_after;
        if !self.is_lost() {
            self.writes_until.store(until.0, Ordering::Relaxed);
        }
    }

    pub(crate) fn learn(&self, epoch: u64, reclaim: u64, (clock_s, now): (u64, Ns), sweep: u64) {
        self.epoch.store(epoch, Ordering::Relaxed);
        self.clock.learn(clock_s, now);
        self.epochs.learn(reclaim);
        self.sweeps.learn(sweep);
    }

    pub(crate) fn lose(&self, why: &dyn std::fmt::Display) {
        if self.writes_until.swap(0, Ordering::Relaxed) != 0 {
            tracing::warn!(%why, server = %self.server, node = self.place.index, "a memory node is lost");
        }
    }

    /// The node is lost: operations that begin from now on know that. Called by the thread of the lease only.
    pub(crate) fn end_epoch(&self) {
        if self.ended.load(Ordering::Relaxed) == 0 {
            let next = self.epochs.seen().saturating_add(1);
            // Publishes that the node is lost: who pins this epoch may not write.
            self.epochs.learn(next);
            self.ended.store(next, Ordering::Release);
        }
    }

    pub(crate) fn channel(&self) -> MutexGuard<'_, Channel> {
        self.channel.lock().expect("no thread panics with it")
    }

    /// Counts `count` more chunks as owned; false if that would exceed the quota.
    pub(crate) fn own_chunks(&self, count: u32) -> bool {
        let before = self.chunks_owned.fetch_add(count, Ordering::Relaxed);
        let fits = before.saturating_add(count) <= self.quota_chunks;
        if !fits {
            self.disown_chunks(count);
        }
        fits
    }

    /// Counts `count` chunks of others as owned from now on, whatever the quota is.
    pub(crate) fn adopt_chunks(&self, count: u32) {
        self.chunks_owned.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts `count` chunks as owned no longer. Chunks that another process had taken may be given back by this one, so
    /// the number ends at 0.
    pub(crate) fn disown_chunks(&self, count: u32) {
        let less = |owned: u32| Some(owned.saturating_sub(count));
        let _ = self
            .chunks_owned
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}
