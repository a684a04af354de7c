//! [`Listeners`]: the addresses at which clients connect.

use drover_base::Ns;
use drover_control::{ControlListener, ControlStream};
use std::os::fd::BorrowedFd;

/// Pause after the system has refused an accept, for lack of descriptors most likely: the connection keeps its listener
/// readable, and without a pause the control thread would spin.
const PAUSE: Ns = Ns::from_ms(100);

/// Any number of listeners.
pub(super) struct Listeners {
    all: Vec<ControlListener>,
    paused_until: Ns,
}

impl Listeners {
    pub(super) fn new(all: Vec<ControlListener>) -> Listeners {
        Listeners {
            all,
            paused_until: Ns::ZERO,
        }
    }

    /// The next connection that waits, if any.
    pub(super) fn accept(&mut self, now: Ns) -> Option<ControlStream> {
        if now < self.paused_until {
            return None;
        }
        for listener in &self.all {
            match listener.accept() {
                Ok(Some(stream)) => return Some(stream),
                Ok(None) => {}
                Err(error) => {
                    let addr = listener.addr();
                    tracing::warn!(%addr, %error, "a connection cannot be accepted; it is left waiting");
                    self.paused_until = now + PAUSE;
                    return None;
                }
            }
        }
        None
    }

    /// When connections are accepted again; zero if they are not paused.
    pub(super) fn paused_until(&self) -> Ns {
        self.paused_until
    }

    /// What to wait for at `now`.
    pub(super) fn fds(&self, now: Ns) -> impl Iterator<Item = BorrowedFd<'_>> {
        let open = now >= self.paused_until;
        self.all.iter().filter(move |_| open).map(ControlListener::fd)
    }

    /// Closes them.
    pub(super) fn close(&mut self) {
        self.all.clear();
    }
}
