//! [`Readers`]: long items that a client READs where they are, so that nobody writes there meanwhile.
//!
//! A place holds at most one: until the client acknowledges that it has READ it, or sends the next request of that place,
//! or is gone.

use super::ShardState;
use super::store::ShardStore as _;
use crate::control::InPlaceExports;
use crate::layout::ACK_BYTES;
use crate::variant::Variant;
use drover_mem::PageWish;
use drover_one_sided::PeerError;
use drover_rt::Port;
use drover_store::Pin;
use drover_verbs::{Access, Context, MemoryRegion, Provider};
use std::sync::atomic::Ordering;

/// The items that a client READs, and the memory into which it WRITEs its acknowledgements.
pub(super) struct Readers<P: Provider> {
    acks: P::Mr,
    pins: Vec<Option<Pin>>,
    pinned: usize,
}

impl<P: Provider> Readers<P> {
    /// For a client with `places` operations.
    pub(super) fn new(port: &Port<P>, places: usize) -> Result<Readers<P>, PeerError> {
        let region = port.server().alloc(places * ACK_BYTES, PageWish::Small)?;
        Ok(Readers {
            acks: port.context().register(&region, Access::REMOTE_WRITE)?,
            pins: (0..places).map(|_| None).collect(),
            pinned: 0,
        })
    }

    /// Exports the memory of `items`, and the acknowledgements.
    pub(super) fn exports(&self, items: &P::Mr) -> Result<InPlaceExports, PeerError> {
        Ok(InPlaceExports {
            items: items.export(&[])?,
            acks: self.acks.export(&[])?,
        })
    }

    /// Whether there is such an item.
    #[inline]
    pub(super) fn is_any(&self) -> bool {
        self.pinned > 0
    }

    /// Notes the item that the client READs for the operation in `place`, which has none now.
    pub(super) fn hold(&mut self, place: usize, pin: Pin) {
        self.acks
            .region()
            .store_u64(place * ACK_BYTES, 0, Ordering::Relaxed);
        let before = self.pins[place].replace(pin);
        assert!(before.is_none(), "place {place} was released before");
        self.pinned += 1;
    }

    /// Gives back the item of `place`, if there is one.
    pub(super) fn release<V: Variant>(&mut self, cpu: &P::Cpu, state: &ShardState<P, V>, place: usize) {
        if let Some(pin) = self.pins[place].take()
            && let Some(store) = state.partition.shared()
        {
            self.pinned -= 1;
            store.unpin(cpu, pin);
        }
    }

    /// Gives back the items that the client has READ.
    #[cold]
    pub(super) fn release_acked<V: Variant>(&mut self, cpu: &P::Cpu, state: &ShardState<P, V>) {
        for place in 0..self.pins.len() {
            // Acquire: what the client has READ, it has READ before.
            let ack = || self.acks.region().load_u64(place * ACK_BYTES, Ordering::Acquire);
            if self.pins[place].is_some() && ack() != 0 {
                self.release(cpu, state, place);
            }
        }
    }

    /// Gives back all items, of a client whose queue pair is gone.
    pub(super) fn release_all<V: Variant>(mut self, cpu: &P::Cpu, state: &ShardState<P, V>) {
        (0..self.pins.len()).for_each(|place| self.release(cpu, state, place));
    }
}
