//! Ends waits of other threads: [`StopFlag`], and [`WakeFd`] for threads that wait in `poll`.

use drover_verbs::Waker;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag by which one thread asks others to stop; clones are the same flag. It does not show whether they have
/// stopped. The thread that sets it also calls the wakers of threads that may sleep.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Creates a flag that is not set.
    pub fn new() -> StopFlag {
        StopFlag::default()
    }

    /// Sets the flag permanently.
    pub fn set(&self) {
        // Release: pairs with `is_set`; publishes the stopper's earlier writes to the stopped threads.
        self.0.store(true, Ordering::Release);
    }

    /// Whether the flag is set. Costs one load of a cache line that is written only once.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// An eventfd with which other threads end a `poll` that includes its descriptor. Clones share the eventfd.
#[derive(Clone, Debug)]
pub struct WakeFd(Arc<OwnedFd>);

impl WakeFd {
    /// Creates an eventfd, not readable yet.
    ///
    /// # Errors
    /// The system cannot create one, for example because no descriptors are left.
    pub fn new() -> io::Result<WakeFd> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(WakeFd(Arc::new(fd)))
    }

    /// Makes the descriptor readable until [`clear`](WakeFd::clear) is called.
    pub fn wake(&self) {
        // Fails only when the counter is full: then the descriptor is already readable.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Consumes all wakes so far: the descriptor is no longer readable.
    pub fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }

    /// The descriptor, to `poll` for reading.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// A [`Waker`] that calls [`wake`](WakeFd::wake).
    pub fn waker(&self) -> Waker {
        let wake = self.clone();
        Waker::new(move || wake.wake())
    }
}
