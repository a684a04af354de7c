//! [`Chan`]: how the two ends of a rule talk beside the fabric under test.

use drover_verbs::Export;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

/// The other end has gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the other end of the test has gone")]
pub struct ChanClosed;

/// An ordered, reliable channel of small messages between the ends. Between processes: a Unix socket, with
/// descriptors where the fabric's exports have some.
pub trait Chan {
    /// Sends; never waits for the other end.
    fn send(&mut self, message: Export) -> Result<(), ChanClosed>;

    /// The next message, if one has come.
    fn try_recv(&mut self) -> Result<Option<Export>, ChanClosed>;
}

/// A channel inside one process, between threads or not.
#[derive(Debug)]
pub struct MemoryChan {
    to: Sender<Export>,
    from: Receiver<Export>,
}

impl MemoryChan {
    /// Both ends of a new one.
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
