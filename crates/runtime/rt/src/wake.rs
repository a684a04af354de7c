//! Ends waits of other threads: [`StopFlag`], and [`WakeFd`] for threads that wait in `poll`.

use drover_verbs::Waker;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A request to stop, shared by threads. The thread that sets it also calls the wakers of threads that may sleep.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// A flag that is not set.
    pub fn new() -> StopFlag {
        StopFlag::default()
    }

    /// Sets the flag permanently.
    pub fn set(&self) {
        // Release: pairs with `is_set`; publishes the stopper's earlier writes to the stopped threads.
        self.0.store(true, Ordering::Release);
    }

    /// Whether it is set. Costs a load of a line that is not written.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// An eventfd to `poll` together with other descriptors.
#[derive(Clone, Debug)]
pub struct WakeFd(Arc<OwnedFd>);

impl WakeFd {
    /// Creates the eventfd.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn new() -> io::Result<WakeFd> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(WakeFd(Arc::new(fd)))
    }

    /// Makes it readable until [`clear`](WakeFd::clear) is called.
    pub fn wake(&self) {
        // Fails only when the counter is full: then the descriptor is already readable.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Consumes all wakes so far.
    pub fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }

    /// Descriptor for `poll`.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// A [`Waker`] that calls [`wake`](WakeFd::wake).
    pub fn waker(&self) -> Waker {
        let wake = self.clone();
        Waker::new(move || wake.wake())
    }
}
