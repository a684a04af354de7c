//! The tables behind the structures, and the effects of completions.

use super::memory;
use super::send_queue::{Request, SendQueue};
use drover_verbs_ibv::ffi;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard};

/// The one fabric of this process.
pub static FABRIC: Mutex<Fabric> = Mutex::new(Fabric::new());

/// Locks the fabric, even after a test panicked while holding it. A thread that already holds it deadlocks.
pub fn fabric() -> MutexGuard<'static, Fabric> {
    FABRIC.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Tables of all objects, by their numbers.
pub struct Fabric {
    next: u32,
    pub objects_alive: usize,
    pub counts: Counts,
    /// Protection domain and thread domain of each parent domain.
    pub parents: BTreeMap<usize, (usize, usize)>,
    pub qps: BTreeMap<u32, Qp>,
    pub cqs: BTreeMap<u32, Cq>,
    pub srqs: BTreeMap<u32, Recvs>,
    pub mrs: BTreeMap<u32, Mr>,
    /// Memory on the card, by the address of its `ibv_dm`.
    pub card: BTreeMap<usize, Box<[u64]>>,
    /// Events not yet taken, by file descriptor of the completion channel. An event is the address of the `ibv_cq` that
    /// raised it.
    pub channels: BTreeMap<i32, VecDeque<usize>>,
    /// Kinds of asynchronous events not yet taken by any device, and number of those taken and not acknowledged.
    pub events: VecDeque<i32>,
    pub events_taken: usize,
}

/// Numbers of objects that are alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Opened devices.
    pub devices: usize,
    /// Protection domains, without parent domains.
    pub protection_domains: usize,
    /// Thread domains.
    pub thread_domains: usize,
    /// Parent domains.
    pub parent_domains: usize,
    /// Registrations of memory.
    pub registrations: usize,
    /// Pieces of memory on the card.
    pub device_memories: usize,
}

impl Counts {
    /// No objects.
    pub const NONE: Counts = Counts {
        devices: 0,
        protection_domains: 0,
        thread_domains: 0,
        parent_domains: 0,
        registrations: 0,
        device_memories: 0,
    };
}

/// Registered memory; its key is both local and remote.
pub struct Mr {
    pub pd: usize,
    pub addr: usize,
    pub len: u64,
    pub access: i32,
}

/// A completion queue.
pub struct Cq {
    /// Address of its `ibv_cq`, which its events carry.
    pub address: usize,
    /// File descriptor of its completion channel.
    pub channel: i32,
    /// Whether the next completion raises an event; no later one does until the queue is armed again.
    pub armed: bool,
    /// Completions, each with the number of send queue slots that polling it frees.
    pub ready: VecDeque<(ffi::Wc, usize)>,
}

/// RECVs of one queue pair, or of a shared receive queue.
#[derive(Default)]
pub struct Recvs {
    pub wrs: VecDeque<Recv>,
    pub depth: usize,
}

#[derive(Clone, Copy)]
pub struct Recv {
    pub wr_id: u64,
    pub sge: ffi::Sge,
}

/// A queue pair; `kind` and `state` are the header's numbers (`ffi::QPT_*`, `ffi::QPS_*`).
pub struct Qp {
    pub pd: usize,
    pub kind: u32,
    pub state: u32,
    pub send_cq: u32,
    pub recv_cq: u32,
    pub srq: Option<u32>,
    pub sends: SendQueue,
    pub recvs: Recvs,
    /// Attributes of the last transition to a state other than ERR. They include those of earlier transitions, because
    /// the provider passes them again.
    pub attr: ffi::QpAttr,
}

impl Qp {
    /// Time in nanoseconds that requesters wait for a RECV of this queue pair before they try again: 0.96 ms for timer
    /// code 13, which the tests' timeout of 5 ms leads to; 0.64 ms for all other codes, such as 12 of infinite
    /// timeouts.
    pub fn rnr_wait_ns(&self) -> u64 {
        match self.attr.local.min_rnr_timer {
            13 => 960_000,
            _ => 640_000,
        }
    }
}

impl Fabric {
    const fn new() -> Fabric {
        Fabric {
            next: 0x100,
            objects_alive: 0,
            counts: Counts::NONE,
            parents: BTreeMap::new(),
            qps: BTreeMap::new(),
            cqs: BTreeMap::new(),
            srqs: BTreeMap::new(),
            mrs: BTreeMap::new(),
            card: BTreeMap::new(),
            channels: BTreeMap::new(),
            events: VecDeque::new(),
            events_taken: 0,
        }
    }

    /// The protection domain that `pd` is, or is a parent domain of.
    pub fn protection(&self, pd: *mut ffi::Pd) -> usize {
        self.parents.get(&(pd as usize)).map_or(pd as usize, |of| of.0)
    }

    /// Returns an unused number for a new object. Numbers are seven apart, so that a neighbouring one is invalid.
    pub fn number(&mut self) -> u32 {
        self.next += 7;
        self.next
    }

    /// Adds a completion to the queue `cq`, and raises an event if one was requested. `frees` is the number of send
    /// queue slots that polling it frees. Does nothing if the queue is gone.
    pub fn complete(&mut self, cq: u32, wc: ffi::Wc, frees: usize) {
        let Some(cq) = self.cqs.get_mut(&cq) else { return };
        cq.ready.push_back((wc, frees));
        if std::mem::take(&mut cq.armed) {
            self.channels.entry(cq.channel).or_default().push_back(cq.address);
            super::control::signal(cq.channel);
        }
    }

    /// Moves a queue pair to the error state: sends are flushed in order, then the RECVs of its own queue.
    pub fn break_qp(&mut self, qpn: u32) {
        let Some(qp) = self.qps.get_mut(&qpn) else { return };
        qp.state = ffi::QPS_ERR;
        let (sends, recvs) = (qp.sends.flush(), std::mem::take(&mut qp.recvs.wrs));
        let (send_cq, recv_cq) = (qp.send_cq, qp.recv_cq);
        for request in sends {
            self.fail(qpn, send_cq, request.wr_id, ffi::WC_WR_FLUSH_ERR);
        }
        for recv in recvs {
            let wc = failed(qpn, recv.wr_id, ffi::WC_WR_FLUSH_ERR);
            self.complete(recv_cq, wc, 0);
        }
    }

    /// Adds the completion of a send request that failed with `status` to the queue `cq`.
    pub fn fail(&mut self, qpn: u32, cq: u32, wr_id: u64, status: u32) {
        let frees = self.qps.get_mut(&qpn).map_or(1, |qp| qp.sends.end());
        self.complete(cq, failed(qpn, wr_id, status), frees);
    }

    /// Address in this process of `[offset, offset + len)` in the registration `key`; `None` if there is no such
    /// registration, or if it belongs to another protection domain than `pd`, is too short, or lacks one of the rights
    /// `access`.
    pub fn address(&self, pd: usize, key: u32, offset: u64, len: u64, access: i32) -> Option<usize> {
        let mr = self.mrs.get(&key)?;
        let inside = offset.checked_add(len).is_some_and(|end| end <= mr.len);
        (mr.pd == pd && inside && mr.access & access == access).then(|| mr.addr + offset as usize)
    }

    /// A copy of the payload of a SEND or WRITE, inline or gathered; `None` if its memory is not registered in `pd`.
    pub fn gathered(&self, pd: usize, request: &Request) -> Option<Vec<u8>> {
        if let Some(bytes) = &request.inline {
            return Some(bytes.clone());
        }
        let mut bytes = Vec::new();
        for sge in &request.sges {
            let addr = self.address(pd, sge.lkey, sge.addr, u64::from(sge.length), 0)?;
            bytes.extend(memory::load(addr, sge.length as usize));
        }
        Some(bytes)
    }

    /// Writes fetched bytes to the elements of a request; `None` if the memory of one is not registered for writing
    /// (those before it are written), or the bytes are too few.
    pub fn scatter(&self, pd: usize, sges: &[ffi::Sge], bytes: &[u8]) -> Option<()> {
        let mut at = 0;
        for sge in sges {
            let len = sge.length as usize;
            let addr = self.address(pd, sge.lkey, sge.addr, len as u64, ffi::ACCESS_LOCAL_WRITE)?;
            memory::store(addr, bytes.get(at..at + len)?);
            at += len;
        }
        Some(())
    }

    /// Removes and returns the RECV for the next message to `qpn`, of its own or its shared queue; `None` if none is
    /// posted.
    pub fn take_recv(&mut self, qpn: u32) -> Option<Recv> {
        self.recvs(qpn)?.wrs.pop_front()
    }

    /// The RECV for the next message to `qpn`, which stays posted; `None` if none is posted.
    pub fn front_recv(&mut self, qpn: u32) -> Option<Recv> {
        self.recvs(qpn)?.wrs.front().copied()
    }

    fn recvs(&mut self, qpn: u32) -> Option<&mut Recvs> {
        let qp = self.qps.get_mut(&qpn)?;
        match qp.srq {
            Some(srq) => self.srqs.get_mut(&srq),
            None => Some(&mut qp.recvs),
        }
    }
}

/// A completion with the status `status`; its opcode is that of a SEND.
pub fn failed(qpn: u32, wr_id: u64, status: u32) -> ffi::Wc {
    ffi::Wc {
        wr_id,
        status,
        qp_num: qpn,
        ..ffi::Wc::default()
    }
}
