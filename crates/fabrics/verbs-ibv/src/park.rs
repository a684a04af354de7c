//! [`Sleeper`]: sleeps until a request completes, another thread wakes us, or the time is up.
//!
//! A waker writes to an event descriptor, but only while its context sleeps or is about to: the flag is set before the
//! last check of the queues, so that check sees the work of any wake that misses the flag.

use drover_base::Ns;
use drover_verbs::{OpenError, Waker};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Sleep state of one context, and of those isolated beside it.
#[derive(Clone)]
pub(crate) struct Sleeper {
    shared: Arc<Shared>,
}

struct Shared {
    /// SeqCst on both sides: a waker that misses the flag has published its work before our last check.
    asleep: AtomicBool,
    event: OwnedFd,
}

impl Sleeper {
    pub(crate) fn new() -> Result<Sleeper, OpenError> {
        let event =
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|e| OpenError::System {
                what: "eventfd",
                source: e.into(),
            })?;
        let asleep = AtomicBool::new(false);
        Ok(Sleeper {
            shared: Arc::new(Shared { asleep, event }),
        })
    }

    pub(crate) fn arm(&self) {
        self.shared.asleep.store(true, Ordering::SeqCst);
    }

    pub(crate) fn disarm(&self) {
        self.shared.asleep.store(false, Ordering::SeqCst);
    }

    /// Sleeps for at most `time`, until `one` or `other` is readable or a waker fires; then disarms.
    pub(crate) fn park(&self, one: BorrowedFd<'_>, other: BorrowedFd<'_>, time: Ns) {
        let mut fds = [
            PollFd::new(&self.shared.event, PollFlags::IN),
            PollFd::from_borrowed_fd(one, PollFlags::IN),
            PollFd::from_borrowed_fd(other, PollFlags::IN),
        ];
        let timeout = Timespec {
            tv_sec: (time.0 / 1_000_000_000).try_into().unwrap_or(i64::MAX),
            tv_nsec: (time.0 % 1_000_000_000) as _,
        };
        // The result does not matter: the caller checks for work.
        let _ = poll(&mut fds, Some(&timeout));
        self.disarm();
        // Consumes the event, so that it does not end the next sleep; an empty descriptor is no error.
        let _ = rustix::io::read(&self.shared.event, &mut [0; 8]);
    }

    pub(crate) fn waker(&self) -> Waker {
        let shared = self.shared.clone();
        Waker::new(move || {
            if shared.asleep.load(Ordering::SeqCst) {
                // It fails only when the counter is full: then the descriptor is readable already.
                let _ = rustix::io::write(&shared.event, &1u64.to_ne_bytes());
            }
        })
    }
}
