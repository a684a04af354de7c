//! [`Core`]: what everything of one context shares.

use crate::device::Opening;
use crate::park::Sleeper;
use crate::raw::{Channel, Completions, Handle, Protection};
use crate::scratch::Scratch;
use drover_mem::NativeCpu;
use drover_verbs::provide::Keys;
use drover_verbs::{Caps, QpState};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// The shared heart of a context. One thread: no lock, and no `RefCell` is held across a call out.
pub(crate) struct Core {
    pub(crate) cpu: NativeCpu,
    pub(crate) caps: Caps,
    pub(crate) opening: Arc<Opening>,
    pub(crate) tables: RefCell<Tables>,
    pub(crate) scratch: RefCell<Scratch>,
    pub(crate) qps: RefCell<BTreeMap<u32, Weak<Cell<QpState>>>>,
    pub(crate) cqs: RefCell<Vec<Weak<Completions>>>,
    pub(crate) sleeper: Sleeper,
    pub(crate) channel: Rc<Channel>,
    pub(crate) pd: Rc<Protection>,
}

/// What keys in requests are looked up in.
#[derive(Default)]
pub(crate) struct Tables {
    /// Remote keys of imported regions, as their owners' devices know them. A number of ours stands for each, so that
    /// what was forgotten, or imported by another context, opens nothing.
    pub(crate) remotes: Keys<u32>,
    pub(crate) handles: Keys<Handle>,
}

impl Core {
    /// A queue pair failed: its owner must see that.
    #[cold]
    pub(crate) fn mark_failed(&self, qpn: u32) {
        if let Some(state) = self.qps.borrow().get(&qpn).and_then(Weak::upgrade) {
            state.set(QpState::Error);
        }
    }

    /// An error of the system, with the place it happened at and what may be done about it.
    pub(crate) fn explain(&self, source: &io::Error, advice: &str) -> io::Error {
        let choice = &self.opening.choice;
        let text = format!("{source} ({} port {}); {advice}", choice.device, choice.port);
        io::Error::new(source.kind(), text)
    }
}
