//! Ending waits from other threads: [`StopFlag`], and [`WakeFd`] for threads that wait in `poll`.

use drover_verbs::Waker;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// "Please stop", shared by threads. Whoever sets it also calls the wakers of those who may sleep.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// A flag that is not set.
    pub fn new() -> StopFlag {
        StopFlag::default()
    }

    /// Sets it for good.
    pub fn set(&self) {
        // Release: pairs with `is_set`; what the stopper did before is seen by the stopped.
        self.0.store(true, Ordering::Release);
    }

    /// Whether it is set. A load of a line that nobody writes: costs nothing.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// An eventfd to put into a `poll` beside other descriptors.
#[derive(Clone, Debug)]
pub struct WakeFd(Arc<OwnedFd>);

impl WakeFd {
    /// Errors: no descriptors left.
    pub fn new() -> io::Result<WakeFd> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(WakeFd(Arc::new(fd)))
    }

    /// Makes it readable until [`clear`](WakeFd::clear) is called.
    pub fn wake(&self) {
        // Fails only when the counter is full: then it is readable already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Takes all wakes so far.
    pub fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }

    /// For `poll`.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// As a [`Waker`].
    pub fn waker(&self) -> Waker {
        let wake = self.clone();
        Waker::new(move || wake.wake())
    }
}
