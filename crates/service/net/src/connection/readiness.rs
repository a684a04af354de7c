//! [`Readiness`]: what a socket can do now, as its events and calls have shown.

use crate::{Event, Interest};

/// What a socket can do now.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    /// The socket may have input.
    readable: bool,
    /// The peer has hung up: a short read does not mean that all was read.
    hung_up: bool,
    /// The socket takes no more output for now.
    blocked: bool,
    /// The poller reports when the socket takes more.
    told_of_space: bool,
}

impl Readiness {
    /// Whether the socket may have input.
    #[inline]
    pub(crate) fn is_readable(&self) -> bool {
        self.readable
    }

    /// Whether the socket takes no more output for now.
    #[inline]
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Takes note of an event. Returns whether the socket takes output again.
    #[inline]
    pub(crate) fn notice(&mut self, event: &Event) -> bool {
        self.readable |= event.readable;
        self.hung_up |= event.hung_up;
        let unblocked = event.writable && self.blocked;
        self.blocked &= !event.writable;
        unblocked
    }

    /// Takes note of a read. A `short` one has emptied the socket, except at the end, which is reported once.
    #[inline]
    pub(super) fn note_read(&mut self, short: bool) {
        self.readable = !short || self.hung_up;
    }

    /// Takes note that there is no input.
    pub(super) fn note_drained(&mut self) {
        self.readable = false;
    }

    /// Takes note of a write. A `short` one has filled the socket.
    #[inline]
    pub(super) fn note_write(&mut self, short: bool) {
        self.blocked = short;
    }

    /// The interest that the poller must be told of; `None` if it knows.
    pub(crate) fn take_new_interest(&mut self) -> Option<Interest> {
        if self.blocked == self.told_of_space {
            return None;
        }
        self.told_of_space = self.blocked;
        Some(match self.blocked {
            true => Interest::ArrivalsAndSpace,
            false => Interest::Arrivals,
        })
    }
}
