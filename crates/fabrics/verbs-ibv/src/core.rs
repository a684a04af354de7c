//! [`Core`]: state shared by all objects of a context.

use crate::chain::Chains;
use crate::device::Opening;
use crate::domain::{OwnRegister, failed};
use crate::park::Sleeper;
use crate::raw::{Channel, Completions, Opened, Protection};
use crate::tables::Tables;
use crate::watch::Link;
use drover_base::Ns;
use drover_mem::NativeCpu;
use drover_verbs::{Caps, OpenError, QpState};
use std::cell::{Cell, RefCell, UnsafeCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// Shared state of a context. One thread: no lock, and no `RefCell` stays borrowed across a call out.
pub(crate) struct Core {
    pub(crate) cpu: NativeCpu,
    pub(crate) caps: Caps,
    pub(crate) opening: Arc<Opening>,
    pub(crate) tables: Tables,
    pub(crate) chains: Alone<Chains>,
    pub(crate) qps: RefCell<BTreeMap<u32, Weak<Link>>>,
    /// Time of the next check for stuck queue pairs.
    pub(crate) watch_at: Cell<Ns>,
    pub(crate) cqs: RefCell<Vec<Weak<Completions>>>,
    pub(crate) events: Events,
    /// That of the domain, or this thread's parent domain over it.
    pub(crate) pd: Arc<Protection>,
    pub(crate) _own_register: Arc<OwnRegister>,
}

/// What ends a thread's sleep: three descriptors, which its contexts share.
#[derive(Clone)]
pub(crate) struct Events {
    pub(crate) sleeper: Sleeper,
    pub(crate) channel: Rc<Channel>,
}

impl Events {
    pub(crate) fn new(opened: &Arc<Opened>) -> Result<Events, OpenError> {
        Ok(Events {
            sleeper: Sleeper::new()?,
            channel: Channel::new(opened).map_err(failed("ibv_create_comp_channel"))?,
        })
    }
}

/// A value that one thread borrows for the length of a call, without the borrow count of a `RefCell`: a post takes a
/// few nanoseconds, of which the count took one.
pub(crate) struct Alone<T>(UnsafeCell<T>);

impl<T> Alone<T> {
    pub(crate) fn new(value: T) -> Alone<T> {
        Alone(UnsafeCell::new(value))
    }

    /// # Safety
    /// There is no second borrow while the result lives: the borrower calls no function that could borrow again.
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
    /// All queue pairs of the context.
    pub(crate) fn links(&self) -> Vec<Rc<Link>> {
        self.qps.borrow().values().filter_map(Weak::upgrade).collect()
    }

    /// Marks a queue pair as failed for its owner.
    #[cold]
    pub(crate) fn mark_failed(&self, qpn: u32) {
        if let Some(link) = self.qps.borrow().get(&qpn).and_then(Weak::upgrade) {
            link.state.set(QpState::Error);
        }
    }

    /// Adds the place of a failure and advice to its error.
    pub(crate) fn explain(&self, why: &dyn std::error::Error, advice: &str) -> io::Error {
        self.opening.explain(why, advice)
    }
}
