//! Messages to tasks: RECVs of each destination, and the tasks that wait for them in turn.

use super::PeerId;
use super::buffers::Pieces;
use super::core::Core;
use super::cx::TaskCx;
use super::error::Failure;
use super::fifo::Fifo;
use super::requests::RECV_BIT;
use drover_mem::Buffer;
use drover_verbs::{Imm, Provider, QueuePair, RecvList, RecvWr, Wc, WcStatus, WrId};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A message received from a destination. Its memory is used for a RECV again when it is dropped.
#[derive(Debug)]
pub struct Message {
    /// The bytes of the message; none for a WRITE with immediate data.
    pub bytes: Buffer,
    /// Immediate data, if the message carried any.
    pub imm: Option<Imm>,
}

/// Memory for RECVs of all destinations.
pub(super) struct Receiving<P: Provider> {
    pieces: Pieces<P>,
    depth: usize,
    list: RecvList,
}

impl<P: Provider> Receiving<P> {
    pub(super) fn new(pieces: Pieces<P>, depth: usize) -> Receiving<P> {
        Receiving {
            pieces,
            depth,
            list: RecvList::with_capacity(depth),
        }
    }
}

/// Messages of one destination.
#[derive(Debug)]
pub(super) struct Inbox {
    /// Memory of the RECVs posted, by the index in their id.
    posted: Vec<Option<Buffer>>,
    free: Vec<u32>,
    /// Counts the queue pairs that the destination has had: completions of an earlier one are not ours.
    generation: u16,
    arrived: VecDeque<Message>,
    /// Number of messages at the front of `arrived` that belong to waiters which have not run yet.
    granted: usize,
    readers: Fifo,
    failure: Option<Failure>,
}

impl Inbox {
    pub(super) fn new(depth: usize, task_count_max: usize) -> Inbox {
        let readers = match depth {
            0 => 0,
            _ => task_count_max,
        };
        Inbox {
            posted: (0..depth).map(|_| None).collect(),
            free: (0..depth as u32).rev().collect(),
            generation: 0,
            arrived: VecDeque::with_capacity(depth),
            granted: 0,
            readers: Fifo::new(readers),
            failure: None,
        }
    }

    /// Forgets the RECVs of a queue pair that has been destroyed.
    pub(super) fn replace(&mut self) {
        self.generation = self.generation.wrapping_add(1) & 0x7fff;
        self.failure = None;
        self.posted.iter_mut().for_each(|buffer| *buffer = None);
        self.free.clear();
        self.free.extend((0..self.posted.len() as u32).rev());
    }

    fn id(&self, peer: PeerId, index: u32) -> WrId {
        let (generation, peer) = (u64::from(self.generation), u64::from(peer.0));
        WrId(RECV_BIT | generation << 48 | peer << 32 | u64::from(index))
    }
}

impl<P: Provider> Core<P> {
    /// Posts RECVs for which there is memory. Not in line, because most pools receive no messages.
    #[inline(never)]
    pub(super) fn post_recvs(&mut self, cpu: &P::Cpu) {
        let Some(receiving) = &mut self.receiving else {
            return;
        };
        for (peer, queue) in self.peers.iter_mut().enumerate() {
            let inbox = &mut queue.inbox;
            if inbox.free.is_empty() || inbox.failure.is_some() {
                continue;
            }
            receiving.list.clear();
            while receiving.list.wrs().len() < receiving.depth {
                let Some(index) = inbox.free.pop() else { break };
                let Some(buffer) = receiving.pieces.pool.take() else {
                    inbox.free.push(index);
                    break;
                };
                let (sge, wr_id) = (
                    receiving.pieces.sge(&buffer),
                    inbox.id(PeerId(peer as u32), index),
                );
                inbox.posted[index as usize] = Some(buffer);
                receiving.list.push(RecvWr { wr_id, sge });
            }
            let wrs = receiving.list.wrs();
            if wrs.is_empty() {
                continue;
            }
            if let Err(error) = queue.qp.post_recv(cpu, &receiving.list) {
                for wr in &wrs[error.accepted..] {
                    let index = wr.wr_id.0 as u32;
                    inbox.posted[index as usize] = None;
                    inbox.free.push(index);
                }
            }
        }
    }

    /// Takes the completion of a RECV.
    pub(super) fn received(&mut self, wc: &Wc) {
        let index = wc.wr_id.0 as u32;
        let peer = PeerId((wc.wr_id.0 >> 32) as u16 as u32);
        let Some(queue) = self.peers.get_mut(peer.index()) else {
            return;
        };
        let inbox = &mut queue.inbox;
        if inbox.id(peer, index) != wc.wr_id {
            return;
        }
        let Some(mut bytes) = inbox.posted[index as usize].take() else {
            return;
        };
        inbox.free.push(index);
        if wc.status != WcStatus::Success {
            inbox.failure = Some(Failure::Completed(wc.status));
            while let Some(task) = inbox.readers.grant() {
                self.in_flight.make_ready(task);
            }
            return;
        }
        let in_buffer = wc.opcode == drover_verbs::Opcode::Recv;
        bytes.truncate(if in_buffer { wc.byte_len as usize } else { 0 });
        inbox.arrived.push_back(Message { bytes, imm: wc.imm });
        if let Some(task) = inbox.readers.grant() {
            inbox.granted += 1;
            self.in_flight.make_ready(task);
        }
    }
}

/// Future of [`TaskCx::recv`].
#[must_use = "it waits only when awaited"]
pub struct Recv<'a, P: Provider> {
    cx: &'a TaskCx<P>,
    peer: PeerId,
    waiter: Option<u64>,
}

impl<'a, P: Provider> Recv<'a, P> {
    pub(super) fn new(cx: &'a TaskCx<P>, peer: PeerId) -> Recv<'a, P> {
        let waiter = None;
        Recv { cx, peer, waiter }
    }
}

impl<P: Provider> Future for Recv<'_, P> {
    type Output = Result<Message, Failure>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let mut core = self.cx.core.borrow_mut();
        let inbox = &mut core.peers[self.peer.index()].inbox;
        let message = match self.waiter {
            Some(number) if !inbox.readers.is_granted(number) => return Poll::Pending,
            Some(_) if inbox.granted > 0 => {
                inbox.granted -= 1;
                inbox.arrived.pop_front()
            }
            // The queue pair failed while the task waited.
            Some(_) => None,
            None if inbox.arrived.len() > inbox.granted => inbox.arrived.remove(inbox.granted),
            None if inbox.failure.is_some() => None,
            None => {
                let number = inbox.readers.enter(self.cx.task);
                drop(core);
                self.waiter = Some(number);
                return Poll::Pending;
            }
        };
        let failure = inbox.failure;
        drop(core);
        self.waiter = None;
        let closed = failure.unwrap_or(Failure::Completed(WcStatus::Flushed));
        Poll::Ready(message.ok_or(closed))
    }
}

impl<P: Provider> Drop for Recv<'_, P> {
    fn drop(&mut self) {
        let Some(number) = self.waiter else { return };
        let mut core = self.cx.core.borrow_mut();
        let Core { peers, in_flight, .. } = &mut *core;
        let inbox = &mut peers[self.peer.index()].inbox;
        if !inbox.readers.leave(number) && inbox.granted > 0 {
            // The message that this waiter was granted is the next one's.
            match inbox.readers.grant() {
                Some(task) => in_flight.make_ready(task),
                None => inbox.granted -= 1,
            }
        }
    }
}

impl<P: Provider> std::fmt::Debug for Recv<'_, P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Recv from {:?}", self.peer)
    }
}
