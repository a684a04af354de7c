//! [`SyncFuture`]: waiting for requests; [`Completed`]: their results; [`Drain`]: waiting for detached requests.

use super::cx::TaskCx;
use super::error::WcError;
use super::requests::{Local, NONE, Ticket};
use drover_mem::Buffer;
use drover_verbs::Provider;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Future of [`TaskCx::sync`]. If it is dropped while it waits, its requests are abandoned: their buffers return to the
/// pool when the device has finished with them. If it was never awaited, they are not posted.
#[must_use = "nothing is posted before it is awaited"]
pub struct SyncFuture<'a, P: Provider> {
    cx: &'a TaskCx<P>,
    first: u32,
    submitted: bool,
}

impl<'a, P: Provider> SyncFuture<'a, P> {
    pub(super) fn new(cx: &'a TaskCx<P>, first: u32) -> SyncFuture<'a, P> {
        let submitted = false;
        SyncFuture { cx, first, submitted }
    }
}

impl<'a, P: Provider> Future for SyncFuture<'a, P> {
    type Output = Result<Completed<'a, P>, WcError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let (cx, first) = (self.cx, self.first);
        if first == NONE {
            return Poll::Ready(Ok(Completed { cx, first }));
        }
        let mut core = cx.core.borrow_mut();
        if !self.submitted {
            self.submitted = true;
            core.submit(first);
            return Poll::Pending;
        }
        let sync = core.in_flight.requests.slot(first).sync;
        if sync.pending > 0 && !sync.timed_out {
            return Poll::Pending;
        }
        self.first = NONE;
        if sync.failed || sync.timed_out {
            let error = core.in_flight.requests.first_failure(first);
            core.in_flight.release(first);
            return Poll::Ready(Err(error.expect("one of its requests failed")));
        }
        Poll::Ready(Ok(Completed { cx, first }))
    }
}

impl<P: Provider> Drop for SyncFuture<'_, P> {
    fn drop(&mut self) {
        if self.first == NONE {
            return;
        }
        let mut core = self.cx.core.borrow_mut();
        match self.submitted {
            true => core.in_flight.release(self.first),
            false => core.in_flight.requests.release(self.first),
        }
    }
}

/// Results of a successful [`sync`](TaskCx::sync). Buffers not taken return to the pool when this is dropped.
pub struct Completed<'a, P: Provider> {
    cx: &'a TaskCx<P>,
    first: u32,
}

impl<P: Provider> Completed<'_, P> {
    /// Takes the buffer of a READ, WRITE or SEND of this sync.
    ///
    /// # Panics
    /// If the results of `ticket` were dropped or are not there yet, it is of an inline request, a CAS or an FAA, or the
    /// buffer was taken before.
    pub fn take(&mut self, ticket: Ticket) -> Buffer {
        let mut core = self.cx.core.borrow_mut();
        let request = core.in_flight.requests.ended(ticket);
        // The word of an atomic is the pool's own.
        assert!(
            matches!(request.local, Local::Buffer),
            "{ticket:?} is not of a READ or WRITE from a buffer"
        );
        request.buffer.take().expect("a buffer, not taken before")
    }

    /// Value that the remote word had before a CAS or FAA of this sync.
    ///
    /// # Panics
    /// If the results of `ticket` were dropped or are not there yet, or its request has no 8-byte buffer.
    pub fn value(&self, ticket: Ticket) -> u64 {
        let mut core = self.cx.core.borrow_mut();
        let request = core.in_flight.requests.ended(ticket);
        let word = request.buffer.as_deref().expect("an atomic");
        u64::from_ne_bytes(word.try_into().expect("a word has 8 bytes"))
    }
}

impl<P: Provider> Drop for Completed<'_, P> {
    fn drop(&mut self) {
        if self.first != NONE {
            self.cx.core.borrow_mut().in_flight.requests.release(self.first);
        }
    }
}

/// Future of [`TaskCx::drain`].
#[must_use = "it waits only when awaited"]
pub struct Drain<'a, P: Provider> {
    pub(super) cx: &'a TaskCx<P>,
}

impl<P: Provider> Future for Drain<'_, P> {
    type Output = Result<(), WcError>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let mut core = self.cx.core.borrow_mut();
        let state = &mut core.in_flight.tasks[self.cx.task as usize];
        if state.detached > 0 {
            return Poll::Pending;
        }
        Poll::Ready(state.detached_failure.take().map_or(Ok(()), Err))
    }
}

impl<P: Provider> std::fmt::Debug for SyncFuture<'_, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SyncFuture")
    }
}

impl<P: Provider> std::fmt::Debug for Completed<'_, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Completed")
    }
}

impl<P: Provider> std::fmt::Debug for Drain<'_, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Drain")
    }
}
