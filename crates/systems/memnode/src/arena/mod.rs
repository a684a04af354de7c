//! [`Arena`]: one thread's memory in a pool. Its tasks allocate and free blocks without a request in the common case.

mod lists;
mod supply;
mod sweep;

use crate::addr::Addr;
use crate::chunks::{CHUNK_BYTES, ChunkKind, Fill, Need, Supply};
use crate::classes::Class;
use crate::header::VERSIONS_AT;
use crate::locks::Lock;
use crate::nodes::{EpochPin, Nodes};
use crate::pool::MemoryError;
use crate::sweeps::ThreadSweep;
use drover_rt::TaskCx;
use drover_verbs::Provider;
use lists::{Freed, Lists, Size};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use sweep::Swept;

/// Versions in a range that a thread takes from a node at a time.
pub(crate) const VERSION_BITS: u32 = 20;

/// One thread's memory in a pool: free blocks of each node and size class, chunks to cut more from, freed blocks that
/// wait for an epoch. Clones are handles of the same, for the tasks of the thread.
///
/// A block is private until its address is written into the pool. [`put_back`](Arena::put_back) takes back a block that
/// never was; [`free`](Arena::free) takes one that others may still look at.
pub struct Arena<P: Provider>(Rc<Inner<P>>);

impl<P: Provider> Clone for Arena<P> {
    fn clone(&self) -> Arena<P> {
        Arena(self.0.clone())
    }
}

struct Inner<P: Provider> {
    nodes: Nodes<P>,
    parts: Box<[Part]>,
}

/// Memory of one node.
struct Part {
    lists: RefCell<Lists>,
    supply: Cell<Supply>,
    /// Versions left.
    versions: RefCell<Range<u64>>,
    /// Whether a task is getting more: the others wait for it.
    refilling: Cell<bool>,
    sweep: ThreadSweep,
    /// Whether some chunks are being swept.
    in_sweep: Cell<bool>,
    swept: RefCell<Swept>,
    /// The node's recovery lock, if this thread may hold it.
    recovery: Cell<Lock>,
    /// Whether chunks of a sweep belong to this client whose free blocks the thread does not have.
    is_adopting: Cell<bool>,
}

/// What a thread holds of a node's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArenaStats {
    /// Freed pieces that wait for an epoch.
    pub limbo: usize,
    /// Whole chunks that wait to be given back.
    pub surplus_chunks: usize,
    /// How full the node was when the thread last looked.
    pub fill: Fill,
}

/// Ends a refill, also if its task is cancelled.
struct Refill<'a>(&'a Cell<bool>);

impl<'a> Refill<'a> {
    fn begin(refilling: &'a Cell<bool>) -> Option<Refill<'a>> {
        (!refilling.replace(true)).then_some(Refill(refilling))
    }
}

impl Drop for Refill<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl<P: Provider> Arena<P> {
    /// Creates an arena without any memory for the thread of `nodes`.
    pub fn new(nodes: &Nodes<P>) -> Arena<P> {
        let parts = nodes.pool().nodes().iter().map(|node| Part {
            lists: RefCell::default(),
            supply: Cell::new(node.header().supply),
            versions: RefCell::new(0..0),
            refilling: Cell::new(false),
            sweep: node.sweeps.thread(),
            in_sweep: Cell::new(false),
            swept: RefCell::default(),
            recovery: Cell::new(Lock::FREE),
            is_adopting: Cell::new(false),
        });
        Arena(Rc::new(Inner {
            parts: parts.collect(),
            nodes: nodes.clone(),
        }))
    }

    /// The thread's connections.
    pub fn nodes(&self) -> &Nodes<P> {
        &self.0.nodes
    }

    /// Allocates a block of node `node` for `bytes` if the thread has one; `None`: [`alloc`](Arena::alloc) must ask the
    /// node. Blocks are aligned to their size class, and hold bytes of their last use.
    #[inline]
    pub fn try_alloc(&self, node: usize, bytes: usize) -> Option<Addr> {
        let class = Class::of(bytes)?;
        let reached = self.0.nodes.reclaim(node);
        let offset = self.0.parts[node].lists.borrow_mut().take(class, reached)?;
        Some(Addr::new(node, offset))
    }

    /// Allocates a block of node `node` for `bytes`. In the common case no request is posted. The task must have no
    /// staged requests. It must hold a pin of the node from before the call until the block is linked or put back: who
    /// sweeps waits for pins.
    ///
    /// # Errors
    /// [`MemoryError`]: the node is full, this process's quota is used up, its lease is over, or a request failed.
    pub async fn alloc(
        &self,
        cx: &TaskCx<P>,
        node: usize,
        bytes: usize,
        need: Need,
    ) -> Result<Addr, MemoryError> {
        let part = &self.0.parts[node];
        let Some(class) = Class::of(bytes) else {
            let count = crate::classes::chunks_for(bytes) as u32;
            let chunk = self
                .take_chunks(cx, node, count, ChunkKind::Run, count, need)
                .await?;
            return Ok(Addr::new(node, u64::from(chunk) * CHUNK_BYTES as u64));
        };
        loop {
            if let Some(addr) = self.try_alloc(node, bytes) {
                return Ok(addr);
            }
            let Some(_refill) = Refill::begin(&part.refilling) else {
                cx.yield_now().await;
                continue;
            };
            let link = class.index() as u32;
            let chunk = self
                .take_chunks(cx, node, 1, ChunkKind::Blocks, link, need)
                .await?;
            let offset = u64::from(chunk) * CHUNK_BYTES as u64;
            part.lists.borrow_mut().add_chunk(class, offset);
        }
    }

    /// Frees a piece of memory of `bytes` that others may still look at: it is used again when no operation is left that
    /// began before. Call it after the piece was unlinked, under a pin that was taken before.
    ///
    /// # Panics
    /// If `pin` is of another node.
    #[inline]
    pub fn free(&self, pin: &EpochPin<P>, addr: Addr, bytes: usize) {
        assert_eq!(addr.node(), pin.node(), "{addr} under a pin of another node");
        let freed = Freed {
            offset: addr.offset(),
            size: Size::of(bytes),
        };
        let part = &self.0.parts[addr.node()];
        match part.is_in_sweep() {
            false => part.lists.borrow_mut().free(pin.epoch(), freed),
            true => part.free_in_sweep(pin.epoch(), freed, true),
        }
    }

    /// Takes back a piece of `bytes` that nobody else ever had the address of.
    pub fn put_back(&self, addr: Addr, bytes: usize) {
        let part = &self.0.parts[addr.node()];
        let (offset, size) = (addr.offset(), Size::of(bytes));
        if part.is_in_sweep() {
            return part.free_in_sweep(self.0.nodes.reclaim(addr.node()), Freed { offset, size }, false);
        }
        let mut lists = part.lists.borrow_mut();
        match size {
            Size::Block(class) => lists.put(class, addr.offset()),
            Size::Chunks(count) => {
                let chunks = 0..u64::from(count);
                chunks.for_each(|chunk| lists.push_whole(addr.offset() + chunk * CHUNK_BYTES as u64));
            }
        }
    }

    /// A version that no block of node `node` ever had, if the thread has one left.
    #[inline]
    pub fn try_version(&self, node: usize) -> Option<u64> {
        self.0.parts[node].versions.borrow_mut().next()
    }

    /// A version that no block of node `node` ever had, one request per million. The task must have no staged requests.
    ///
    /// # Errors
    /// [`MemoryError`] if a request failed.
    pub async fn version(&self, cx: &TaskCx<P>, node: usize) -> Result<u64, MemoryError> {
        let part = &self.0.parts[node];
        loop {
            if let Some(version) = self.try_version(node) {
                return Ok(version);
            }
            let Some(_refill) = Refill::begin(&part.refilling) else {
                cx.yield_now().await;
                continue;
            };
            let _pin = self.0.nodes.pin(node);
            self.0.nodes.check_lease(cx, node)?;
            let word = self.0.nodes.table(node, VERSIONS_AT);
            let ticket = cx.faa(word.peer, word.remote, 1)?;
            let range = cx.sync().await?.value(ticket);
            let first = range << VERSION_BITS;
            // Version 0 is for those who want to say "none".
            *part.versions.borrow_mut() = first.max(1)..first.saturating_add(1 << VERSION_BITS);
        }
    }

    /// Whether the thread has more free memory of node `node` than it will use soon: [`give_back`](Arena::give_back) is
    /// worth its requests.
    pub fn has_surplus(&self, node: usize) -> bool {
        let lists = self.0.parts[node].lists.borrow();
        lists.whole_count() > 0 || lists.crowded().is_some()
    }

    /// Gives chunks of node `node` whose blocks are all free back to the node, two requests each. The task must have no
    /// staged requests.
    ///
    /// # Errors
    /// [`MemoryError`] if a request failed; the chunk stays with the thread, or is lost if nobody knows.
    pub async fn give_back(&self, cx: &TaskCx<P>, node: usize) -> Result<(), MemoryError> {
        let part = &self.0.parts[node];
        {
            let mut lists = part.lists.borrow_mut();
            lists.release(self.0.nodes.reclaim(node));
            while let Some(class) = lists.crowded() {
                lists.collect(class);
            }
        }
        loop {
            let next = part.lists.borrow_mut().pop_whole();
            let Some(offset) = next else { return Ok(()) };
            let chunk = (offset / CHUNK_BYTES as u64) as u32;
            self.push_chunk(cx, node, chunk).await?;
            self.0.nodes.node(node).disown_chunks(1);
        }
    }

    /// Whether freed blocks of `class` at node `node` wait for an epoch. Cost: looks at all that waits.
    pub fn awaits(&self, node: usize, class: Class) -> bool {
        self.0.parts[node].lists.borrow().awaits(class)
    }

    /// What the thread holds of node `node`.
    pub fn stats(&self, node: usize) -> ArenaStats {
        let part = &self.0.parts[node];
        let lists = part.lists.borrow();
        ArenaStats {
            limbo: lists.limbo_count(),
            surplus_chunks: lists.whole_count(),
            fill: part.supply.get().fill(),
        }
    }

    /// Forgets all free memory in chunks of node `node` for which `is_lost` is true, by the index of the chunk: somebody
    /// else is going to decide what in them is free.
    pub(crate) fn forget(&self, node: usize, mut is_lost: impl FnMut(u32) -> bool) {
        let mut lists = self.0.parts[node].lists.borrow_mut();
        lists.forget(|offset| is_lost((offset / CHUNK_BYTES as u64) as u32));
    }
}
