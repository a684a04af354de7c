//! The data path: requests are attempted in order when they are posted, and again at every poll.

use super::fabric::{Fabric, Qp, Recv, fabric, failed};
use super::memory;
use super::send_queue::Request;
use drover_mem::{NativeCpu, timestamp};
use drover_verbs_ibv::ffi;
use std::sync::atomic::Ordering;

enum Attempt {
    Done(u32),
    /// The peer has no RECV.
    Wait,
    Failed(u32),
}

fn now_ns() -> u64 {
    NativeCpu::ticks_to_ns(timestamp())
}

/// The object behind a pointer of the library.
fn at<'a, T>(pointer: *mut T) -> &'a mut T {
    // SAFETY: the provider passes objects, requests and buffers of its own that live for the call.
    unsafe { &mut *pointer }
}

pub extern "C" fn post_send(qp: *mut ffi::Qp, mut wr: *mut ffi::SendWr, bad: *mut *mut ffi::SendWr) -> i32 {
    let qpn = at(qp).qp_num;
    let fabric = &mut *fabric();
    let mut errno = 0;
    while !wr.is_null() {
        errno = fabric.take(qpn, at(wr));
        if errno != 0 {
            *at(bad) = wr;
            break;
        }
        wr = at(wr).next;
    }
    fabric.run(qpn);
    errno
}

pub extern "C" fn post_recv(qp: *mut ffi::Qp, mut wr: *mut ffi::RecvWr, bad: *mut *mut ffi::RecvWr) -> i32 {
    let fabric = &mut *fabric();
    let qpn = at(qp).qp_num;
    while !wr.is_null() {
        let (recv, next) = recv_of(at(wr));
        let qp = fabric.qps.get_mut(&qpn).expect("a live queue pair");
        if qp.state == ffi::QPS_ERR {
            let cq = qp.recv_cq;
            fabric.complete(cq, failed(qpn, recv.wr_id, ffi::WC_WR_FLUSH_ERR), 0);
        } else if qp.recvs.wrs.len() == qp.recvs.depth {
            *at(bad) = wr;
            return libc::ENOMEM;
        } else {
            qp.recvs.wrs.push_back(recv);
        }
        wr = next;
    }
    0
}

pub extern "C" fn post_srq_recv(
    srq: *mut ffi::Srq,
    mut wr: *mut ffi::RecvWr,
    bad: *mut *mut ffi::RecvWr,
) -> i32 {
    let fabric = &mut *fabric();
    let recvs = fabric.srqs.get_mut(&at(srq).handle).expect("a live queue");
    while !wr.is_null() {
        let (recv, next) = recv_of(at(wr));
        if recvs.wrs.len() == recvs.depth {
            *at(bad) = wr;
            return libc::ENOMEM;
        }
        recvs.wrs.push_back(recv);
        wr = next;
    }
    0
}

fn recv_of(wr: &ffi::RecvWr) -> (Recv, *mut ffi::RecvWr) {
    let sge = match wr.num_sge {
        0 => ffi::Sge::default(),
        1 => *at(wr.sg_list),
        count => panic!("a RECV has at most one element, not {count}"),
    };
    assert!(wr.num_sge == 0 || sge.length > 0, "no bytes are no element");
    let recv = Recv { wr_id: wr.wr_id, sge };
    (recv, wr.next)
}

pub extern "C" fn poll_cq(cq: *mut ffi::Cq, count: i32, wcs: *mut ffi::Wc) -> i32 {
    let fabric = &mut *fabric();
    let waiting = fabric.qps.iter().filter(|(_, qp)| !qp.sends.is_empty());
    let waiting: Vec<u32> = waiting.map(|(qpn, _)| *qpn).collect();
    waiting.into_iter().for_each(|qpn| fabric.run(qpn));
    let mut taken = 0;
    while taken < count {
        let queue = fabric.cqs.get_mut(&at(cq).handle).expect("a live queue");
        let Some((wc, frees)) = queue.ready.pop_front() else {
            break;
        };
        *at(wcs.wrapping_add(taken as usize)) = wc;
        if let Some(qp) = fabric.qps.get_mut(&wc.qp_num) {
            qp.sends.free(frees);
        }
        taken += 1;
    }
    taken
}

pub extern "C" fn req_notify_cq(cq: *mut ffi::Cq, _solicited_only: i32) -> i32 {
    fabric().cqs.get_mut(&at(cq).handle).expect("a live queue").armed = true;
    0
}

impl Fabric {
    /// Takes one request into the send queue; returns 0 or an error number.
    fn take(&mut self, qpn: u32, wr: &ffi::SendWr) -> i32 {
        let qp = self.qps.get_mut(&qpn).expect("a live queue pair");
        if !matches!(qp.state, ffi::QPS_RTS | ffi::QPS_ERR) {
            return libc::EINVAL;
        }
        let request = request(qp, wr);
        qp.sends.take(request)
    }

    /// Executes requests of one queue pair in order until one has to wait.
    fn run(&mut self, qpn: u32) {
        while let Some(qp) = self.qps.get(&qpn) {
            if qp.state == ffi::QPS_ERR {
                return self.break_qp(qpn);
            }
            let Some(request) = qp.sends.front().cloned() else {
                return;
            };
            match self.attempt(qpn, &request) {
                Attempt::Done(byte_len) => self.done(qpn, &request, byte_len),
                Attempt::Wait if !self.waited_enough(qpn) => return,
                Attempt::Wait => self.refuse(qpn, ffi::WC_RNR_RETRY_EXC_ERR),
                Attempt::Failed(status) => self.refuse(qpn, status),
            }
        }
    }

    fn waited_enough(&mut self, qpn: u32) -> bool {
        let qp = self.qps.get_mut(&qpn).expect("it waits");
        let since = qp.sends.waits_since(now_ns());
        let tries = u64::from(qp.attr.local.rnr_retry);
        let dest = qp.attr.dest_qp_num;
        let wait = self.qps.get(&dest).map_or(0, Qp::rnr_wait_ns);
        tries != 7 && now_ns() - since > tries * wait
    }

    fn done(&mut self, qpn: u32, request: &Request, byte_len: u32) {
        let qp = self.qps.get_mut(&qpn).expect("it was executed");
        qp.sends.pop();
        if !request.signaled {
            return qp.sends.end_silently();
        }
        let (frees, cq) = (qp.sends.end(), qp.send_cq);
        let wc = ffi::Wc {
            wr_id: request.wr_id,
            opcode: match request.opcode {
                ffi::WR_RDMA_WRITE | ffi::WR_RDMA_WRITE_WITH_IMM => ffi::WC_RDMA_WRITE,
                ffi::WR_RDMA_READ => ffi::WC_RDMA_READ,
                ffi::WR_ATOMIC_CMP_AND_SWP => ffi::WC_COMP_SWAP,
                ffi::WR_ATOMIC_FETCH_AND_ADD => ffi::WC_FETCH_ADD,
                _ => ffi::WC_SEND,
            },
            byte_len,
            qp_num: qpn,
            ..ffi::Wc::default()
        };
        self.complete(cq, wc, frees);
    }

    /// Fails the first waiting request and flushes those after it.
    fn refuse(&mut self, qpn: u32, status: u32) {
        let qp = self.qps.get_mut(&qpn).expect("it failed");
        let request = qp.sends.pop().expect("a request that failed");
        let cq = qp.send_cq;
        self.fail(qpn, cq, request.wr_id, status);
        self.break_qp(qpn);
    }

    fn attempt(&mut self, qpn: u32, request: &Request) -> Attempt {
        let qp = &self.qps[&qpn];
        let (pd, kind, dest) = (qp.pd, qp.kind, qp.attr.dest_qp_num);
        let fetches = request.opcode >= ffi::WR_RDMA_READ;
        let bytes = match fetches {
            true => Vec::new(),
            false => match self.gathered(pd, request) {
                Some(bytes) => bytes,
                None => return Attempt::Failed(ffi::WC_LOC_PROT_ERR),
            },
        };
        if kind == ffi::QPT_UD {
            self.datagram(qpn, request, &bytes);
            return Attempt::Done(0);
        }
        let connected = self.qps.get(&dest).is_some_and(|peer| {
            matches!(peer.state, ffi::QPS_RTR | ffi::QPS_RTS)
                && peer.attr.dest_qp_num == qpn
                && peer.kind == kind
        });
        let attempt = match connected {
            true => self.carry_out(pd, dest, request, &bytes),
            false => Attempt::Failed(ffi::WC_RETRY_EXC_ERR),
        };
        match attempt {
            Attempt::Failed(ffi::WC_LOC_PROT_ERR) => attempt,
            Attempt::Failed(status) if kind == ffi::QPT_RC => {
                // The responder's end fails too if it found the fault.
                if matches!(status, ffi::WC_REM_ACCESS_ERR | ffi::WC_REM_INV_REQ_ERR) {
                    self.break_qp(dest);
                }
                attempt
            }
            Attempt::Wait if kind == ffi::QPT_RC => attempt,
            Attempt::Failed(_) | Attempt::Wait => Attempt::Done(0), // lost, over UC
            done => done,
        }
    }

    fn carry_out(&mut self, pd: usize, peer: u32, request: &Request, bytes: &[u8]) -> Attempt {
        let there = self.qps[&peer].pd;
        match request.opcode {
            ffi::WR_SEND | ffi::WR_SEND_WITH_IMM => self.send(peer, request, bytes),
            ffi::WR_RDMA_WRITE | ffi::WR_RDMA_WRITE_WITH_IMM => self.write(peer, request, bytes),
            ffi::WR_RDMA_READ => {
                let len: u64 = request.sges.iter().map(|sge| u64::from(sge.length)).sum();
                let (key, offset) = (request.rkey, request.remote_addr);
                let Some(addr) = self.address(there, key, offset, len, ffi::ACCESS_REMOTE_READ) else {
                    return Attempt::Failed(ffi::WC_REM_ACCESS_ERR);
                };
                let bytes = memory::load(addr, len as usize);
                self.scatter(pd, &request.sges, &bytes)
                    .map_or(Attempt::Failed(ffi::WC_LOC_PROT_ERR), |()| {
                        Attempt::Done(len as u32)
                    })
            }
            _ => self.atomic(pd, there, request),
        }
    }

    fn atomic(&mut self, pd: usize, there: usize, request: &Request) -> Attempt {
        let (key, offset) = (request.rkey, request.remote_addr);
        if !offset.is_multiple_of(8) {
            return Attempt::Failed(ffi::WC_REM_INV_REQ_ERR);
        }
        let Some(addr) = self.address(there, key, offset, 8, ffi::ACCESS_REMOTE_ATOMIC) else {
            return Attempt::Failed(ffi::WC_REM_ACCESS_ERR);
        };
        let word = memory::word_at(addr);
        let (operand, order) = (request.compare_add, Ordering::AcqRel);
        let old = match request.opcode {
            ffi::WR_ATOMIC_FETCH_AND_ADD => word.fetch_add(operand, order),
            _ => word
                .compare_exchange(operand, request.swap, order, Ordering::Acquire)
                .unwrap_or_else(|old| old),
        };
        self.scatter(pd, &request.sges, &old.to_ne_bytes())
            .map_or(Attempt::Failed(ffi::WC_LOC_PROT_ERR), |()| Attempt::Done(8))
    }

    fn write(&mut self, peer: u32, request: &Request, bytes: &[u8]) -> Attempt {
        let with_imm = request.opcode == ffi::WR_RDMA_WRITE_WITH_IMM;
        if with_imm && self.front_recv(peer).is_none() {
            return Attempt::Wait;
        }
        let (key, offset, len) = (request.rkey, request.remote_addr, bytes.len() as u64);
        let access = ffi::ACCESS_REMOTE_WRITE;
        match self.address(self.qps[&peer].pd, key, offset, len, access) {
            _ if bytes.is_empty() => {}
            Some(addr) => memory::store(addr, bytes),
            None => return Attempt::Failed(ffi::WC_REM_ACCESS_ERR),
        }
        if with_imm {
            let recv = self.take_recv(peer).expect("it was there");
            self.received(peer, &recv, ffi::WC_RECV_RDMA_WITH_IMM, bytes.len(), request, 0);
        }
        Attempt::Done(0)
    }

    fn send(&mut self, peer: u32, request: &Request, bytes: &[u8]) -> Attempt {
        let Some(recv) = self.front_recv(peer) else {
            return Attempt::Wait;
        };
        let qp = &self.qps[&peer];
        let (pd, kind, cq) = (qp.pd, qp.kind, qp.recv_cq);
        let sge = recv.sge;
        let access = ffi::ACCESS_LOCAL_WRITE;
        let (ours, theirs) = match self.address(pd, sge.lkey, sge.addr, u64::from(sge.length), access) {
            _ if bytes.len() > sge.length as usize => (ffi::WC_LOC_LEN_ERR, ffi::WC_REM_INV_REQ_ERR),
            None => (ffi::WC_LOC_PROT_ERR, ffi::WC_REM_OP_ERR),
            Some(addr) => {
                memory::store(addr, bytes);
                self.take_recv(peer);
                self.received(peer, &recv, ffi::WC_RECV, bytes.len(), request, 0);
                return Attempt::Done(0);
            }
        };
        if kind == ffi::QPT_RC {
            self.take_recv(peer);
            self.complete(cq, failed(peer, recv.wr_id, ours), 0);
            self.break_qp(peer);
        }
        Attempt::Failed(theirs)
    }

    /// Delivers a datagram, or drops it silently.
    fn datagram(&mut self, from: u32, request: &Request, bytes: &[u8]) {
        let to = request.remote_qpn;
        let welcome = self.qps.get(&to).is_some_and(|qp| {
            qp.kind == ffi::QPT_UD && qp.state == ffi::QPS_RTS && qp.attr.qkey == request.remote_qkey
        });
        let Some(recv) = welcome.then(|| self.front_recv(to)).flatten() else {
            return;
        };
        let len = 40 + bytes.len();
        let (pd, sge) = (self.qps[&to].pd, recv.sge);
        let access = ffi::ACCESS_LOCAL_WRITE;
        let fits = len <= sge.length as usize;
        let Some(addr) = fits
            .then(|| self.address(pd, sge.lkey, sge.addr, len as u64, access))
            .flatten()
        else {
            return;
        };
        self.take_recv(to);
        memory::store(addr, &[0xa5; 40]);
        memory::store(addr + 40, bytes);
        self.received(to, &recv, ffi::WC_RECV, len, request, from);
    }

    /// Completes a RECV.
    fn received(&mut self, qpn: u32, recv: &Recv, opcode: u32, len: usize, request: &Request, from: u32) {
        let with_imm = matches!(
            request.opcode,
            ffi::WR_SEND_WITH_IMM | ffi::WR_RDMA_WRITE_WITH_IMM
        );
        let wc = ffi::Wc {
            wr_id: recv.wr_id,
            opcode,
            byte_len: len as u32,
            imm_data: if with_imm { request.imm_data } else { 0xffff_ffff },
            qp_num: qpn,
            src_qp: from,
            wc_flags: if with_imm { ffi::WC_WITH_IMM } else { 0 },
            ..ffi::Wc::default()
        };
        self.complete(self.qps[&qpn].recv_cq, wc, 0);
    }
}

/// The stored form of a request: inline payloads are copied now.
fn request(qp: &Qp, wr: &ffi::SendWr) -> Request {
    let sges: Vec<ffi::Sge> = (0..wr.num_sge as usize)
        .map(|n| *at(wr.sg_list.wrapping_add(n)))
        .collect();
    let inline = (wr.send_flags & ffi::SEND_INLINE != 0).then(|| {
        let pieces = sges
            .iter()
            .map(|sge| memory::load(sge.addr as usize, sge.length as usize));
        pieces.collect::<Vec<_>>().concat()
    });
    // SAFETY: every field is a number or a pointer that is not followed, and the largest member was initialized.
    let target = unsafe { wr.wr.atomic };
    // SAFETY: as above.
    let datagram = unsafe { wr.wr.ud };
    let to_ah = qp.kind == ffi::QPT_UD;
    assert!(
        !to_ah || !datagram.ah.is_null(),
        "a datagram needs an address handle"
    );
    // SAFETY: as above.
    let rdma = unsafe { wr.wr.rdma };
    let is_atomic = wr.opcode >= ffi::WR_ATOMIC_CMP_AND_SWP;
    Request {
        wr_id: wr.wr_id,
        opcode: wr.opcode,
        signaled: wr.send_flags & ffi::SEND_SIGNALED != 0,
        imm_data: wr.imm_data,
        remote_addr: target.remote_addr,
        rkey: if is_atomic { target.rkey } else { rdma.rkey },
        compare_add: target.compare_add,
        swap: target.swap,
        remote_qpn: datagram.remote_qpn,
        remote_qkey: datagram.remote_qkey,
        inline,
        sges,
    }
}
