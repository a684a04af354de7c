//! [`Core`]: what everything of one context shares.

use crate::chain::Chains;
use crate::device::Opening;
use crate::park::Sleeper;
use crate::raw::{Channel, Completions, Protection};
use crate::tables::Tables;
use crate::watch::Link;
use drover_base::Ns;
use drover_mem::NativeCpu;
use drover_verbs::{Caps, QpState};
use std::cell::{Cell, RefCell, UnsafeCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// The shared heart of a context. One thread: no lock, and no `RefCell` is held across a call out.
pub(crate) struct Core {
    pub(crate) cpu: NativeCpu,
    pub(crate) caps: Caps,
    pub(crate) opening: Arc<Opening>,
    pub(crate) tables: Tables,
    pub(crate) chains: Alone<Chains>,
    pub(crate) qps: RefCell<BTreeMap<u32, Weak<Link>>>,
    /// When the watch looks next.
    pub(crate) watch_at: Cell<Ns>,
    pub(crate) cqs: RefCell<Vec<Weak<Completions>>>,
    pub(crate) sleeper: Sleeper,
    pub(crate) channel: Rc<Channel>,
    pub(crate) pd: Rc<Protection>,
}

/// What one thread borrows for the length of a call, without the count that a `RefCell` would keep: a post is a few
/// nanoseconds, of which keeping that count was one.
pub(crate) struct Alone<T>(UnsafeCell<T>);

impl<T> Alone<T> {
    pub(crate) fn new(value: T) -> Alone<T> {
        Alone(UnsafeCell::new(value))
    }

    /// # Safety
    /// As long as the result lives, nobody borrows again: the borrower calls nothing that could.
    #[inline(always)]
    #[allow(
        clippy::mut_from_ref,
        reason = "what UnsafeCell is for; the caller keeps it alone"
    )]
    pub(crate) unsafe fn borrow_mut(&self) -> &mut T {
        // SAFETY: not `Sync`, and the caller's promise.
        unsafe { &mut *self.0.get() }
    }
}

impl Core {
    /// Every queue pair there is.
    pub(crate) fn links(&self) -> Vec<Rc<Link>> {
        self.qps.borrow().values().filter_map(Weak::upgrade).collect()
    }

    /// A queue pair failed: its owner must see that.
    #[cold]
    pub(crate) fn mark_failed(&self, qpn: u32) {
        if let Some(link) = self.qps.borrow().get(&qpn).and_then(Weak::upgrade) {
            link.state.set(QpState::Error);
        }
    }

    /// A failure, with the place it happened at and what may be done about it.
    pub(crate) fn explain(&self, why: &dyn std::error::Error, advice: &str) -> io::Error {
        io::Error::other(format!("{why} ({}); {advice}", self.opening.place()))
    }
}
