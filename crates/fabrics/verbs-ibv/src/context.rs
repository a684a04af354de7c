//! [`IbvContext`]: one thread's control path, and sleeping.

use crate::Ibv;
use crate::agree::agree;
use crate::card::IbvDeviceMemory;
use crate::chain::Chains;
use crate::core::{Alone, Core, Events};
use crate::cq::IbvCq;
use crate::domain::{IbvDomain, OwnRegister, table_full};
use crate::mr::{IbvMr, IbvSharedMr};
use crate::qp::{IbvQp, unfit};
use crate::raw::{Completions, Handle, Protection, SharedRecvs};
use crate::srq::IbvSrq;
use crate::tables::Tables;
use crate::watch::StuckQp;
use crate::wire;
use drover_base::{Cpu, Ns};
use drover_mem::{AllocError, NativeCpu, PageWish, Region};
use drover_verbs::provide::{check_domain, check_limit};
use drover_verbs::{
    Access, Bell, Caps, Context, CreateError, Domain, Export, ImportError, OpenError, QpKind, QpOptions, Qpn,
    RegisterError, RemoteRegion, UdDest, Waker,
};
use std::os::fd::BorrowedFd;
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// One thread's view of a device.
pub struct IbvContext {
    core: Rc<Core>,
}

impl IbvContext {
    pub(crate) fn open(
        domain: &IbvDomain,
        caps: Caps,
        cpu: NativeCpu,
        pd: Arc<Protection>,
        own_register: Arc<OwnRegister>,
        events: Events,
    ) -> IbvContext {
        let core = Core {
            cpu,
            caps,
            opening: domain.opening().clone(),
            tables: Tables::new(domain),
            chains: Alone::new(Chains::new()),
            qps: Default::default(),
            watch_at: Default::default(),
            cqs: Default::default(),
            events,
            pd,
            _own_register: own_register,
        };
        IbvContext { core: Rc::new(core) }
    }

    /// What all objects of the context hold.
    pub(crate) fn core(&self) -> &Rc<Core> {
        &self.core
    }

    /// Returns the queue pairs that have had signaled send requests outstanding for `patience` without any of their
    /// completions polled; RECVs do not matter. A queue pair is reported once, and again only after a completion of its
    /// sends was polled. The time counts from the first call that finds the queue pair waiting, on the clock of the
    /// context's core as last refreshed, so call this about once a second. An idle context makes the same check with
    /// [`IbvOptions::stuck_after`](crate::IbvOptions) and logs the result; a queue pair that it has logged is not
    /// returned. Queue pairs that share a send completion queue and whose numbers are equal modulo 1024 are never
    /// returned.
    pub fn stuck(&self, patience: Ns) -> Vec<StuckQp> {
        self.core.stuck(patience)
    }
}

impl Context<Ibv> for IbvContext {
    fn cpu(&self) -> &NativeCpu {
        &self.core.cpu
    }

    fn caps(&self) -> &Caps {
        &self.core.caps
    }

    fn device_name(&self) -> Option<String> {
        let choice = &self.core.opening.choice;
        let (device, port, gid) = (&choice.device, choice.port, choice.gid.index);
        let mtu_code = self.core.opening.end.mtu_code;
        Some(format!("{device} port {port} GID {gid} MTU code {mtu_code}"))
    }

    fn isolated(&self) -> Result<Option<IbvContext>, OpenError> {
        let domain = self.core.tables.domain().beside()?;
        Ok(Some(domain.context_with(self.core.events.clone())))
    }

    fn alloc(&self, bytes: usize, pages: PageWish) -> Result<Region, AllocError> {
        Region::private(bytes, pages)
    }

    fn register(&self, region: &Region, access: Access) -> Result<IbvMr, RegisterError> {
        self.adopt(&self.core.tables.domain().register(region, access)?)
    }

    fn adopt(&self, shared: &IbvSharedMr) -> Result<IbvMr, RegisterError> {
        check_domain(self.core.tables.domain().is(&shared.domain))?;
        Ok(IbvMr::of(shared))
    }

    fn alloc_device(&self, bytes: usize, access: Access) -> Result<IbvDeviceMemory, RegisterError> {
        IbvDeviceMemory::new(&self.core, bytes, access)
    }

    fn create_cq(&self, depth: usize) -> Result<IbvCq, CreateError> {
        let depth = depth.max(1);
        check_limit("a completion queue", depth, self.core.opening.limits.cqe)?;
        let counters = self.core.opening.counters.clone();
        let raw = Completions::new(&self.core.events.channel, depth as i32, counters).map_err(|source| {
            let advice = "ask for a shallower queue, or raise `ulimit -l`";
            CreateError::System {
                what: "ibv_create_cq",
                source: self.core.explain(&source, advice),
            }
        })?;
        let cqs = &mut *self.core.cqs.borrow_mut();
        cqs.retain(|cq| cq.strong_count() > 0);
        cqs.push(Rc::downgrade(&raw));
        Ok(IbvCq::new(&self.core, raw))
    }

    fn create_srq(&self, depth: usize) -> Result<IbvSrq, CreateError> {
        check_limit("a shared receive queue", depth, self.core.opening.limits.srq_wr)?;
        let raw =
            SharedRecvs::new(&self.core.pd, depth.max(1) as u32).map_err(|source| CreateError::System {
                what: "ibv_create_srq",
                source: self.core.explain(&source, "ask for a shallower queue"),
            })?;
        let core = self.core.clone();
        Ok(IbvSrq { core, raw })
    }

    fn create_qp(&self, options: &QpOptions<'_, Ibv>) -> Result<IbvQp, CreateError> {
        IbvQp::create(&self.core, options)
    }

    fn import_region(&self, export: &Export) -> Result<RemoteRegion, ImportError> {
        let region = self.core.tables.domain().import_region(export)?;
        self.core.tables.learn(region.rkey);
        Ok(region)
    }

    fn forget_region(&self, region: &RemoteRegion) {
        self.core.tables.domain().forget_region(region);
        self.core.tables.remotes.forget(region.rkey);
    }

    fn create_ah(&self, export: &Export) -> Result<UdDest, ImportError> {
        let peer = wire::decode_qp(export)?;
        if peer.kind != QpKind::Ud {
            let reason = "not a datagram queue pair";
            return Err(ImportError::Malformed { reason });
        }
        agree(QpKind::Ud, &self.core.opening, &peer).map_err(unfit)?;
        let route = self.core.opening.route(&peer.gid, peer.lid);
        let handle = Handle::new(&self.core.pd, route).map_err(|source| ImportError::System {
            what: "ibv_create_ah",
            source: self
                .core
                .explain(&source, "is there a route to the peer's address?"),
        })?;
        let tables = &self.core.tables;
        Ok(UdDest {
            ah: tables.handles.insert(handle).ok_or_else(table_full)?,
            qpn: Qpn(peer.qpn),
            qkey: peer.qkey,
        })
    }

    fn destroy_ah(&self, dest: &UdDest) {
        self.core.tables.handles.remove(dest.ah);
    }

    fn waker(&self) -> Waker {
        self.core.events.sleeper.waker()
    }

    /// Returns a bell that is never rung: a device writes to memory without notification.
    fn bell(&self) -> Bell {
        Bell(wire::encode_bell())
    }

    /// Requests an event from every completion queue of the context, which may cost a system call each.
    fn arm(&self) {
        self.core.events.sleeper.arm();
        for cq in self.core.cqs.borrow().iter().filter_map(Weak::upgrade) {
            cq.request_event();
        }
    }

    fn disarm(&self) {
        self.core.events.sleeper.disarm();
    }

    fn park(&self, deadline: Ns) {
        self.park_beside(deadline, self.core.events.channel.fd());
    }

    fn park_beside(&self, deadline: Ns, fd: BorrowedFd<'_>) {
        for cq in self.core.cqs.borrow().iter().filter_map(Weak::upgrade) {
            cq.publish();
        }
        let time = deadline.since(self.core.cpu.refresh());
        if time == Ns::ZERO {
            return self.core.events.sleeper.disarm();
        }
        self.core
            .events
            .sleeper
            .park(self.core.events.channel.fd(), fd, time);
        self.core.events.channel.drain();
        self.core.cpu.refresh();
        self.core.watch();
    }
}
