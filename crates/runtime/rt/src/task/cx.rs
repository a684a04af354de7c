//! [`TaskCx`]: the interface of an asynchronous operation to its pool.

use super::PeerId;
use super::core::Core;
use super::requests::{Local, NONE, Ticket, WcError};
use drover_base::Ns;
use drover_mem::Buffer;
use drover_verbs::{Provider, RemoteAddr, SendOp};
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// One task's handle to its pool: for buffers, requests and sleep.
pub struct TaskCx<P: Provider> {
    core: Rc<RefCell<Core<P>>>,
    task: u32,
}

impl<P: Provider> TaskCx<P> {
    pub(super) fn new(core: Rc<RefCell<Core<P>>>, task: u32) -> TaskCx<P> {
        TaskCx { core, task }
    }

    /// Time at the start of the pool's current (or last) step; zero before the first.
    pub fn now(&self) -> Ns {
        self.core.borrow().now
    }

    /// Takes a buffer of `len` bytes from the pool, to which it returns when dropped; `None` if all are in use. It may
    /// hold bytes of its last use.
    ///
    /// # Panics
    /// If a buffer is free and `len` is above [`TaskOptions::buffer_bytes`](super::TaskOptions::buffer_bytes), rounded
    /// up to whole cache lines.
    pub fn buffer(&self, len: usize) -> Option<Buffer> {
        let mut buffer = self.core.borrow().buffers.take()?;
        buffer.truncate(len);
        Some(buffer)
    }

    /// Stages a READ of `into.len()` bytes at `from` of `peer`. [`sync`](TaskCx::sync) submits it;
    /// [`Completed::take`] then returns the filled buffer.
    ///
    /// # Panics
    /// If `into` belongs to another pool, or this pool has no destination `peer`.
    pub fn read(&self, peer: PeerId, into: Buffer, from: RemoteAddr) -> Ticket {
        let op = SendOp::Read { remote: from };
        self.core.borrow_mut().stage_buffer(self.task, peer, op, into)
    }

    /// Stages a WRITE of the bytes of `from` to `to` of `peer`. [`sync`](TaskCx::sync) submits it; [`Completed::take`]
    /// then returns the buffer.
    ///
    /// # Panics
    /// If `from` belongs to another pool, or this pool has no destination `peer`.
    pub fn write(&self, peer: PeerId, from: Buffer, to: RemoteAddr) -> Ticket {
        let op = SendOp::Write {
            remote: to,
            imm: None,
        };
        self.core.borrow_mut().stage_buffer(self.task, peer, op, from)
    }

    /// Stages a WRITE of `bytes`, copied now and sent inline; it has no result. [`sync`](TaskCx::sync) fails if they
    /// are more than [`Caps::inline_bytes_max`](drover_verbs::Caps::inline_bytes_max).
    ///
    /// # Panics
    /// If this pool has no destination `peer`.
    pub fn write_inline(&self, peer: PeerId, bytes: &[u8], to: RemoteAddr) -> Ticket {
        let op = SendOp::Write {
            remote: to,
            imm: None,
        };
        self.core.borrow_mut().stage_inline(self.task, peer, op, bytes)
    }

    /// Stages a CAS: if the 8-byte word at `remote` of `peer` is `compare`, it becomes `swap`. [`sync`](TaskCx::sync)
    /// submits it; [`Completed::value`] then returns the word's previous value: `compare` if it was swapped.
    ///
    /// # Panics
    /// Beyond [`TaskOptions::atomic_count_max`](super::TaskOptions::atomic_count_max) atomics, or if this pool has no
    /// destination `peer`.
    pub fn cas(&self, peer: PeerId, remote: RemoteAddr, compare: u64, swap: u64) -> Ticket {
        let op = SendOp::CompareSwap {
            remote,
            compare,
            swap,
        };
        self.core.borrow_mut().stage_atomic(self.task, peer, op)
    }

    /// Stages an FAA: adds `add` to the 8-byte word at `remote` of `peer`. [`sync`](TaskCx::sync) submits it;
    /// [`Completed::value`] then returns the word's previous value.
    ///
    /// # Panics
    /// Beyond [`TaskOptions::atomic_count_max`](super::TaskOptions::atomic_count_max) atomics, or if this pool has no
    /// destination `peer`.
    pub fn faa(&self, peer: PeerId, remote: RemoteAddr, add: u64) -> Ticket {
        let op = SendOp::FetchAdd { remote, add };
        self.core.borrow_mut().stage_atomic(self.task, peer, op)
    }

    /// Returns a future that submits this task's staged requests when it is first awaited, and is ready when all of
    /// them have ended; at once if none is staged.
    ///
    /// # Errors
    /// The first failure, in staging order. The buffers of all requests of this sync then return to the pool.
    ///
    /// # Panics
    /// When awaited while another sync of the task is waiting.
    pub fn sync(&self) -> SyncFuture<'_, P> {
        SyncFuture {
            cx: self,
            submitted: false,
        }
    }

    /// Returns a future that is ready `time` after the [`now`](TaskCx::now) of this call. The time counts from this
    /// call, even if the future is awaited later.
    pub fn sleep(&self, time: Ns) -> Sleep<'_, P> {
        let until = self.now() + time;
        Sleep { cx: self, until }
    }
}

impl<P: Provider> Drop for TaskCx<P> {
    fn drop(&mut self) {
        let mut core = self.core.borrow_mut();
        let staged = core.take_staged(self.task);
        core.requests.release(staged);
    }
}

impl<P: Provider> std::fmt::Debug for TaskCx<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TaskCx({})", self.task)
    }
}

/// Future of [`TaskCx::sync`]. If it is dropped while it waits, its requests are abandoned: their buffers return to the
/// pool when the device has finished with them.
#[must_use = "nothing is posted before it is awaited"]
pub struct SyncFuture<'a, P: Provider> {
    cx: &'a TaskCx<P>,
    submitted: bool,
}

impl<'a, P: Provider> Future for SyncFuture<'a, P> {
    type Output = Result<Completed<'a, P>, WcError>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let cx = self.cx;
        let mut core = cx.core.borrow_mut();
        if !self.submitted {
            core.submit(cx.task);
            self.submitted = true;
        }
        if core.pending(cx.task) > 0 {
            return Poll::Pending;
        }
        self.submitted = false;
        let first = core.take_in_flight(cx.task);
        if let Some(error) = core.requests.first_failure(first) {
            core.requests.release(first);
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(Completed { cx, first }))
    }
}

impl<P: Provider> Drop for SyncFuture<'_, P> {
    fn drop(&mut self) {
        if self.submitted {
            let mut core = self.cx.core.borrow_mut();
            let first = core.take_in_flight(self.cx.task);
            core.requests.release(first);
        }
    }
}

/// Results of a successful [`sync`](TaskCx::sync). Buffers not taken return to the pool when this is dropped.
pub struct Completed<'a, P: Provider> {
    cx: &'a TaskCx<P>,
    first: u32,
}

impl<P: Provider> Completed<'_, P> {
    /// Takes the buffer of a READ or WRITE of this sync.
    ///
    /// # Panics
    /// If the results of `ticket` were dropped or are not there yet, it is of an inline WRITE, a CAS or an FAA, or the
    /// buffer was taken before.
    pub fn take(&mut self, ticket: Ticket) -> Buffer {
        let mut core = self.cx.core.borrow_mut();
        let request = core.requests.ended(ticket);
        // The word of an atomic is the pool's own.
        assert!(
            matches!(request.local, Local::Buffer(_)),
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
        let word = core.requests.ended(ticket).buffer.as_deref().expect("an atomic");
        u64::from_ne_bytes(word.try_into().expect("a word has 8 bytes"))
    }
}

impl<P: Provider> Drop for Completed<'_, P> {
    fn drop(&mut self) {
        if self.first != NONE {
            self.cx.core.borrow_mut().requests.release(self.first);
        }
    }
}

/// Future of [`TaskCx::sleep`].
#[must_use = "it waits only when awaited"]
pub struct Sleep<'a, P: Provider> {
    cx: &'a TaskCx<P>,
    until: Ns,
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

impl<P: Provider> std::fmt::Debug for Sleep<'_, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sleep until {}", self.until)
    }
}
