//! [`LocalListener`]: control channels within one process.

use super::ControlStream;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Connects clients with a server in the same process, as a [`ControlListener`](super::ControlListener) does between
/// processes. Clones are the same listener. It may outlive its server: connections made meanwhile wait for the next
/// server.
#[derive(Clone, Default)]
pub struct LocalListener(Arc<Mutex<VecDeque<ControlStream>>>);

impl LocalListener {
    /// Creates a listener at which no connection waits.
    pub fn new() -> LocalListener {
        LocalListener::default()
    }

    /// Opens a control channel and returns the client's end; the other end waits until the server accepts it. Never
    /// blocks and never fails: the server may answer late, or never.
    pub fn connect(&self) -> ControlStream {
        let (ours, theirs) = ControlStream::pair();
        self.waiting().push_back(theirs);
        ours
    }

    /// Takes the server's end of the oldest connection not accepted yet; `None` if there is none. Never blocks.
    pub fn accept(&self) -> Option<ControlStream> {
        self.waiting().pop_front()
    }

    /// Closes all connections not accepted yet: their clients see the end of the channel.
    pub fn clear(&self) {
        self.waiting().clear();
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<ControlStream>> {
        // The queue is consistent whenever the lock is released, even by a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind;
    use drover_base::Ns;

    #[test]
    fn clients_are_accepted_in_the_order_of_connecting() {
        let listener = LocalListener::new();
        let (mut first, _second) = (listener.connect(), listener.clone().connect());
        let mut server_end = listener.accept().expect("two have connected");
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
        let mut client = listener.connect();
        listener.clear();
        assert!(listener.accept().is_none());
        assert!(client.recv(Ns::ZERO).is_err(), "the other end is gone");
    }
}
