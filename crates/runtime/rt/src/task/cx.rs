//! [`TaskCx`]: the interface of an asynchronous operation to its pool.

use super::PeerId;
use super::core::Core;
use super::error::StageError;
use super::guard::Entry;
use super::messages::Recv;
use super::ready::Ready;
use super::requests::Ticket;
use super::sleep::{Sleep, Yield};
use super::sync::{Drain, SyncFuture};
use super::word::WordChange;
use drover_base::Ns;
use drover_mem::{Buffer, Region};
use drover_verbs::{Imm, MaskedSwap, Provider, RemoteAddr, SendOp};
use std::cell::RefCell;
use std::rc::Rc;

/// One task's handle to its pool: for buffers, requests, messages and waiting.
///
/// All functions that stage a request panic if the pool has no destination `peer`, or if a buffer is of another pool.
pub struct TaskCx<P: Provider> {
    pub(super) core: Rc<RefCell<Core<P>>>,
    pub(super) ready: Rc<Ready>,
    pub(super) task: u32,
}

impl<P: Provider> TaskCx<P> {
    pub(super) fn new(core: Rc<RefCell<Core<P>>>, task: u32) -> TaskCx<P> {
        let ready = core.borrow().in_flight.ready.clone();
        TaskCx { core, ready, task }
    }

    /// Time at the start of the pool's current (or last) step; zero before the first.
    pub fn now(&self) -> Ns {
        self.core.borrow().now
    }

    /// Takes a buffer of `len` bytes from the pool, to which it returns when dropped: the shortest that is long enough
    /// and free. It may hold bytes of its last use.
    ///
    /// # Errors
    /// [`StageError::NoBuffer`] if all that are long enough are in use, [`StageError::TooLong`] if none is.
    pub fn buffer(&self, len: usize) -> Result<Buffer, StageError> {
        self.core.borrow().buffers.take(len)
    }

    /// Stages a READ of `into.len()` bytes at `from` of `peer`. [`sync`](TaskCx::sync) submits it;
    /// [`Completed::take`](super::Completed::take) then returns the filled buffer.
    ///
    /// # Errors
    /// [`StageError`] if the request cannot be executed; the buffer returns to the pool.
    pub fn read(&self, peer: PeerId, into: Buffer, from: RemoteAddr) -> Result<Ticket, StageError> {
        let op = SendOp::Read { remote: from };
        self.core
            .borrow_mut()
            .stage_buffer(self.task, peer, op, from, into)
    }

    /// Stages a WRITE of the bytes of `from` to `to` of `peer`. [`sync`](TaskCx::sync) submits it;
    /// [`Completed::take`](super::Completed::take) then returns the buffer.
    ///
    /// # Errors
    /// As [`read`](TaskCx::read).
    pub fn write(&self, peer: PeerId, from: Buffer, to: RemoteAddr) -> Result<Ticket, StageError> {
        let (remote, imm) = (to, None);
        let op = SendOp::Write { remote, imm };
        self.core.borrow_mut().stage_buffer(self.task, peer, op, to, from)
    }

    /// Stages a WRITE of `bytes`, copied now and sent inline; it has no result.
    ///
    /// # Errors
    /// [`StageError`] if the request cannot be executed, for example because the bytes are more than
    /// [`Caps::inline_bytes_max`](drover_verbs::Caps::inline_bytes_max).
    pub fn write_inline(&self, peer: PeerId, bytes: &[u8], to: RemoteAddr) -> Result<Ticket, StageError> {
        let (remote, imm) = (to, None);
        let op = SendOp::Write { remote, imm };
        self.core
            .borrow_mut()
            .stage_inline(self.task, peer, op, Some(to), bytes)
    }

    /// Stages a SEND of the bytes of `from`, which the peer receives as one message.
    /// [`Completed::take`](super::Completed::take) returns the buffer.
    ///
    /// # Errors
    /// As [`read`](TaskCx::read).
    pub fn send(&self, peer: PeerId, from: Buffer) -> Result<Ticket, StageError> {
        self.core.borrow_mut().stage_message(self.task, peer, from)
    }

    /// Stages a SEND of `bytes`, copied now and sent inline; it has no result.
    ///
    /// # Errors
    /// As [`write_inline`](TaskCx::write_inline).
    pub fn send_inline(&self, peer: PeerId, bytes: &[u8]) -> Result<Ticket, StageError> {
        let (dest, imm) = (None, None);
        let op = SendOp::Send { dest, imm };
        self.core
            .borrow_mut()
            .stage_inline(self.task, peer, op, None, bytes)
    }

    /// Stages a CAS: if the 8-byte word at `remote` of `peer` is `compare`, it becomes `swap`. [`sync`](TaskCx::sync)
    /// submits it; [`Completed::value`](super::Completed::value) then returns the word's previous value: `compare` if
    /// it was swapped.
    ///
    /// # Errors
    /// [`StageError::NoWord`] beyond [`TaskOptions::atomic_count_max`](super::TaskOptions::atomic_count_max) atomics;
    /// another [`StageError`] if the request cannot be executed.
    pub fn cas(
        &self,
        peer: PeerId,
        remote: RemoteAddr,
        compare: u64,
        swap: u64,
    ) -> Result<Ticket, StageError> {
        let op = SendOp::CompareSwap {
            remote,
            compare,
            swap,
        };
        self.core.borrow_mut().stage_atomic(self.task, peer, op, remote)
    }

    /// Stages an FAA: adds `add` to the 8-byte word at `remote` of `peer`. [`sync`](TaskCx::sync) submits it;
    /// [`Completed::value`](super::Completed::value) then returns the word's previous value.
    ///
    /// # Errors
    /// As [`cas`](TaskCx::cas).
    pub fn faa(&self, peer: PeerId, remote: RemoteAddr, add: u64) -> Result<Ticket, StageError> {
        let op = SendOp::FetchAdd { remote, add };
        self.core.borrow_mut().stage_atomic(self.task, peer, op, remote)
    }

    /// Stages a CAS that compares and replaces only bits that `swap` names; otherwise as [`cas`](TaskCx::cas). The result is
    /// the whole word's previous value.
    ///
    /// # Errors
    /// As [`cas`](TaskCx::cas); [`StageError::NotSupported`] if the fabric has no
    /// [masked atomics](drover_verbs::Support::masked_atomics).
    pub fn masked_cas(
        &self,
        peer: PeerId,
        remote: RemoteAddr,
        swap: &MaskedSwap,
    ) -> Result<Ticket, StageError> {
        self.core.borrow_mut().stage_masked(self.task, peer, remote, swap)
    }

    /// Makes a staged request wait for earlier READs and atomics of its queue pair before it starts.
    ///
    /// # Panics
    /// If the request is not staged, or no longer.
    pub fn fence(&self, ticket: Ticket) {
        let mut core = self.core.borrow_mut();
        let request = core.in_flight.requests.staged(ticket);
        let request = request.expect("a request that is staged, not submitted");
        request.wr.fence = true;
    }

    /// Adds immediate data to a staged WRITE or SEND. A WRITE with immediate data takes a RECV of the peer, to which it is
    /// a message without bytes; the peer sees it after the bytes.
    ///
    /// # Errors
    /// [`StageError::NotSupported`] of other requests, which carry none.
    ///
    /// # Panics
    /// As [`fence`](TaskCx::fence).
    pub fn imm(&self, ticket: Ticket, imm: Imm) -> Result<(), StageError> {
        let mut core = self.core.borrow_mut();
        let request = core.in_flight.requests.staged(ticket);
        let request = request.expect("a request that is staged, not submitted");
        match &mut request.wr.op {
            SendOp::Write { imm: carried, .. } | SendOp::Send { imm: carried, .. } => *carried = Some(imm),
            _ => {
                return Err(StageError::NotSupported {
                    what: "immediate data",
                });
            }
        }
        Ok(())
    }

    /// Takes the requests staged so far; returns a future that submits them when it is first awaited, and is ready when
    /// all of them have ended; at once if none is staged. Several syncs of a task may wait at the same time: each for
    /// the requests staged before its call.
    ///
    /// # Errors
    /// The first failure, in staging order. The buffers of all requests of this sync then return to the pool.
    pub fn sync(&self) -> SyncFuture<'_, P> {
        let first = self.core.borrow_mut().in_flight.seal(self.task);
        SyncFuture::new(self, first)
    }

    /// Submits the requests staged so far as *detached*: no sync waits for them, and their buffers return to the pool
    /// when they end. They are posted and executed even if the task ends at once. A failure of one is kept for
    /// [`drain`](TaskCx::drain); after the end of the task it is logged. Both are counted in
    /// [`TaskStats`](super::TaskStats).
    pub fn detach(&self) {
        self.core.borrow_mut().detach(self.task);
    }

    /// Returns a future that is ready when all [detached](TaskCx::detach) requests of this task have ended.
    ///
    /// # Errors
    /// The first failure of one since the last drain.
    pub fn drain(&self) -> Drain<'_, P> {
        Drain { cx: self }
    }

    /// Returns a future of the next message from `peer`. Tasks that wait for messages of one peer get them in the order
    /// in which they asked.
    ///
    /// # Errors
    /// [`Failure`](super::Failure) if the queue pair has failed, and has no messages left.
    ///
    /// # Panics
    /// When awaited, if the pool has no destination `peer`.
    pub fn recv(&self, peer: PeerId) -> Recv<'_, P> {
        Recv::new(self, peer)
    }

    /// Returns a future that is ready when the word at byte `offset` of `region`, aligned to 8, is another than `old`;
    /// its result is the new value. The pool looks at the word in each step; where peers should end its core's sleep,
    /// export the region with a [`Watch`](drover_verbs::Watch).
    ///
    /// # Panics
    /// When awaited, if the word is not inside the region.
    pub fn word_change<'a>(&'a self, region: &'a Region, offset: usize, old: u64) -> WordChange<'a, P> {
        WordChange::new(self, region, offset, old)
    }

    /// Returns a future that waits for one of the pool's conflict slots, for an operation that may lose races; see
    /// [`ConflictOptions`](super::ConflictOptions). Tasks get slots in the order in which they ask. A task that already
    /// holds a slot, or a [`Permit`](super::Permit), does not wait: others may wait for what it holds.
    pub fn conflict_guard(&self) -> Entry<'_, P> {
        Entry::new(self)
    }

    /// Returns a future that is ready `time` after the [`now`](TaskCx::now) of this call. The time counts from this
    /// call, even if the future is awaited later.
    pub fn sleep(&self, time: Ns) -> Sleep<'_, P> {
        Sleep::new(self, self.now() + time)
    }

    /// Returns a future that lets the other ready tasks run once.
    pub fn yield_now(&self) -> Yield<'_, P> {
        Yield::new(self)
    }
}

impl<P: Provider> Drop for TaskCx<P> {
    fn drop(&mut self) {
        let mut core = self.core.borrow_mut();
        let staged = core.in_flight.seal(self.task);
        core.in_flight.requests.release(staged);
    }
}

impl<P: Provider> std::fmt::Debug for TaskCx<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TaskCx({})", self.task)
    }
}
