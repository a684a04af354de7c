//! [`SimContext`]: the control path, and sleeping.

use crate::device::NEVER;
use crate::handles::{SimCq, SimDeviceMemory, SimMr, SimQp, SimSharedMr, SimSrq};
use crate::model::objects::{Cq, Qp, QpInCard, QpQueues, RecvQueue, Reliable};
use crate::model::order::Order;
use crate::model::send_queue::SendQueue;
use crate::world::SimNet;
use crate::{Sim, SimDevice};
use drover_base::{Cpu, Ns};
use drover_mem::{AllocError, PageWish, Region};
use drover_sim::{Ps, VirtualCpu};
use drover_verbs::provide::{check_domain, check_limit, check_queue_pair, check_registration};
use drover_verbs::{
    Access, Bell, Caps, Context, CreateError, Export, ImportError, QpKind, QpOptions, QpState, Qpn,
    RegisterError, RemoteRegion, UdDest, Waker,
};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A simulated thread's view of its machine's card, with the core on which the thread runs. Several contexts may share
/// a core ([`context_on`](SimDevice::context_on)). Creating objects takes no virtual time.
#[derive(Debug)]
pub struct SimContext {
    sim: SimNet,
    id: u32,
    domain: u32,
    cpu: VirtualCpu,
    device: SimDevice,
    woken: Arc<AtomicBool>,
}

impl SimContext {
    pub(crate) fn new(
        sim: SimNet,
        (id, domain): (u32, u32),
        cpu: VirtualCpu,
        device: &SimDevice,
    ) -> SimContext {
        SimContext {
            sim,
            id,
            domain,
            cpu,
            device: device.clone(),
            woken: Arc::default(),
        }
    }

    /// Index, from 0, of the machine whose card this context uses.
    pub fn machine(&self) -> u16 {
        self.device.machine
    }

    /// Whether something has arrived, or a waker was used, since `arm`.
    fn is_rung(&self) -> bool {
        // Acquire: pairs with the waker's Release.
        self.woken.load(Ordering::Acquire) || self.sim.with(|net, _| net.ctxs.at(self.id).rung)
    }

    fn set_rung(&self, rung: bool) {
        self.woken.store(rung, Ordering::Release);
        self.sim.with(|net, _| net.ctxs.at(self.id).rung = rung);
    }
}

impl Context<Sim> for SimContext {
    fn cpu(&self) -> &VirtualCpu {
        &self.cpu
    }

    fn caps(&self) -> &Caps {
        &self.device.caps
    }

    fn alloc(&self, bytes: usize, pages: PageWish) -> Result<Region, AllocError> {
        Region::private(bytes, pages)
    }

    fn register(&self, region: &Region, access: Access) -> Result<SimMr, RegisterError> {
        check_registration(region, access)?;
        let shared = SimSharedMr::new(&self.sim, &self.device, self.domain, region, access);
        Ok(SimMr::of(&self.sim, &shared))
    }

    fn adopt(&self, shared: &SimSharedMr) -> Result<SimMr, RegisterError> {
        check_domain(shared.is_of(&self.device, self.domain))?;
        Ok(SimMr::of(&self.sim, shared))
    }

    fn alloc_device(&self, bytes: usize, access: Access) -> Result<SimDeviceMemory, RegisterError> {
        SimDeviceMemory::new(&self.sim, &self.device, self.domain, bytes, access)
    }

    fn create_cq(&self, depth: usize) -> Result<SimCq, CreateError> {
        let cq = Cq {
            ctx: self.id,
            depth,
            entries: VecDeque::new(),
            overrun: false,
            sharing: None,
        };
        let id = self.sim.with(|net, _| net.cqs.add(cq));
        Ok(SimCq::new(self.sim.clone(), id))
    }

    fn create_srq(&self, depth: usize) -> Result<SimSrq, CreateError> {
        check_limit("a shared receive queue", depth, self.caps().recv_depth_max)?;
        let recvs = RecvQueue::new(self.domain, depth);
        let id = self.sim.with(|net, _| net.srqs.add(recvs));
        Ok(SimSrq::new(self.sim.clone(), id))
    }

    fn create_qp(&self, options: &QpOptions<'_, Sim>) -> Result<SimQp, CreateError> {
        check_queue_pair(self.caps(), options)?;
        let machine = self.device.machine;
        let qpn = self.sim.with(|net, _| {
            let contexts = &net.prices.p.context;
            let (out, served) = (contexts.weight_out, contexts.weight_in);
            let register = net.registers.at(self.device.registers).assign(self.id);
            let places = net.nic(machine).caches.add(options.kind, out, served);
            net.qps.add(Qp {
                ctx: self.id,
                machine,
                kind: options.kind,
                state: match options.kind {
                    QpKind::Ud => QpState::ReadyToSend,
                    QpKind::Rc | QpKind::Uc => QpState::Init,
                },
                peer: None,
                qkey: options.qkey,
                inline_bytes: options.inline_bytes,
                queues: QpQueues {
                    send_cq: options.send_cq.id,
                    recv_cq: options.recv_cq.id,
                    srq: options.srq.map(|srq| srq.id),
                    srq_taken: 0,
                    recvs: RecvQueue::new(self.domain, options.recv_depth),
                    sharing: None,
                },
                sends: SendQueue::new(options.send_depth),
                order: Order::default(),
                card: QpInCard {
                    domain: self.domain,
                    register,
                    places,
                },
                rc: Reliable {
                    rnr_timeout: Ps::from(options.rnr_timeout),
                    ..Reliable::default()
                },
            })
        });
        Ok(SimQp::new(self.sim.clone(), qpn))
    }

    fn import_region(&self, export: &Export) -> Result<RemoteRegion, ImportError> {
        self.sim.with(|net, _| net.import(self.domain, export))
    }

    fn forget_region(&self, region: &RemoteRegion) {
        self.sim.with(|net, _| net.keys.forget(self.domain, region.rkey));
    }

    fn create_ah(&self, export: &Export) -> Result<UdDest, ImportError> {
        self.sim.with(|net, _| {
            let qpn = net.fabric.names.datagram_queue_pair(export)?;
            let target = net.qps.get(qpn).ok_or(ImportError::PeerGone)?;
            let (to, qkey) = ((target.ctx, target.machine), target.qkey);
            let ah = net.keys.add_ah(self.id, to);
            Ok(UdDest {
                ah,
                qpn: Qpn(qpn),
                qkey,
            })
        })
    }

    fn destroy_ah(&self, dest: &UdDest) {
        self.sim.with(|net, _| net.keys.remove_ah(self.id, dest.ah));
    }

    fn waker(&self) -> Waker {
        let (woken, core) = (self.woken.clone(), self.sim.waker(&self.cpu));
        Waker::new(move || {
            // Release: pairs with the Acquire in `is_rung`; publishes the actions before the wake.
            woken.store(true, Ordering::Release);
            core();
        })
    }

    fn bell(&self) -> Bell {
        self.sim.with(|net, _| net.fabric.names).bell(self.id)
    }

    fn arm(&self) {
        self.set_rung(false);
    }

    fn disarm(&self) {}

    /// Runs the whole world until a completion for this context arrives, its bell is rung (a WRITE or atomic to watched
    /// memory), its waker is used, or virtual time reaches `deadline`; without a deadline (`Ns::MAX`), also until no
    /// event is left.
    /// Returns at once after an arrival or a wake since `arm`. For code that drives a context from outside the world;
    /// an actor returns [`Progress::Idle`](drover_base::Progress::Idle) instead.
    fn park(&self, deadline: Ns) {
        let deadline_ps = match deadline {
            NEVER => Ps::MAX,
            deadline => Ps::from(deadline),
        };
        while !self.is_rung() {
            match self.sim.next_at() {
                Some(at) if at <= deadline_ps => self.sim.run_until_ps(at),
                _ if deadline == NEVER => break,
                _ => {
                    self.sim.run_until_ps(deadline_ps);
                    break;
                }
            }
        }
        self.cpu.refresh();
    }
}

impl Drop for SimContext {
    fn drop(&mut self) {
        // The tables keep a dropped context: messages to it still need an address at which they fail.
        self.set_rung(false);
    }
}
