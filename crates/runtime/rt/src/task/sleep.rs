//! [`Sleep`] and [`Yield`]: waiting for time, and for nothing.

use super::cx::TaskCx;
use drover_base::Ns;
use drover_verbs::Provider;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Future of [`TaskCx::sleep`] and [`ConflictGuard::retry`](super::ConflictGuard::retry).
#[must_use = "it waits only when awaited"]
pub struct Sleep<'a, P: Provider> {
    cx: &'a TaskCx<P>,
    until: Ns,
}

impl<'a, P: Provider> Sleep<'a, P> {
    pub(super) fn new(cx: &'a TaskCx<P>, until: Ns) -> Sleep<'a, P> {
        Sleep { cx, until }
    }
}

impl<P: Provider> Future for Sleep<'_, P> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let mut core = self.cx.core.borrow_mut();
        if core.now >= self.until {
            return Poll::Ready(());
        }
        core.wake_at(self.cx.task, self.until);
        Poll::Pending
    }
}

impl<P: Provider> std::fmt::Debug for Sleep<'_, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sleep until {}", self.until)
    }
}

/// Future of [`TaskCx::yield_now`].
#[must_use = "it waits only when awaited"]
pub struct Yield<'a, P: Provider> {
    cx: &'a TaskCx<P>,
    yielded: bool,
}

impl<'a, P: Provider> Yield<'a, P> {
    pub(super) fn new(cx: &'a TaskCx<P>) -> Yield<'a, P> {
        let yielded = false;
        Yield { cx, yielded }
    }
}

impl<P: Provider> Future for Yield<'_, P> {
    type Output = ();

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.yielded, true) {
            return Poll::Ready(());
        }
        self.cx.ready.push(self.cx.task);
        Poll::Pending
    }
}

impl<P: Provider> std::fmt::Debug for Yield<'_, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Yield({})", self.yielded)
    }
}
