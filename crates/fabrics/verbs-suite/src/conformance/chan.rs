//! [`Chan`]: the control channel between the two ends of a rule, independent of the fabric under test.

use drover_verbs::Export;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

/// Error of a [`Chan`] whose other end is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the other end of the test has gone")]
pub struct ChanClosed;

/// An ordered, reliable control channel of small messages between the two ends of a rule. Between processes it is a
/// Unix socket, with descriptors if the fabric's exports have any.
pub trait Chan {
    /// Sends a message; never waits for the other end.
    ///
    /// # Errors
    /// [`ChanClosed`] if the other end is gone.
    fn send(&mut self, message: Export) -> Result<(), ChanClosed>;

    /// Takes the next message; `None` if none has arrived. Does not wait.
    ///
    /// # Errors
    /// [`ChanClosed`] if all messages were taken and the other end is gone.
    fn try_recv(&mut self) -> Result<Option<Export>, ChanClosed>;
}

/// A [`Chan`] between two ends in one process, in one thread or in two.
#[derive(Debug)]
pub struct MemoryChan {
    to: Sender<Export>,
    from: Receiver<Export>,
}

impl MemoryChan {
    /// Creates a channel and returns its two ends.
    pub fn pair() -> [MemoryChan; 2] {
        let ((to_b, from_a), (to_a, from_b)) = (channel(), channel());
        [
            MemoryChan {
                to: to_b,
                from: from_b,
            },
            MemoryChan {
                to: to_a,
                from: from_a,
            },
        ]
    }
}

impl Chan for MemoryChan {
    fn send(&mut self, message: Export) -> Result<(), ChanClosed> {
        self.to.send(message).map_err(|_| ChanClosed)
    }

    fn try_recv(&mut self) -> Result<Option<Export>, ChanClosed> {
        match self.from.try_recv() {
            Ok(message) => Ok(Some(message)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(ChanClosed),
        }
    }
}
