//! [`LocalListener`]: connecting within one process.

use super::ControlStream;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where clients of a server in the same process knock: what a [`ControlListener`](super::ControlListener) is between
/// processes. Clones are the same listener. It outlives a server that goes: who knocks meanwhile waits for the next.
#[derive(Clone, Default)]
pub struct LocalListener(Arc<Mutex<VecDeque<ControlStream>>>);

impl LocalListener {
    /// A listener where nobody has knocked.
    pub fn new() -> LocalListener {
        LocalListener::default()
    }

    /// Knocks; the other end is the server's. Never blocks and never fails: the server may answer late, or never.
    pub fn connect(&self) -> ControlStream {
        let (ours, theirs) = ControlStream::pair();
        self.knocking().push_back(theirs);
        ours
    }

    /// The server's end of whoever has waited longest.
    pub fn accept(&self) -> Option<ControlStream> {
        self.knocking().pop_front()
    }

    /// Sends away everybody who waits: their ends find the peer gone.
    pub fn clear(&self) {
        self.knocking().clear();
    }

    fn knocking(&self) -> MutexGuard<'_, VecDeque<ControlStream>> {
        // A queue is whole whenever its lock is let go, even by a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::kind;
    use drover_base::Ns;

    #[test]
    fn who_knocked_first_is_let_in_first() {
        let listener = LocalListener::new();
        let (mut first, _second) = (listener.connect(), listener.clone().connect());
        let mut server_end = listener.accept().expect("two knocked");
        first
            .send(kind::APPLICATION, b"hello", &[])
            .expect("space for a frame");
        let frame = server_end
            .recv(Ns::ZERO)
            .expect("a whole stream")
            .expect("a frame");
        assert_eq!(frame.body, b"hello");
        assert!(listener.accept().is_some() && listener.accept().is_none());
    }

    #[test]
    fn who_is_sent_away_finds_the_peer_gone() {
        let listener = LocalListener::new();
        let mut knocking = listener.connect();
        listener.clear();
        assert!(listener.accept().is_none());
        assert!(knocking.recv(Ns::ZERO).is_err(), "the other end is gone");
    }
}
