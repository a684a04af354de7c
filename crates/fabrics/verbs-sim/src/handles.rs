//! Handles of queue pairs, queues and registrations; dropping a handle destroys its object.

use crate::model::keys::Mr;
use crate::model::post::{POST_RECV, POST_RECV_LIST};
use crate::world::{self, SimNet};
use crate::{Sim, SimDevice};
use drover_base::{Cost, Cpu};
use drover_mem::{AllocError, PageWish, Region};
use drover_sim::VirtualCpu;
use drover_verbs::provide::{Name, check_device_copy, check_device_memory, sge_within};
use drover_verbs::{
    Access, CompletionQueue, ConnectError, DeviceMemory, Export, Fenced, ImportError, MemoryRegion,
    PostError, QpKind, QpState, Qpn, QueuePair, RecvList, RegisterError, SendList, Sge, SharedQueue,
    SharedReceiveQueue, Watch, Wc,
};
use std::sync::Arc;

/// Poll of an available completion.
const POLL: Cost = Cost::new("verbs.poll");
/// Poll that finds no completion.
const POLL_EMPTY: Cost = Cost::new("verbs.poll_empty");

/// A simulated queue pair. Dropping it destroys it: its requests, its RECVs and its completions that were not polled
/// vanish.
#[derive(Debug)]
pub struct SimQp {
    sim: SimNet,
    qpn: u32,
}

impl SimQp {
    pub(crate) fn new(sim: SimNet, qpn: u32) -> SimQp {
        SimQp { sim, qpn }
    }
}

impl QueuePair<Sim> for SimQp {
    fn qpn(&self) -> Qpn {
        Qpn(self.qpn)
    }

    fn export(&self) -> Result<Export, AllocError> {
        self.sim.with(|net, _| {
            let kind = net.qps.at(self.qpn).kind;
            Ok(net.fabric.names.encode(&Name::Qp { qpn: self.qpn, kind }))
        })
    }

    fn connect(&mut self, peer: &Export) -> Result<(), ConnectError> {
        self.sim.with(|net, _| {
            let qp = net.qps.at(self.qpn);
            let (ours, state) = (qp.kind, qp.state);
            if ours == QpKind::Ud || state != QpState::Init {
                return Err(ConnectError::WrongState { kind: ours, state });
            }
            let (qpn, theirs) = net.fabric.names.queue_pair(peer)?;
            if ours != theirs {
                return Err(ConnectError::KindMismatch { ours, theirs });
            }
            let machine = net.qps.get(qpn).ok_or(ImportError::PeerGone)?.machine;
            let qp = net.qps.at(self.qpn);
            qp.peer = Some((qpn, machine));
            qp.state = QpState::ReadyToSend;
            Ok(())
        })
    }

    fn state(&self) -> QpState {
        self.sim.with(|net, _| net.qps.at(self.qpn).state)
    }

    fn to_error(&mut self) {
        self.sim.with(|net, queue| net.break_qp(self.qpn, queue));
    }

    /// `Pending` until what the card has accepted is visible.
    fn fence(&mut self) -> Fenced {
        self.sim.with(|net, queue| net.fence(self.qpn, queue))
    }

    fn post_send(&mut self, cpu: &VirtualCpu, list: &SendList) -> Result<(), PostError> {
        self.sim
            .with(|net, queue| net.post_send(cpu, self.qpn, list, queue))
    }

    fn post_recv(&mut self, cpu: &VirtualCpu, list: &RecvList) -> Result<(), PostError> {
        charge_recvs(cpu, list);
        self.sim.with(|net, queue| net.post_recv(self.qpn, list, queue))
    }
}

fn charge_recvs(cpu: &VirtualCpu, list: &RecvList) {
    let count = list.wrs().len() as u32;
    cpu.charge(POST_RECV, count.min(1));
    cpu.charge(POST_RECV_LIST, count.saturating_sub(1));
}

impl Drop for SimQp {
    fn drop(&mut self) {
        self.sim.with(|net, _| net.remove_qp(self.qpn));
    }
}

/// A completion queue of exactly the requested depth. Polling a queue that was overrun panics: an overrun is fatal on
/// hardware, too.
#[derive(Debug)]
pub struct SimCq {
    sim: SimNet,
    pub(crate) id: u32,
}

impl SimCq {
    pub(crate) fn new(sim: SimNet, id: u32) -> SimCq {
        SimCq { sim, id }
    }
}

impl CompletionQueue<Sim> for SimCq {
    fn poll(&mut self, cpu: &VirtualCpu, wcs: &mut [Wc]) -> usize {
        let count = self.sim.with(|net, _| net.poll(self.id, wcs));
        match count {
            0 => cpu.charge(POLL_EMPTY, 1),
            count => cpu.charge(POLL, count as u32),
        }
        count
    }
}

impl Drop for SimCq {
    fn drop(&mut self) {
        self.sim.with(|net, _| {
            // Completions never polled free their slots of shared receive queues, which other queue pairs use.
            if let Some(cq) = net.cqs.remove(self.id) {
                for entry in cq.entries {
                    net.free_shared(entry.wc.qpn.0, entry.frees);
                }
            }
        });
    }
}

/// A queue pair and its completion queue for all cores of the world. It may move to other threads, but works only on the
/// world's.
#[derive(Debug)]
pub struct SimSharedQueue {
    world: u64,
    qpn: u32,
    cq: u32,
}

impl SimSharedQueue {
    pub(crate) fn new(world: u64, mut qp: SimQp, mut cq: SimCq) -> SimSharedQueue {
        // Their handles go and leave them: no object has the number 0.
        let (qpn, cq_id) = (std::mem::take(&mut qp.qpn), std::mem::take(&mut cq.id));
        qp.sim.with(|net, _| net.share(qpn, cq_id));
        SimSharedQueue {
            world,
            qpn,
            cq: cq_id,
        }
    }

    fn sim(&self) -> SimNet {
        world::find(self.world).expect("everything of a world stays on its thread")
    }
}

impl SharedQueue<Sim> for SimSharedQueue {
    /// # Panics
    /// On another thread than the world's, and after the world's end.
    fn post_send(&self, cpu: &VirtualCpu, list: &SendList) -> Result<(), PostError> {
        self.sim()
            .with(|net, queue| net.post_shared(cpu, self.qpn, list, queue))
    }

    /// The cores that have polled the queue before are notified of completions.
    ///
    /// # Panics
    /// As [`post_send`](SharedQueue::post_send).
    fn poll(&self, cpu: &VirtualCpu, wcs: &mut [Wc]) -> usize {
        let costs = [POLL, POLL_EMPTY];
        self.sim()
            .with(|net, _| net.poll_shared(cpu, self.cq, wcs, costs))
    }
}

impl Drop for SimSharedQueue {
    fn drop(&mut self) {
        if let Ok(sim) = world::find(self.world) {
            sim.with(|net, _| {
                net.remove_qp(self.qpn);
                net.cqs.remove(self.cq);
            });
        }
    }
}

/// A simulated shared receive queue of exactly the requested depth.
#[derive(Debug)]
pub struct SimSrq {
    sim: SimNet,
    pub(crate) id: u32,
}

impl SimSrq {
    pub(crate) fn new(sim: SimNet, id: u32) -> SimSrq {
        SimSrq { sim, id }
    }
}

impl SharedReceiveQueue<Sim> for SimSrq {
    fn post_recv(&mut self, cpu: &VirtualCpu, list: &RecvList) -> Result<(), PostError> {
        charge_recvs(cpu, list);
        self.sim.with(|net, _| net.post_shared_recv(self.id, list))
    }
}

impl Drop for SimSrq {
    fn drop(&mut self) {
        self.sim.with(|net, _| net.srqs.remove(self.id));
    }
}

/// A region registered for all contexts of a domain.
#[derive(Clone, Debug)]
pub struct SimSharedMr(Arc<Registration>);

/// A registration; dropping it on the world's thread removes it.
#[derive(Debug)]
struct Registration {
    world: u64,
    domain: u32,
    region: Region,
    lkey: u32,
}

impl SimSharedMr {
    pub(crate) fn new(
        sim: &SimNet,
        device: &SimDevice,
        domain: u32,
        region: &Region,
        access: Access,
    ) -> SimSharedMr {
        SimSharedMr::of_bytes(sim, device, domain, (region, region.len(), false), access)
    }

    /// Registers the first `bytes` of `region`, which stands for memory on the card or is the host's.
    pub(crate) fn of_bytes(
        sim: &SimNet,
        device: &SimDevice,
        domain: u32,
        (region, bytes, on_card): (&Region, usize, bool),
        access: Access,
    ) -> SimSharedMr {
        let mr = Mr {
            domain,
            machine: device.machine,
            region: region.clone(),
            bytes,
            on_card,
            access,
        };
        SimSharedMr(Arc::new(Registration {
            world: device.world,
            domain,
            region: region.clone(),
            lkey: sim.with(|net, _| net.add_mr(mr)),
        }))
    }

    pub(crate) fn is_of(&self, device: &SimDevice, domain: u32) -> bool {
        (self.0.world, self.0.domain) == (device.world, domain)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Ok(sim) = world::find(self.world) {
            sim.with(|net, _| net.remove_mr(self.lkey));
        }
    }
}

/// A registered region. Dropping it deregisters it, unless the registration is shared; its keys are then invalid.
#[derive(Debug)]
pub struct SimMr {
    sim: SimNet,
    registration: Arc<Registration>,
}

impl SimMr {
    pub(crate) fn of(sim: &SimNet, shared: &SimSharedMr) -> SimMr {
        SimMr {
            sim: sim.clone(),
            registration: shared.0.clone(),
        }
    }
}

impl MemoryRegion for SimMr {
    fn region(&self) -> &Region {
        &self.registration.region
    }

    fn sge(&self, offset: usize, len: usize) -> Sge {
        sge_within(&self.registration.region, self.registration.lkey, offset, len)
    }

    fn export(&self, watches: &[Watch]) -> Result<Export, AllocError> {
        Ok(self
            .sim
            .with(|net, _| net.fabric.names)
            .region(self.registration.lkey, watches))
    }
}

/// Memory on a simulated card: requests to it do not cross the bus. Copies by its owner take no virtual time.
#[derive(Debug)]
pub struct SimDeviceMemory {
    sim: SimNet,
    registration: SimSharedMr,
    bytes: usize,
}

impl SimDeviceMemory {
    pub(crate) fn new(
        sim: &SimNet,
        device: &SimDevice,
        domain: u32,
        bytes: usize,
        access: Access,
    ) -> Result<SimDeviceMemory, RegisterError> {
        let all = device.caps.supports.device_memory_bytes;
        let taken = sim.with(|net, _| net.nic(device.machine).device_memory_taken);
        let bytes = check_device_memory(("sim", all), bytes, all - taken, access)?;
        let region = Region::private(bytes, PageWish::Small).map_err(|error| RegisterError::System {
            bytes,
            source: std::io::Error::other(error),
        })?;
        Ok(SimDeviceMemory {
            sim: sim.clone(),
            registration: SimSharedMr::of_bytes(sim, device, domain, (&region, bytes, true), access),
            bytes,
        })
    }

    fn region(&self) -> &Region {
        &self.registration.0.region
    }
}

impl DeviceMemory for SimDeviceMemory {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn export(&self) -> Result<Export, AllocError> {
        let lkey = self.registration.0.lkey;
        Ok(self.sim.with(|net, _| net.fabric.names).region(lkey, &[]))
    }

    fn copy_in(&self, offset: usize, bytes: &[u8]) -> std::io::Result<()> {
        check_device_copy(self, offset, bytes.len());
        self.region().copy_in(offset, bytes);
        Ok(())
    }

    fn copy_out(&self, offset: usize, out: &mut [u8]) -> std::io::Result<()> {
        check_device_copy(self, offset, out.len());
        self.region().copy_out(offset, out);
        Ok(())
    }
}
