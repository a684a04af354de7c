//! [`mailbox`]: a queue of commands from other threads to a polling core.

use crate::signal::Signal;
use drover_verbs::Waker;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};

/// Creates a mailbox for at most `capacity` unread messages (0 counts as 1) and returns its two ends. Every successful
/// send calls `waker`, which should end the sleep of the reader's core.
pub fn mailbox<T>(capacity: usize, waker: Waker) -> (Mailer<T>, Mailbox<T>) {
    let (sender, receiver) = sync_channel(capacity.max(1));
    connected(Queue::Bounded(sender), receiver, waker)
}

/// As [`mailbox`], but without a capacity, for messages that must not be refused: sending never returns
/// [`Full`](MailError::Full). The senders must limit the number of unread messages themselves.
pub fn unbounded_mailbox<T>(waker: Waker) -> (Mailer<T>, Mailbox<T>) {
    let (sender, receiver) = channel();
    connected(Queue::Unbounded(sender), receiver, waker)
}

fn connected<T>(queue: Queue<T>, receiver: Receiver<T>, waker: Waker) -> (Mailer<T>, Mailbox<T>) {
    let filled = Arc::new(Signal::new());
    let mailer = Mailer {
        queue,
        filled: filled.clone(),
        waker,
    };
    (
        mailer,
        Mailbox {
            receiver,
            filled,
            draining: false,
        },
    )
}

/// The sending end of a [`mailbox`]. Clones send to the same mailbox.
#[derive(Debug)]
pub struct Mailer<T> {
    queue: Queue<T>,
    filled: Arc<Signal>,
    waker: Waker,
}

#[derive(Debug)]
enum Queue<T> {
    Bounded(SyncSender<T>),
    Unbounded(Sender<T>),
}

impl<T> Clone for Mailer<T> {
    fn clone(&self) -> Mailer<T> {
        let queue = match &self.queue {
            Queue::Bounded(sender) => Queue::Bounded(sender.clone()),
            Queue::Unbounded(sender) => Queue::Unbounded(sender.clone()),
        };
        Mailer {
            queue,
            filled: self.filled.clone(),
            waker: self.waker.clone(),
        }
    }
}

/// An undelivered message, returned to the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MailError<T> {
    /// The mailbox holds as many unread messages as it was created for; a later attempt may succeed. Never from an
    /// [`unbounded_mailbox`].
    Full(T),
    /// The [`Mailbox`] was dropped.
    Closed(T),
}

impl<T> Mailer<T> {
    /// Delivers `message` and wakes the reader. Never waits for space, but may take a lock: for the control path.
    ///
    /// # Errors
    /// [`MailError`] with the message, if the mailbox is full or closed.
    pub fn send(&self, message: T) -> Result<(), MailError<T>> {
        match &self.queue {
            Queue::Bounded(sender) => sender.try_send(message).map_err(|error| match error {
                TrySendError::Full(message) => MailError::Full(message),
                TrySendError::Disconnected(message) => MailError::Closed(message),
            }),
            Queue::Unbounded(sender) => sender.send(message).map_err(|error| MailError::Closed(error.0)),
        }?;
        self.filled.raise();
        self.waker.wake();
        Ok(())
    }
}

/// The reading end of a [`mailbox`].
#[derive(Debug)]
pub struct Mailbox<T> {
    receiver: Receiver<T>,
    filled: Arc<Signal>,
    draining: bool,
}

impl<T> Mailbox<T> {
    /// Whether [`recv`](Mailbox::recv) may return a message, for readers that prepare before they receive. It costs one
    /// load of a cache line that no other core writes meanwhile.
    #[inline(always)]
    pub fn has_mail(&self) -> bool {
        self.draining || self.filled.is_raised()
    }

    /// Takes the oldest message, without waiting. `None` if there is none, also when all senders are gone. An empty
    /// mailbox costs as little as [`has_mail`](Mailbox::has_mail).
    #[inline]
    pub fn recv(&mut self) -> Option<T> {
        match self.has_mail() {
            true => self.drain_one(),
            false => None,
        }
    }

    #[cold]
    fn drain_one(&mut self) -> Option<T> {
        if !self.draining {
            self.draining = self.filled.take();
        }
        let message = self.receiver.try_recv().ok();
        self.draining = message.is_some();
        message
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn messages_arrive_in_order_and_wake() {
        let wakes = Arc::new(AtomicUsize::new(0));
        let counted = wakes.clone();
        let waker = Waker::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let (mailer, mut mailbox) = mailbox(2, waker);
        assert_eq!(mailbox.recv(), None);
        assert_eq!((mailer.send(1), mailer.send(2)), (Ok(()), Ok(())));
        assert_eq!(mailer.send(3), Err(MailError::Full(3)));
        assert_eq!(mailbox.recv(), Some(1));
        assert_eq!(mailer.send(4), Ok(()));
        assert_eq!(
            (mailbox.recv(), mailbox.recv(), mailbox.recv()),
            (Some(2), Some(4), None)
        );
        assert_eq!(mailbox.recv(), None);
        assert_eq!(wakes.load(Ordering::Relaxed), 3);
        drop(mailbox);
        assert_eq!(mailer.send(5), Err(MailError::Closed(5)));
    }

    #[test]
    fn an_unbounded_mailbox_is_never_full() {
        let (mailer, mut mailbox) = unbounded_mailbox(Waker::new(|| ()));
        assert!(!mailbox.has_mail());
        for i in 0..1000 {
            assert_eq!(mailer.clone().send(i), Ok(()));
        }
        for i in 0..1000 {
            assert!(mailbox.has_mail());
            assert_eq!(mailbox.recv(), Some(i));
        }
        assert_eq!((mailbox.recv(), mailbox.has_mail()), (None, false));
        drop(mailbox);
        assert_eq!(mailer.send(5), Err(MailError::Closed(5)));
    }

    #[test]
    fn nothing_is_lost_between_threads() {
        const COUNT: u64 = 20_000;
        let (mailer, mut mailbox) = mailbox(8, Waker::new(|| ()));
        let sender = std::thread::spawn(move || {
            for i in 0..COUNT {
                while mailer.send(i).is_err() {
                    std::thread::yield_now();
                }
            }
        });
        let mut next = 0;
        while next < COUNT {
            match mailbox.recv() {
                Some(i) => {
                    assert_eq!(i, next);
                    next += 1;
                }
                None => std::thread::yield_now(),
            }
        }
        sender.join().expect("sender");
    }
}
