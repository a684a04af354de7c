//! [`LinkInbox`]: links that other threads have accepted for a core.

use drover_rt::WakeFd;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

/// A link that has passed the handshake.
#[derive(Debug)]
pub(crate) struct Arrival {
    /// Does not block.
    pub(crate) socket: OwnedFd,
    /// Name of the member that made it.
    pub(crate) member: Box<str>,
    /// Counts the links of this member while they last.
    pub(crate) _place: Arc<()>,
}

/// Where a [`LinkAcceptor`](crate::LinkAcceptor) puts the links to one core. Clones are the same inbox.
#[derive(Clone, Debug)]
pub struct LinkInbox {
    arrivals: Arc<Mutex<Vec<Arrival>>>,
    bell: WakeFd,
}

/// The inboxes of a member's cores, in the order of their indices, by what their links are for.
#[derive(Clone, Default, Debug)]
pub struct CoreInboxes {
    /// For requests.
    pub requests: Vec<LinkInbox>,
    /// For copies of items; none in a member without replicas.
    pub copies: Vec<LinkInbox>,
}

impl From<Vec<LinkInbox>> for CoreInboxes {
    /// Those of cores that take requests only.
    fn from(requests: Vec<LinkInbox>) -> CoreInboxes {
        CoreInboxes {
            requests,
            copies: Vec::new(),
        }
    }
}

impl LinkInbox {
    pub(crate) fn new() -> io::Result<LinkInbox> {
        Ok(LinkInbox {
            arrivals: Arc::default(),
            bell: WakeFd::new()?,
        })
    }

    /// Becomes readable when a link arrives.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.bell.fd()
    }

    pub(crate) fn put(&self, arrival: Arrival) {
        self.arrivals
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(arrival);
        self.bell.wake();
    }

    pub(crate) fn take_all(&self) -> Vec<Arrival> {
        self.bell.clear();
        std::mem::take(&mut self.arrivals.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
