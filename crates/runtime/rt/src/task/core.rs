//! [`Core`]: state shared by the tasks of a pool: destinations, requests, buffers, timers, ready tasks.

use super::PeerId;
use super::peer::PeerQueue;
use super::requests::{Failure, List, Local, NONE, Requests, Stage, Ticket};
use crate::ResourceError;
use crate::Timers;
use drover_base::Ns;
use drover_mem::{Buffer, BufferPool, PageWish};
use drover_verbs::{Access, CompletionQueue, Context, MemoryRegion, Provider, SendOp, Wc, WcStatus};
use std::collections::VecDeque;

/// Most completions taken per step.
const POLL_BATCH: usize = 64;
/// Bytes of the word that receives the result of an atomic.
const WORD_BYTES: usize = 8;

/// Sizes of a [`TaskPool`](super::TaskPool).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskOptions {
    /// Maximum number of tasks that have not ended; [`spawn`](super::TaskPool::spawn) refuses more.
    pub task_count_max: usize,
    /// Maximum number of destinations; [`add_peer`](super::TaskPool::add_peer) panics beyond it.
    pub peer_count_max: usize,
    /// Maximum number of outstanding requests per destination; further ones wait in the pool. A number above what the
    /// device supports counts as that, 0 and 1 count as 2.
    pub send_depth: usize,
    /// Bytes per buffer, rounded up to whole cache lines: the longest READ or WRITE from a buffer.
    pub buffer_bytes: usize,
    /// Number of buffers, shared by all tasks.
    pub buffer_count: usize,
    /// Maximum number of CAS and FAA requests of all tasks, counted from staging until their results are dropped. One
    /// more panics.
    pub atomic_count_max: usize,
    /// Resolution of sleeps, rounded down to a power of two nanoseconds: a sleep may end late by up to one tick.
    pub timer_tick: Ns,
}

impl Default for TaskOptions {
    fn default() -> TaskOptions {
        TaskOptions {
            task_count_max: 64,
            peer_count_max: 16,
            send_depth: 128,
            buffer_bytes: 1024,
            buffer_count: 256,
            atomic_count_max: 128,
            timer_tick: Ns(1 << 12),
        }
    }
}

/// Field order is drop order: queue pairs are destroyed before the buffers that they may write to.
pub(super) struct Core<P: Provider> {
    peers: Vec<PeerQueue<P>>,
    pub(super) cq: P::Cq,
    pub(super) send_depth: usize,
    peer_count_max: usize,
    pub(super) requests: Requests,
    pub(super) buffers: BufferPool,
    buffers_mr: P::Mr,
    words: BufferPool,
    words_mr: P::Mr,
    tasks: Vec<TaskState>,
    ready: VecDeque<u32>,
    pub(super) timers: Timers,
    pub(super) now: Ns,
    /// Completions of the current poll.
    wcs: Box<[Wc]>,
}

#[derive(Clone, Copy, Debug)]
struct TaskState {
    /// Requests not submitted yet.
    staged: List,
    /// Requests submitted by the waiting sync.
    in_flight: u32,
    /// Number of those requests that have not ended.
    pending: u32,
    is_ready: bool,
    /// Time of the timer that is set.
    wake_at: Ns,
}

const NEW_TASK: TaskState = TaskState {
    staged: List::EMPTY,
    in_flight: NONE,
    pending: 0,
    is_ready: false,
    wake_at: Ns::MAX,
};

impl<P: Provider> Core<P> {
    pub(super) fn new(ctx: &P::Context, options: &TaskOptions) -> Result<Core<P>, ResourceError> {
        let pool = |piece_bytes, count| -> Result<(BufferPool, P::Mr), ResourceError> {
            let pool = BufferPool::new(piece_bytes, count, |bytes| ctx.alloc(bytes, PageWish::Small))?;
            let mr = ctx.register(pool.region(), Access::LOCAL)?;
            Ok((pool, mr))
        };
        let (buffers, buffers_mr) = pool(options.buffer_bytes, options.buffer_count)?;
        let (words, words_mr) = pool(WORD_BYTES, options.atomic_count_max)?;
        let send_depth = options.send_depth.min(ctx.caps().send_depth_max).max(2);
        // One more per queue pair for its receive queue, which stays empty.
        let cq = ctx.create_cq(options.peer_count_max * (send_depth + 1))?;
        Ok(Core {
            peers: Vec::with_capacity(options.peer_count_max),
            cq,
            send_depth,
            peer_count_max: options.peer_count_max,
            requests: Requests::default(),
            buffers,
            buffers_mr,
            words,
            words_mr,
            tasks: vec![NEW_TASK; options.task_count_max],
            ready: VecDeque::with_capacity(options.task_count_max),
            timers: Timers::new(options.task_count_max, options.timer_tick),
            now: Ns::ZERO,
            wcs: vec![Wc::default(); POLL_BATCH].into(),
        })
    }

    pub(super) fn add_peer(&mut self, qp: P::Qp) -> PeerId {
        let index = self.peers.len();
        assert!(index < self.peer_count_max, "a pool for {index} peers is full");
        self.peers.push(PeerQueue::new(qp, self.send_depth));
        PeerId(index as u32)
    }

    pub(super) fn replace_peer(&mut self, peer: PeerId, qp: P::Qp) {
        for slot in self.peers[peer.index()].replace(qp) {
            self.finish(slot, Err(Failure::Completed(WcStatus::Flushed)));
        }
    }

    /// Processes completions and timers. Returns whether there were any.
    pub(super) fn begin_step(&mut self, cpu: &P::Cpu, now: Ns) -> bool {
        self.now = now;
        let mut wcs = std::mem::take(&mut self.wcs);
        let count = self.cq.poll(cpu, &mut wcs);
        for wc in &wcs[..count] {
            self.complete(wc);
        }
        self.wcs = wcs;
        let mut busy = count > 0;
        while let Some(index) = self.timers.pop(now) {
            self.tasks[index as usize].wake_at = Ns::MAX;
            self.make_ready(index);
            busy = true;
        }
        busy
    }

    fn complete(&mut self, wc: &Wc) {
        // A request of a replaced queue pair.
        let Some(slot) = self.requests.posted(wc.wr_id) else {
            return;
        };
        let peer = self.requests.slot(slot).peer.index();
        // The requests before it succeeded: a failure has a completion of its own.
        let (requests, tasks, ready) = (&mut self.requests, &mut self.tasks, &mut self.ready);
        self.peers[peer].complete(slot, |before| finish(requests, tasks, ready, before, Ok(())));
        let result = match wc.status {
            WcStatus::Success => Ok(()),
            status => Err(Failure::Completed(status)),
        };
        self.finish(slot, result);
    }

    fn finish(&mut self, slot: u32, result: Result<(), Failure>) {
        finish(&mut self.requests, &mut self.tasks, &mut self.ready, slot, result);
    }

    /// Posts the submitted requests, one list per destination. Returns whether anything happened.
    pub(super) fn post(&mut self, cpu: &P::Cpu) -> bool {
        let mut busy = false;
        for index in 0..self.peers.len() {
            let mut refused = None;
            busy |= self.peers[index].post(cpu, &mut self.requests, &mut refused);
            if let Some((slot, result)) = refused {
                self.finish(slot, result);
            }
        }
        busy
    }

    pub(super) fn make_ready(&mut self, index: u32) {
        make_ready(&mut self.tasks, &mut self.ready, index);
    }

    pub(super) fn ready_count(&self) -> usize {
        self.ready.len()
    }

    pub(super) fn take_ready(&mut self) -> Option<u32> {
        let index = self.ready.pop_front()?;
        self.tasks[index as usize].is_ready = false;
        Some(index)
    }

    /// Frees the slot of a task.
    pub(super) fn forget_task(&mut self, index: u32) {
        self.timers.cancel(index);
        let is_ready = self.tasks[index as usize].is_ready;
        self.tasks[index as usize] = TaskState { is_ready, ..NEW_TASK };
    }

    /// Stages a request on a buffer of the pool.
    pub(super) fn stage_buffer(&mut self, task: u32, peer: PeerId, op: SendOp, buffer: Buffer) -> Ticket {
        assert!(
            self.buffers.owns(&buffer),
            "a buffer of another pool is not registered here"
        );
        let local = Local::Buffer(self.buffers_mr.sge(buffer.offset(), buffer.len()));
        self.stage(task, peer, op, local, Some(buffer))
    }

    /// Stages a request with a copy of `bytes`.
    pub(super) fn stage_inline(&mut self, task: u32, peer: PeerId, op: SendOp, bytes: &[u8]) -> Ticket {
        let ticket = self.stage(task, peer, op, Local::Inline, None);
        self.requests
            .slot_mut(ticket.slot)
            .inline
            .extend_from_slice(bytes);
        ticket
    }

    /// Stages an atomic.
    ///
    /// # Panics
    /// If more are outstanding than the pool was made for.
    pub(super) fn stage_atomic(&mut self, task: u32, peer: PeerId, op: SendOp) -> Ticket {
        let mut word = self.words.take().expect("no more atomics than atomic_count_max");
        word.truncate(WORD_BYTES);
        let local = Local::Word(self.words_mr.sge(word.offset(), WORD_BYTES));
        self.stage(task, peer, op, local, Some(word))
    }

    fn stage(&mut self, task: u32, peer: PeerId, op: SendOp, local: Local, buffer: Option<Buffer>) -> Ticket {
        assert!(peer.index() < self.peers.len(), "{peer:?} is not of this pool");
        let list = &mut self.tasks[task as usize].staged;
        self.requests.stage(list, task, peer, op, local, buffer)
    }

    /// Submits the staged requests of `task`. The last one to each destination is signaled.
    pub(super) fn submit(&mut self, task: u32) {
        let state = &mut self.tasks[task as usize];
        assert!(state.in_flight == NONE, "a task waits for one sync at a time");
        let first = std::mem::replace(&mut state.staged, List::EMPTY).first;
        (state.in_flight, state.pending) = (first, 0);
        let mut slot = first;
        while slot != NONE {
            let request = self.requests.slot_mut(slot);
            request.stage = Stage::Queued;
            state.pending += 1;
            let peer = &mut self.peers[request.peer.index()];
            peer.push(slot);
            peer.last = slot;
            slot = request.next;
        }
        slot = first;
        while slot != NONE {
            let request = self.requests.slot_mut(slot);
            request.signaled = self.peers[request.peer.index()].last == slot;
            slot = request.next;
        }
    }

    pub(super) fn pending(&self, task: u32) -> u32 {
        self.tasks[task as usize].pending
    }

    /// Takes the requests submitted by the sync; the caller must release them.
    pub(super) fn take_in_flight(&mut self, task: u32) -> u32 {
        let state = &mut self.tasks[task as usize];
        state.pending = 0;
        std::mem::replace(&mut state.in_flight, NONE)
    }

    pub(super) fn take_staged(&mut self, task: u32) -> u32 {
        std::mem::replace(&mut self.tasks[task as usize].staged, List::EMPTY).first
    }

    /// Wakes `task` at `at`, or earlier if an earlier timer of it is set: then the task sets this one again.
    pub(super) fn wake_at(&mut self, task: u32, at: Ns) {
        let state = &mut self.tasks[task as usize];
        if at < state.wake_at {
            state.wake_at = at;
            self.timers.arm(task, at);
        }
    }
}

/// Ends a request; wakes its task after its last one.
fn finish(
    requests: &mut Requests,
    tasks: &mut [TaskState],
    ready: &mut VecDeque<u32>,
    slot: u32,
    result: Result<(), Failure>,
) {
    let request = requests.slot_mut(slot);
    if request.abandoned {
        return requests.free(slot);
    }
    request.stage = Stage::Done(result);
    let task = request.task;
    let state = &mut tasks[task as usize];
    state.pending -= 1;
    if state.pending == 0 {
        make_ready(tasks, ready, task);
    }
}

fn make_ready(tasks: &mut [TaskState], ready: &mut VecDeque<u32>, index: u32) {
    let state = &mut tasks[index as usize];
    if !std::mem::replace(&mut state.is_ready, true) {
        ready.push_back(index);
    }
}
