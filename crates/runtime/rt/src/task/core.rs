//! [`Core`]: state shared by the tasks of a pool: destinations, requests, buffers, timers, ready tasks.

use super::PeerId;
use super::buffers::{Buffers, Pieces};
use super::conflict::Conflicts;
use super::credits::Credits;
use super::error::{Failure, StageError};
use super::guard::{Races, Slots};
use super::in_flight::InFlight;
use super::messages::{Inbox, Receiving};
use super::options::{Posting, TaskOptions};
use super::peer::PeerQueue;
use super::requests::{Local, NONE, Owner, RECV_BIT, Stage, SyncState, Ticket};
use super::stats::TaskStats;
use super::throttle::{Meter, Throttle};
use super::word::Words;
use crate::{ResourceError, Timers};
use drover_base::{Cpu, Ns, Rng};
use drover_mem::Buffer;
use drover_verbs::{
    CompletionQueue, Context, CreateError, MaskedSwap, Payload, Provider, QpKind, QpOptions, Qpn, QueuePair,
    RemoteAddr, SendOp, SendWr, Wc, WcStatus,
};

/// Most completions taken per step.
pub(super) const POLL_BATCH: usize = 64;
/// Purpose of the stream of random numbers that backoffs are drawn from.
const BACKOFF_STREAM: u64 = 0x0062_6163_6b6f_6666;

/// What the fabric and the options allow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) send_depth: usize,
    pub(super) recv_depth: usize,
    peer_count_max: usize,
    task_count_max: usize,
    inline_bytes: usize,
    send_bytes: usize,
    atomics: bool,
    masked_atomics: bool,
    pub(super) patience: Ns,
}

/// Field order is drop order: queue pairs are destroyed before the buffers that they may write to.
pub(super) struct Core<P: Provider> {
    pub(super) peers: Vec<PeerQueue<P>>,
    /// Kinds of the queue pairs that were created and not added.
    created: Vec<(Qpn, QpKind)>,
    cq: P::Cq,
    pub(super) limits: Limits,
    pub(super) in_flight: InFlight,
    pub(super) credits: Credits,
    /// Destination that posts first in the next step.
    first_peer: usize,
    pub(super) posting: Posting,
    pub(super) buffers: Buffers<P>,
    pub(super) receiving: Option<Receiving<P>>,
    pub(super) words: Words,
    timers: Timers,
    pub(super) now: Ns,
    pub(super) races: Races,
    /// Time of the next periodic chore; zero before the first step.
    chores_at: Ns,
    watch_at: Ns,
    meter: Option<Meter>,
    /// Number of tasks that have not ended.
    pub(super) task_count: u32,
    pub(super) stats: TaskStats,
}

impl<P: Provider> Core<P> {
    pub(super) fn new(ctx: &P::Context, options: &TaskOptions) -> Result<Core<P>, ResourceError> {
        let caps = ctx.caps();
        let limits = Limits {
            send_depth: options.send_depth.min(caps.send_depth_max).max(2),
            recv_depth: options.recv.depth.min(caps.recv_depth_max),
            peer_count_max: options.peer_count_max,
            task_count_max: options.task_count_max,
            inline_bytes: caps.inline_bytes_max,
            send_bytes: caps.send_bytes_max,
            atomics: caps.supports.atomics.are_offered(),
            masked_atomics: caps.supports.masked_atomics,
            patience: options.patience,
        };
        let receiving = match limits.recv_depth {
            0 => None,
            // Twice as many, so that tasks may keep messages while their RECVs are posted again.
            depth => {
                let count = 2 * depth * options.peer_count_max;
                Some(Receiving::new(
                    Pieces::new(ctx, options.recv.bytes, count)?,
                    depth,
                ))
            }
        };
        let per_peer = limits.send_depth + limits.recv_depth.max(1);
        Ok(Core {
            peers: Vec::with_capacity(options.peer_count_max),
            created: Vec::new(),
            cq: ctx.create_cq(options.peer_count_max * per_peer)?,
            limits,
            in_flight: InFlight::new(options.task_count_max, limits.inline_bytes),
            credits: Credits::new(options.credits),
            first_peer: 0,
            posting: options.posting,
            buffers: Buffers::new(ctx, options)?,
            receiving,
            words: Words::default(),
            timers: Timers::new(options.task_count_max, options.timer_tick),
            now: Ns::ZERO,
            races: Races {
                slots: Slots::new(options.task_count_max),
                conflicts: Conflicts::new(options.conflicts),
                rng: Rng::new(0, 0, BACKOFF_STREAM),
            },
            chores_at: Ns::ZERO,
            watch_at: Ns::MAX,
            meter: None,
            task_count: 0,
            stats: TaskStats::default(),
        })
    }

    pub(super) fn create_qp(&mut self, ctx: &P::Context, kind: QpKind) -> Result<P::Qp, CreateError> {
        let mut options = QpOptions::<P>::new(kind, &self.cq, ctx.caps());
        options.send_depth = self.limits.send_depth;
        options.recv_depth = self.limits.recv_depth.max(1);
        let qp = ctx.create_qp(&options)?;
        self.created.retain(|known| known.0 != qp.qpn());
        self.created.push((qp.qpn(), kind));
        Ok(qp)
    }

    fn kind_of(&mut self, qp: &P::Qp) -> QpKind {
        let known = self.created.iter().position(|known| known.0 == qp.qpn());
        let known = known.expect("a queue pair that this pool created");
        self.created.swap_remove(known).1
    }

    pub(super) fn add_peer(&mut self, qp: P::Qp) -> PeerId {
        let (index, limits) = (self.peers.len(), self.limits);
        assert!(index < limits.peer_count_max, "a pool for {index} peers is full");
        let kind = self.kind_of(&qp);
        let inbox = Inbox::new(limits.recv_depth, limits.task_count_max);
        self.peers
            .push(PeerQueue::new(qp, kind, limits.send_depth, inbox));
        self.credits.add_peer();
        PeerId(index as u32)
    }

    pub(super) fn replace_peer(&mut self, peer: PeerId, qp: P::Qp) {
        let kind = self.kind_of(&qp);
        let ended = self.peers[peer.index()].replace(qp, kind);
        self.peers[peer.index()].inbox.replace();
        self.credits.give_back(ended.len());
        for slot in ended {
            self.in_flight
                .finish(slot, Err(Failure::Completed(WcStatus::Flushed)));
        }
    }

    /// Processes completions, which are polled into `wcs`, words and timers. Returns whether there were any.
    #[inline]
    pub(super) fn begin_step(&mut self, cpu: &P::Cpu, now: Ns, wcs: &mut [Wc]) -> bool {
        self.now = now;
        let count = self.cq.poll(cpu, wcs);
        for wc in &wcs[..count] {
            self.complete(wc);
        }
        let mut busy = count > 0;
        if busy {
            self.stats.requests.polls += 1;
            self.stats.requests.completions += count as u64;
        }
        busy |= self.look_at_words(cpu);
        while let Some(task) = self.timers.pop(now) {
            self.in_flight.tasks[task as usize].wake_at = Ns::MAX;
            self.in_flight.make_ready(task);
            busy = true;
        }
        if now >= self.chores_at {
            self.do_chores(cpu);
        }
        if let Some(meter) = &self.meter {
            let ceiling = meter.exchange(self.stats.requests.ended);
            if ceiling != self.credits.ceiling() {
                self.credits.set_ceiling(ceiling);
            }
        }
        busy
    }

    #[inline]
    fn complete(&mut self, wc: &Wc) {
        if wc.wr_id.0 & RECV_BIT != 0 {
            return self.received(wc);
        }
        // Otherwise a request of a replaced queue pair.
        let Some(slot) = self.in_flight.requests.posted(wc.wr_id) else {
            return;
        };
        let peer = self.in_flight.requests.slot(slot).peer.index();
        // The requests before it succeeded: a failure has a completion of its own.
        let in_flight = &mut self.in_flight;
        let count = self.peers[peer].complete(slot, |before| in_flight.finish(before, Ok(())));
        self.credits.give_back(count);
        self.stats.requests.ended += count as u64;
        let result = match wc.status {
            WcStatus::Success => Ok(()),
            status => Err(Failure::Completed(status)),
        };
        self.in_flight.finish(slot, result);
    }

    /// Lets the next step do the chores, whatever their time.
    #[cold]
    pub(super) fn do_chores_soon(&mut self) {
        // Zero would stand for a pool that has never stepped.
        self.chores_at = self.now.max(Ns(1));
    }

    /// What is done once in a while: evaluation of conflicts, the watch for stuck syncs.
    #[cold]
    fn do_chores(&mut self, cpu: &P::Cpu) {
        let now = self.now;
        if self.chores_at == Ns::ZERO {
            self.races.rng = Rng::new(cpu.random(), 0, BACKOFF_STREAM);
            self.races.conflicts.start(now);
            self.watch_at = now + Ns(self.limits.patience.0 / 4);
        }
        self.races
            .conflicts
            .evaluate(now, self.task_count, self.races.slots.inside);
        self.grant_slots();
        if now >= self.watch_at {
            self.watch_at = now + Ns(self.limits.patience.0 / 4);
            self.end_stuck();
        }
        let next = self.races.conflicts.evaluate_at().min(self.watch_at);
        self.chores_at = next.max(now + Ns(1));
    }

    /// Posts the submitted requests. If credits do not suffice for all destinations, the next step begins with the one
    /// after the last that got some, so that each has its turn. Returns whether anything happened.
    #[inline]
    pub(super) fn post(&mut self, cpu: &P::Cpu) -> bool {
        if self.in_flight.requests.abandoned_queued > 0 {
            let requests = &mut self.in_flight.requests;
            self.peers
                .iter_mut()
                .for_each(|queue| queue.drop_abandoned(requests));
        }
        let (count, first) = (self.peers.len(), self.first_peer);
        let (mut busy, mut peer, mut next) = (false, first, first);
        while let Some(queue) = self.peers.get_mut(peer) {
            let after = if peer + 1 == count { 0 } else { peer + 1 };
            if queue.can_post() {
                let posted = queue.post(
                    cpu,
                    &mut self.in_flight,
                    &mut self.credits,
                    self.posting,
                    &mut self.stats,
                );
                busy |= posted;
                if posted {
                    next = after;
                }
            }
            peer = after;
            if peer == first {
                break;
            }
        }
        self.first_peer = next;
        busy
    }

    pub(super) fn set_throttle(&mut self, throttle: &Throttle) {
        self.meter = Some(throttle.meter());
    }

    pub(super) fn forget_task(&mut self, task: u32) {
        self.timers.cancel(task);
        self.in_flight.forget_task(task);
    }

    /// Stages a READ or WRITE on a buffer of the pool.
    #[inline(always)]
    pub(super) fn stage_buffer(
        &mut self,
        task: u32,
        peer: PeerId,
        op: SendOp,
        remote: RemoteAddr,
        buffer: Buffer,
    ) -> Result<Ticket, StageError> {
        let sge = self.buffers.sge(&buffer);
        if sge.len == 0 {
            return Err(StageError::ZeroLength);
        }
        self.buffers.check_range(remote, u64::from(sge.len))?;
        if self.kind(peer) != QpKind::Rc && matches!(op, SendOp::Read { .. }) {
            return Err(StageError::NotSupported { what: "READ" });
        }
        Ok(self.stage(
            task,
            peer,
            op,
            (Local::Buffer, Payload::Region(sge)),
            Some(buffer),
        ))
    }

    /// Stages a SEND of a buffer of the pool.
    pub(super) fn stage_message(
        &mut self,
        task: u32,
        peer: PeerId,
        buffer: Buffer,
    ) -> Result<Ticket, StageError> {
        let (bytes, limit) = (buffer.len(), self.limits.send_bytes);
        if bytes == 0 {
            return Err(StageError::ZeroLength);
        }
        if bytes > limit {
            return Err(StageError::TooLong { bytes, limit });
        }
        let (dest, imm) = (None, None);
        let local = (Local::Buffer, Payload::Region(self.buffers.sge(&buffer)));
        Ok(self.stage(task, peer, SendOp::Send { dest, imm }, local, Some(buffer)))
    }

    /// Stages a WRITE or, without a remote address, a SEND of a copy of `bytes`.
    pub(super) fn stage_inline(
        &mut self,
        task: u32,
        peer: PeerId,
        op: SendOp,
        remote: Option<RemoteAddr>,
        bytes: &[u8],
    ) -> Result<Ticket, StageError> {
        let limit = self.limits.inline_bytes;
        match bytes.len() {
            0 => return Err(StageError::ZeroLength),
            bytes if bytes > limit => return Err(StageError::TooLong { bytes, limit }),
            _ => {}
        }
        if let Some(remote) = remote {
            self.buffers.check_range(remote, bytes.len() as u64)?;
        }
        let ticket = self.stage(task, peer, op, (Local::Inline, Payload::EMPTY), None);
        let request = self.in_flight.requests.slot_mut(ticket.slot);
        request.inline.extend_from_slice(bytes);
        Ok(ticket)
    }

    /// Stages an atomic on the word at `remote`.
    pub(super) fn stage_atomic(
        &mut self,
        task: u32,
        peer: PeerId,
        op: SendOp,
        remote: RemoteAddr,
    ) -> Result<Ticket, StageError> {
        let offset = remote.offset;
        if !offset.is_multiple_of(8) {
            return Err(StageError::Unaligned { offset });
        }
        self.buffers.check_range(remote, 8)?;
        if !self.limits.atomics || self.kind(peer) != QpKind::Rc {
            return Err(StageError::NotSupported { what: "an atomic" });
        }
        let (word, sge) = self.buffers.word()?;
        Ok(self.stage(task, peer, op, (Local::Word, Payload::Region(sge)), Some(word)))
    }

    /// Stages a masked CAS of the word at `remote`.
    pub(super) fn stage_masked(
        &mut self,
        task: u32,
        peer: PeerId,
        remote: RemoteAddr,
        swap: &MaskedSwap,
    ) -> Result<Ticket, StageError> {
        if !self.limits.masked_atomics {
            return Err(StageError::NotSupported { what: "a masked CAS" });
        }
        // Becomes a masked one when its list is built, in whose arena the operands are.
        let op = SendOp::CompareSwap {
            remote,
            compare: swap.compare,
            swap: swap.swap,
        };
        let ticket = self.stage_atomic(task, peer, op, remote)?;
        let request = self.in_flight.requests.slot_mut(ticket.slot);
        (request.local, request.swap) = (Local::MaskedWord, *swap);
        Ok(ticket)
    }

    /// # Panics
    /// If the pool has no such destination.
    #[inline(always)]
    fn kind(&self, peer: PeerId) -> QpKind {
        let queue = self.peers.get(peer.index());
        queue.expect("the peer is of this pool").kind
    }

    #[inline(always)]
    fn stage(
        &mut self,
        task: u32,
        peer: PeerId,
        op: SendOp,
        (local, payload): (Local, Payload),
        buffer: Option<Buffer>,
    ) -> Ticket {
        self.kind(peer);
        let state = &mut self.in_flight.tasks[task as usize];
        let life = state.life;
        let requests = &mut self.in_flight.requests;
        let (ticket, request) = requests.stage(&mut state.staged, Owner { task, life });
        request.wr = SendWr {
            wr_id: ticket.wr_id(),
            op,
            payload,
            signaled: false,
            fence: false,
        };
        (request.peer, request.local, request.buffer) = (peer, local, buffer);
        ticket
    }

    /// Submits the sync that begins with `first`. The last request to each destination is signaled.
    #[inline]
    pub(super) fn submit(&mut self, first: u32) {
        self.in_flight.sync_count += 1;
        let request = self.in_flight.requests.slot_mut(first);
        request.sync = SyncState {
            pending: 1,
            since: self.now,
            ..SyncState::default()
        };
        // Most syncs have one request.
        if request.next == NONE {
            (request.stage, request.head, request.wr.signaled) = (Stage::Queued, first, true);
            self.peers[request.peer.index()].push(first);
            return;
        }
        let count = self.queue(first, first);
        self.in_flight.requests.slot_mut(first).sync.pending = count;
    }

    /// Submits the staged requests of `task` without anybody who waits for them.
    pub(super) fn detach(&mut self, task: u32) {
        let first = self.in_flight.seal(task);
        let count = self.queue(first, NONE);
        self.in_flight.detached_count += count;
        self.in_flight.tasks[task as usize].detached += count;
    }

    /// Hands the list that begins with `first` to the queues of its destinations. Returns the number of requests.
    fn queue(&mut self, first: u32, head: u32) -> u32 {
        let (mut count, mut slot) = (0, first);
        while slot != NONE {
            let request = self.in_flight.requests.slot_mut(slot);
            request.stage = Stage::Queued;
            request.head = head;
            if head == NONE {
                request.sync.since = self.now;
            }
            let queue = &mut self.peers[request.peer.index()];
            queue.push(slot);
            queue.last = slot;
            slot = request.next;
            count += 1;
        }
        slot = first;
        while slot != NONE {
            let request = self.in_flight.requests.slot_mut(slot);
            request.wr.signaled = self.peers[request.peer.index()].last == slot;
            slot = request.next;
        }
        count
    }

    /// Wakes `task` at `at`, or earlier if an earlier timer of it is set: then the task sets this one again.
    pub(super) fn wake_at(&mut self, task: u32, at: Ns) {
        let state = &mut self.in_flight.tasks[task as usize];
        if at < state.wake_at {
            state.wake_at = at;
            self.timers.arm(task, at);
        }
    }

    /// When the pool must step next though nothing arrives.
    pub(super) fn next_step(&self) -> Ns {
        let watch = self.in_flight.sync_count > 0 || self.in_flight.detached_count > 0;
        let next = match watch {
            true => self.timers.next().min(self.watch_at),
            false => self.timers.next(),
        };
        // Tasks that wait for a conflict slot get one when the limits relax.
        match self.races.slots.waiting.is_empty() {
            true => next,
            false => next.min(self.races.conflicts.evaluate_at()),
        }
    }
}
