//! [`ShmQp`]: states of queue pairs, flushing, and both ends of a connection. Posting is in [`post`].

mod post;

use crate::Shm;
use crate::bell::RemoteBell;
use crate::core::Core;
use crate::cq::{CqShared, Retired};
use crate::domain::map;
use crate::flight::{self, Flight};
use crate::inbox::Inbox;
use crate::lane::{
    CLAIM, CLAIMED, Geometry, LaneConsumer, LaneMemory, LaneProducer, STATE, WAITING, publish_posted,
};
use crate::pending::Pending;
use crate::recv::RecvQueue;
use crate::ring::Memory;
use crate::wire::{self, QpExport};
use drover_base::Ns;
use drover_base::sync::Ordering;
use drover_mem::{AllocError, NativeCpu, PageWish, Region};
use drover_verbs::provide::check_queue_pair;
use drover_verbs::{
    ConnectError, CreateError, DatagramList, Export, Fenced, ImportError, Opcode, PostError, PostErrorKind,
    QpKind, QpOptions, QpState, Qpn, QueuePair, RecvList, SHORT_BYTES, SendList, SendOp, SendWr, Wc,
    WcStatus, WrId, WriteList,
};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// A queue pair over shared memory. Dropping it destroys it.
pub struct ShmQp {
    queue: Rc<Queue>,
}

/// The part of a queue pair shared with its completion queues.
pub(crate) struct Queue {
    core: Rc<Core>,
    this: Weak<Queue>,
    kind: QpKind,
    qpn: Qpn,
    qkey: u32,
    state: Cell<QpState>,
    /// Whether datagrams can be posted, as long as a short list has them.
    sends_short: Cell<bool>,
    send_cq: Rc<CqShared>,
    recv_cq: Rc<CqShared>,
    recvs: Rc<RefCell<RecvQueue>>,
    has_srq: bool,
    /// Completion queues to take messages from at a post to our shared receive queue.
    srq_cqs: Option<Rc<RefCell<Vec<Rc<CqShared>>>>>,
    send_depth: u32,
    recv_depth: usize,
    inline_bytes: usize,
    rnr_timeout: Ns,
    /// Number of requests posted, and number whose queue space is free again.
    posted: Cell<u32>,
    retired: Retired,
    /// The queue pair's number at `send_cq`.
    sender: u32,
    /// The lane of a connected queue pair, from its peer.
    lane: Option<OwnLane>,
    peer: OnceCell<RemoteEnd>,
    pending: RefCell<Pending>,
    pending_count: Cell<usize>,
    /// Whether the lane of a connected queue pair is observed.
    listening: Cell<bool>,
    lanes_made: Cell<u64>,
    /// Whether all posts of the peer see that this end has failed.
    fenced: Cell<bool>,
}

struct OwnLane {
    memory: LaneMemory,
    geometry: Geometry,
    recvs_posted: Cell<u64>,
    /// Whether all its descriptors that were given away are locked.
    ticketed: Cell<bool>,
}

/// The other end of a connected queue pair.
pub(crate) struct RemoteEnd {
    pub(crate) lane: LaneProducer,
    pub(crate) geometry: Geometry,
    pub(crate) bell: Rc<RemoteBell>,
    /// Whether the kernel's barrier is missing at one end, so that every post has a fence.
    needs_fences: bool,
    /// Lock on the lane's file, which shows the receiver that we live; the kernel releases it when the process ends.
    _ticket: Arc<OwnedFd>,
    /// Number of messages sent that take a RECV, and number of RECVs known to be posted for them.
    pub(crate) sent: Cell<u64>,
    pub(crate) posted_seen: Cell<u64>,
}

impl RemoteEnd {
    /// Announces one-sided requests; to be called before [`is_gone`](RemoteEnd::is_gone).
    #[inline(always)]
    pub(crate) fn take_off(&self) -> Flight<'_, LaneMemory> {
        flight::take_off(self.lane.memory(), self.needs_fences)
    }

    /// Whether the other end is gone or failed. One load of a line that changes only once.
    #[inline(always)]
    pub(crate) fn is_gone(&self) -> bool {
        self.lane.memory().load(STATE, Ordering::Relaxed) != 0
    }
}

/// Numbers count up from a random start, so that the numbers of two processes hardly ever collide.
fn next_qpn(core: &Core) -> Qpn {
    use drover_base::Cpu;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let _ = NEXT.compare_exchange(
        0,
        (drover_base::mix(u64::from(std::process::id()) ^ core.cpu.refresh().0) as u32) | 1,
        Ordering::Relaxed,
        Ordering::Relaxed,
    );
    loop {
        let qpn = NEXT.fetch_add(1, Ordering::Relaxed) & 0x00ff_ffff;
        if qpn > 1 {
            return Qpn(qpn);
        }
    }
}

impl Queue {
    pub(crate) fn create(core: &Rc<Core>, options: &QpOptions<'_, Shm>) -> Result<Rc<Queue>, CreateError> {
        check_queue_pair(&core.caps, options)?;
        let recv_depth = if options.srq.is_some() {
            0
        } else {
            options.recv_depth
        };
        let lane = match options.kind {
            QpKind::Ud => None,
            QpKind::Rc => Some(OwnLane::create(core, options.recv_depth, recv_depth)?),
            QpKind::Uc => Some(OwnLane::create(core, options.recv_depth, 0)?),
        };
        let (send_cq, recv_cq) = (options.send_cq.shared.clone(), options.recv_cq.shared.clone());
        send_cq.reserve(options.send_depth);
        recv_cq.reserve(recv_depth);
        let retired = Retired::default();
        let sender = send_cq.add_sender(retired.clone());
        let queue = Rc::new_cyclic(|this| Queue {
            core: core.clone(),
            this: this.clone(),
            kind: options.kind,
            qpn: next_qpn(core),
            qkey: options.qkey,
            sends_short: Cell::new(options.kind == QpKind::Ud && options.inline_bytes >= SHORT_BYTES),
            state: Cell::new(if options.kind == QpKind::Ud {
                QpState::ReadyToSend
            } else {
                QpState::Init
            }),
            send_cq,
            recv_cq,
            recvs: match options.srq {
                Some(srq) => srq.recvs.clone(),
                None => Rc::new(RefCell::new(RecvQueue::new(recv_depth))),
            },
            has_srq: options.srq.is_some(),
            srq_cqs: options.srq.map(|srq| srq.cqs.clone()),
            send_depth: options.send_depth as u32,
            recv_depth,
            inline_bytes: options.inline_bytes,
            rnr_timeout: options.rnr_timeout,
            posted: 0.into(),
            retired,
            sender,
            lane,
            peer: OnceCell::new(),
            pending: Pending::default().into(),
            pending_count: 0.into(),
            lanes_made: 0.into(),
            fenced: false.into(),
            listening: Cell::new(options.srq.is_some() || options.kind == QpKind::Ud),
        });
        if let Some(lane) = &queue.lane {
            let dormant = !queue.has_srq;
            queue.receive_from(
                lane.memory.region().clone(),
                lane.geometry,
                dormant,
                (false, false),
            );
        }
        if let Some(cqs) = &queue.srq_cqs {
            cqs.borrow_mut().push(queue.recv_cq.clone());
        }
        Ok(queue)
    }

    pub(crate) fn kind(&self) -> QpKind {
        self.kind
    }

    pub(crate) fn qpn(&self) -> Qpn {
        self.qpn
    }

    pub(crate) fn qkey(&self) -> u32 {
        self.qkey
    }

    pub(crate) fn recvs(&self) -> &Rc<RefCell<RecvQueue>> {
        &self.recvs
    }

    fn receive_from(
        &self,
        region: Region,
        geometry: Geometry,
        dormant: bool,
        (ticketed, named): (bool, bool),
    ) -> Option<Qpn> {
        let this = self.this.upgrade().expect("a queue pair in use");
        let serial = self.lanes_made.replace(self.lanes_made.get() + 1);
        let lane = LaneConsumer::new(LaneMemory::new(region, geometry), geometry);
        let inbox = Inbox::new(lane, this, serial, ticketed, named);
        let name = inbox.sender_name();
        self.recv_cq.add_lane(inbox, dormant);
        name
    }

    /// Creates a lane into a UD queue pair, and its ticket. Messages through a lane that is `named` carry the number that is
    /// returned, instead of the one that their sender writes.
    fn lane_for_a_sender(&self, named: bool) -> Result<(Geometry, OwnedFd, Option<Qpn>), AllocError> {
        self.recv_cq.reap(self);
        let lane = OwnLane::create(&self.core, self.recv_depth, 0)?;
        let fd = lane.descriptor()?;
        let ticket = ticket(&fd, FlockOperation::NonBlockingLockExclusive);
        let region = lane.memory.region().clone();
        let name = self.receive_from(region, lane.geometry, false, (ticket.is_some(), named));
        Ok((lane.geometry, ticket.unwrap_or(fd), name))
    }

    fn export(&self, named: bool) -> Result<(Export, Option<Qpn>), AllocError> {
        let (geometry, fd, name) = match &self.lane {
            Some(lane) => (lane.geometry, lane.ticket()?, None),
            None => self.lane_for_a_sender(named)?,
        };
        let export = QpExport {
            kind: self.kind,
            qpn: self.qpn.0,
            qkey: self.qkey,
            ring_shift: geometry.shift() as u8,
            recv_slots: geometry.recv_slots() as u32,
            needs_fences: !self.core.bell.has_barrier(),
        };
        let export = Export {
            bytes: wire::encode_qp(&export),
            fds: vec![Arc::new(fd), self.core.bell.fd()],
        };
        Ok((export, name))
    }

    /// Observes the lane, because RECVs are being posted.
    #[inline(always)]
    fn listen(&self) {
        if !self.listening.replace(true) {
            self.recv_cq.wake_lane(self);
        }
    }

    /// Whether the lane need not be observed because no RECV is left. (Messages that arrive then are taken, and dropped
    /// if necessary, before the next RECVs are posted.)
    #[inline(always)]
    pub(crate) fn stop_listening(&self) -> bool {
        let stop = !self.has_srq && self.recvs.borrow().is_empty();
        if stop {
            self.listening.set(false);
        }
        stop
    }

    #[inline(always)]
    fn space(&self) -> usize {
        (self.send_depth - self.posted.get().wrapping_sub(self.retired.get())) as usize
    }

    /// Counts `wr` as posted and completes it, if its completion is visible.
    #[inline(always)]
    fn complete(&self, wr: &SendWr, status: WcStatus, byte_len: u32) {
        self.posted.set(self.posted.get().wrapping_add(1));
        if wr.signaled || status != WcStatus::Success {
            self.push_completion(wr.wr_id, opcode(&wr.op), status, byte_len, self.posted.get());
        }
    }

    #[inline(never)]
    fn push_completion(&self, wr_id: WrId, opcode: Opcode, status: WcStatus, byte_len: u32, up_to: u32) {
        let wc = Wc {
            wr_id,
            status,
            opcode,
            byte_len,
            imm: None,
            qpn: self.qpn,
            src_qpn: Qpn(0),
        };
        self.send_cq.push_sent(wc, self.sender, up_to);
    }

    /// Enters the error state: outstanding requests are flushed, and peers see that the queue pair is gone.
    pub(crate) fn fail(&self) {
        if self.state.replace(QpState::Error) == QpState::Error {
            return;
        }
        self.sends_short.set(false);
        self.flush_pending();
        self.recv_cq.drop_lanes(self);
        if self.has_srq {
            return;
        }
        while let Some(recv) = { self.recvs.borrow_mut().pop() } {
            self.flushed_recv(recv.wr_id);
        }
    }

    /// Shuts the peer out, and says whether its last request is over.
    fn fence(&self) -> Fenced {
        self.fail(); // the peer's posts see it from now on
        let Some(lane) = &self.lane else {
            return Fenced::Done;
        };
        if !self.fenced.replace(true) {
            self.core.bell.barrier_everywhere();
        }
        match flight::has_landed(&lane.memory) || lane.is_abandoned() {
            true => Fenced::Done,
            false => Fenced::Pending,
        }
    }

    fn flushed_recv(&self, wr_id: drover_verbs::WrId) {
        let wc = Wc {
            wr_id,
            status: WcStatus::Flushed,
            opcode: Opcode::Recv,
            byte_len: 0,
            imm: None,
            qpn: self.qpn,
            src_qpn: Qpn(0),
        };
        self.recv_cq.push_received(wc);
    }

    fn flush_pending(&self) {
        loop {
            let Some((wr, up_to)) = self.pending.borrow_mut().pop() else {
                break;
            };
            self.push_completion(wr.wr_id, opcode(&wr.op), WcStatus::Flushed, 0, up_to);
        }
        self.set_pending_count();
    }

    fn set_pending_count(&self) {
        let count = self.pending.borrow().len();
        self.pending_count.set(count);
        if let Some(peer) = self.peer.get() {
            peer.lane
                .memory()
                .store(WAITING, u64::from(count > 0), Ordering::Relaxed);
        }
    }

    /// Rings the peer's bell if the peer announced that it waits for RECVs or space.
    #[cold]
    pub(crate) fn ring_waiting_peer(&self) {
        if let (Some(peer), Some(lane)) = (self.peer.get(), &self.lane)
            && lane.memory.load(WAITING, Ordering::Relaxed) != 0
        {
            peer.bell.ring();
        }
    }

    pub(crate) fn core(&self) -> &Core {
        &self.core
    }
}

impl OwnLane {
    fn create(core: &Core, recv_depth: usize, recv_slots: usize) -> Result<OwnLane, AllocError> {
        let geometry = Geometry::new(core.options.ring_shift(recv_depth), recv_slots)
            .expect("depths were limited at creation");
        let region = Region::shared(geometry.bytes(), PageWish::Small)?;
        Ok(OwnLane {
            memory: LaneMemory::new(region, geometry),
            geometry,
            recvs_posted: 0.into(),
            ticketed: true.into(),
        })
    }

    fn descriptor(&self) -> Result<OwnedFd, AllocError> {
        let fd = self.memory.region().share(true)?;
        Ok(fd.expect("shared memory has a descriptor"))
    }

    /// The descriptor for the peer of a connection, with a lock that it keeps: exports may be made repeatedly, so they share
    /// it.
    fn ticket(&self) -> Result<OwnedFd, AllocError> {
        let fd = self.descriptor()?;
        let ticket = ticket(&fd, FlockOperation::NonBlockingLockShared);
        self.ticketed.set(self.ticketed.get() && ticket.is_some());
        Ok(ticket.unwrap_or(fd))
    }

    /// Whether no process holds a ticket of this connection's lane any more. Costs one or two system calls.
    fn is_abandoned(&self) -> bool {
        let (true, Some(fd)) = (self.ticketed.get(), self.memory.region().fd()) else {
            return false;
        };
        let free = flock(fd, FlockOperation::NonBlockingLockExclusive).is_ok();
        if free {
            let _ = flock(fd, FlockOperation::Unlock);
        }
        free
    }
}

/// A second description of a lane's file, locked. A lock belongs to one open file description, so the file is opened
/// again through /proc; the lock ends when the last descriptor of it is closed, in any process. `None` without /proc:
/// then the liveness of senders is unknown.
fn ticket(file: &OwnedFd, lock: FlockOperation) -> Option<OwnedFd> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let ticket = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).ok()?;
    flock(&ticket, lock).ok()?;
    Some(ticket)
}

fn opcode(op: &SendOp) -> Opcode {
    match op {
        SendOp::Send { .. } => Opcode::Send,
        SendOp::Write { .. } => Opcode::Write,
        SendOp::Read { .. } => Opcode::Read,
        SendOp::CompareSwap { .. } | SendOp::MaskedCompareSwap { .. } => Opcode::CompareSwap,
        SendOp::FetchAdd { .. } => Opcode::FetchAdd,
    }
}

impl ShmQp {
    pub(crate) fn new(queue: Rc<Queue>) -> ShmQp {
        ShmQp { queue }
    }
}

impl QueuePair<Shm> for ShmQp {
    fn qpn(&self) -> Qpn {
        self.queue.qpn
    }

    /// For UD, one export serves one sender: every call creates a lane. For RC and UC, all calls return the same lane,
    /// which one peer can use.
    fn export(&self) -> Result<Export, AllocError> {
        let (export, _) = self.queue.export(false)?;
        Ok(export)
    }

    fn export_for_sender(&self) -> Result<(Export, Option<Qpn>), AllocError> {
        self.queue.export(true)
    }

    fn forget_sender(&mut self, sender: Qpn) {
        self.queue.recv_cq.drop_sender(&self.queue, sender);
    }

    fn connect(&mut self, peer: &Export) -> Result<(), ConnectError> {
        let queue = &*self.queue;
        if queue.kind == QpKind::Ud || queue.state.get() != QpState::Init {
            return Err(ConnectError::WrongState {
                kind: queue.kind,
                state: queue.state.get(),
            });
        }
        let (export, lane, geometry, bell) = import_lane(&queue.core, peer)?;
        let ticket = peer.fds[0].clone();
        if export.kind != queue.kind {
            return Err(ConnectError::KindMismatch {
                ours: queue.kind,
                theirs: export.kind,
            });
        }
        if lane.memory().region().compare_swap_u64(CLAIM * 8, 0, CLAIMED) != 0 {
            let reason = "this export is in use: it is for one peer";
            return Err(ImportError::Malformed { reason }.into());
        }
        let peer = RemoteEnd {
            lane,
            geometry,
            bell,
            needs_fences: export.needs_fences || !queue.core.bell.has_barrier(),
            _ticket: ticket,
            sent: 0.into(),
            posted_seen: 0.into(),
        };
        assert!(queue.peer.set(peer).is_ok(), "a queue pair in Init has no peer");
        queue.state.set(QpState::ReadyToSend);
        Ok(())
    }

    fn state(&self) -> QpState {
        self.queue.state.get()
    }

    fn to_error(&mut self) {
        self.queue.fail();
    }

    fn fence(&mut self) -> Fenced {
        self.queue.fence()
    }

    #[inline]
    fn post_send(&mut self, _cpu: &NativeCpu, list: &SendList) -> Result<(), PostError> {
        match (self.queue.state.get(), self.queue.kind) {
            (QpState::ReadyToSend, QpKind::Ud) => self.queue.post_ud(list),
            (QpState::ReadyToSend, _) => self.queue.post_connected(list),
            (QpState::Error, _) => self.queue.post_flushed(list.wrs(), 0),
            (QpState::Init, _) => Err(PostError {
                accepted: 0,
                kind: PostErrorKind::NotReady,
            }),
        }
    }

    #[inline(always)]
    fn post_datagrams(&mut self, cpu: &NativeCpu, list: &mut DatagramList) -> Result<(), PostError> {
        if let Some((sends, signed)) = list.short()
            && self.queue.takes_short(sends.len())
        {
            return match (sends, signed) {
                ([send], []) if self.queue.post_one_short(send) => Ok(()),
                _ => self.queue.post_short(sends, signed),
            };
        }
        self.post_send(cpu, list.spread())
    }

    #[inline(always)]
    fn post_writes(&mut self, cpu: &NativeCpu, list: &mut WriteList) -> Result<(), PostError> {
        if self.queue.state.get() == QpState::ReadyToSend
            && let Some((writes, signed)) = list.short()
        {
            let kept = list.kept();
            let posted = match (writes, signed) {
                ([write], []) => self.queue.post_one_write(write, kept),
                _ => self.queue.post_short_writes(writes, signed, kept),
            };
            if posted {
                return Ok(());
            }
        }
        self.post_send(cpu, list.spread())
    }

    fn post_recv(&mut self, _cpu: &NativeCpu, list: &RecvList) -> Result<(), PostError> {
        let queue = &*self.queue;
        if queue.has_srq {
            return Err(PostError {
                accepted: 0,
                kind: PostErrorKind::NotSupported,
            });
        }
        if queue.state.get() == QpState::Error {
            for wr in list.wrs() {
                queue.flushed_recv(wr.wr_id);
            }
            return Ok(());
        }
        queue.listen();
        let tables = queue.core.tables.borrow();
        match &queue.lane {
            Some(lane) if queue.kind == QpKind::Rc => {
                let posted = lane.recvs_posted.get();
                let mut count = posted;
                let result = queue.recvs.borrow_mut().post(list, &tables, |wr| {
                    lane.geometry.set_recv_length(&lane.memory, count, wr.sge.len);
                    count += 1;
                });
                lane.recvs_posted.set(count);
                publish_posted(&lane.memory, count);
                queue.ring_waiting_peer();
                result
            }
            _ => {
                let posted = queue.recvs.borrow().len();
                queue.recv_cq.ingest(&queue.core, &queue.recvs, posted);
                queue.recvs.borrow_mut().post(list, &tables, |_| {})
            }
        }
    }
}

/// Maps the lane of a queue pair's export.
pub(crate) fn import_lane(
    core: &Core,
    export: &Export,
) -> Result<(QpExport, LaneProducer, Geometry, Rc<RemoteBell>), ImportError> {
    let qp = wire::decode_qp(&export.bytes)?;
    let [lane_fd, bell_fd] = export.fds.as_slice() else {
        return Err(ImportError::Malformed {
            reason: "a queue pair's export has two descriptors",
        });
    };
    let geometry =
        Geometry::new(u32::from(qp.ring_shift), qp.recv_slots as usize).ok_or(ImportError::Malformed {
            reason: "a ring beyond reason",
        })?;
    core.domain.check_pages(lane_fd)?;
    let region = map(lane_fd, geometry.bytes(), true)?;
    let bell = core.bells.borrow_mut().adopt(&core.domain.bell(bell_fd)?);
    Ok((
        qp,
        LaneProducer::new(LaneMemory::new(region, geometry), geometry),
        geometry,
        bell,
    ))
}

impl Drop for ShmQp {
    fn drop(&mut self) {
        let queue = &self.queue;
        queue.state.set(QpState::Error);
        queue.sends_short.set(false);
        queue.recv_cq.forget(queue, queue.recv_depth);
        queue.send_cq.forget(queue, queue.send_depth as usize);
        queue.send_cq.remove_sender(queue.sender);
        if let Some(cqs) = &queue.srq_cqs {
            let mut cqs = cqs.borrow_mut();
            if let Some(index) = cqs.iter().position(|cq| Rc::ptr_eq(cq, &queue.recv_cq)) {
                cqs.swap_remove(index);
            }
        }
    }
}
