//! [`ShmContext`]: one thread's control path.

use crate::Shm;
use crate::bell::{OwnBell, RemoteBells};
use crate::core::{Core, Sender, Tables};
use crate::cq::{CqShared, ShmCq};
use crate::device::{DEPTH_MAX, ShmOptions};
use crate::domain::{ShmDomain, table_full};
use crate::lane::{CLAIM, CLAIMED, REVOKED};
use crate::mr::{ShmMr, ShmSharedMr};
use crate::qp::{Queue, ShmQp, import_lane};
use crate::recv::{RecvQueue, ShmSrq};
use crate::stats::{Counters, ShmStats};
use crate::watcher::Watcher;
use drover_base::{Cpu, Ns};
use drover_mem::{AllocError, NativeCpu, PageWish, Region};
use drover_verbs::provide::check_limit;
use drover_verbs::{
    Access, Bell, Caps, Context, CreateError, Domain, Export, ImportError, OpenError, QpKind, QpOptions, Qpn,
    RegisterError, RemoteRegion, UdDest, Waker,
};
use rustix::thread::sched_getcpu;
use std::cell::OnceCell;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

/// Sleep time with a descriptor that no thread can wait for.
const BLIND_DOZE: Ns = Ns::from_ms(1);

/// One thread's handle of a [`ShmDevice`](crate::ShmDevice); owns the tables of its registered and imported regions.
/// Not `Send`, so that the data path needs no lock and no atomic operation among the context's own objects.
pub struct ShmContext {
    core: Rc<Core>,
    /// Started by the first sleep with a descriptor.
    watcher: OnceCell<Option<Watcher>>,
}

impl ShmContext {
    pub(crate) fn open(
        domain: ShmDomain,
        options: ShmOptions,
        caps: Caps,
        cpu: NativeCpu,
    ) -> Result<ShmContext, OpenError> {
        let core = Core {
            domain,
            cpu,
            caps,
            options,
            tables: Tables::new().into(),
            bell: OwnBell::new()?,
            bells: RemoteBells::default().into(),
            counters: Counters::default(),
            departures: 0.into(),
        };
        Ok(ShmContext {
            core: Rc::new(core),
            watcher: OnceCell::new(),
        })
    }

    /// Counters since the context was opened: messages lost at this context's ends of queue pairs, incoming message
    /// rings that it abandoned, and wake-ups that it sent.
    pub fn stats(&self) -> ShmStats {
        self.core.counters.snapshot(self.core.bells.borrow().wakes.get())
    }
}

impl Context<Shm> for ShmContext {
    fn cpu(&self) -> &NativeCpu {
        &self.core.cpu
    }

    fn caps(&self) -> &Caps {
        &self.core.caps
    }

    /// There is one memory, and the core that copies.
    fn device_name(&self) -> Option<String> {
        Some("memory".to_owned())
    }

    fn alloc(&self, bytes: usize, pages: PageWish) -> Result<Region, AllocError> {
        Region::shared(bytes, pages)
    }

    fn register(&self, region: &Region, access: Access) -> Result<ShmMr, RegisterError> {
        self.adopt(&self.core.domain.register(region, access)?)
    }

    fn adopt(&self, shared: &ShmSharedMr) -> Result<ShmMr, RegisterError> {
        ShmMr::adopt(&self.core, shared)
    }

    fn create_cq(&self, depth: usize) -> Result<ShmCq, CreateError> {
        Ok(ShmCq {
            core: self.core.clone(),
            shared: Rc::new(CqShared::new(depth.max(1))),
        })
    }

    fn create_srq(&self, depth: usize) -> Result<ShmSrq, CreateError> {
        check_limit("a shared receive queue", depth, DEPTH_MAX)?;
        Ok(ShmSrq {
            core: self.core.clone(),
            recvs: Rc::new(RecvQueue::new(depth).into()),
            cqs: Rc::default(),
        })
    }

    fn create_qp(&self, options: &QpOptions<'_, Shm>) -> Result<ShmQp, CreateError> {
        Ok(ShmQp::new(Queue::create(&self.core, options)?))
    }

    fn import_region(&self, export: &Export) -> Result<RemoteRegion, ImportError> {
        let region = self.core.domain.import_region(export)?;
        self.core.learn(region.rkey);
        Ok(region)
    }

    fn forget_region(&self, region: &RemoteRegion) {
        let remote = self.core.tables.borrow_mut().remote.remove(region.rkey);
        drop(remote);
        self.core.domain.forget_region(region);
    }

    /// One export serves one address handle: a second attempt returns an error.
    fn create_ah(&self, export: &Export) -> Result<UdDest, ImportError> {
        let (qp, lane, _, bell) = import_lane(&self.core, export)?;
        if qp.kind != QpKind::Ud {
            return Err(ImportError::Malformed {
                reason: "not a datagram queue pair",
            });
        }
        let ticket = export.fds[0].clone();
        match lane.memory().region().compare_swap_u64(CLAIM * 8, 0, CLAIMED) {
            0 => {}
            REVOKED => return Err(ImportError::PeerGone),
            _ => {
                return Err(ImportError::Malformed {
                    reason: "this export is in use: export once per sender",
                });
            }
        }
        let sender = Sender {
            lane,
            qpn: qp.qpn,
            bell,
            _ticket: ticket,
        };
        let ah = self
            .core
            .tables
            .borrow_mut()
            .senders
            .insert(sender)
            .ok_or_else(table_full)?;
        Ok(UdDest {
            ah,
            qpn: Qpn(qp.qpn),
            qkey: qp.qkey,
        })
    }

    fn destroy_ah(&self, dest: &UdDest) {
        let sender = self.core.tables.borrow_mut().senders.remove(dest.ah);
        drop(sender);
        let departures = &self.core.departures;
        departures.set(departures.get().wrapping_add(1));
    }

    fn waker(&self) -> Waker {
        self.core.bell.waker()
    }

    fn bell(&self) -> Bell {
        Bell(self.core.bell.export())
    }

    fn arm(&self) {
        self.core.bell.arm();
    }

    fn disarm(&self) {
        self.core.bell.disarm();
    }

    fn core_is_wanted(&self, serves: bool) -> bool {
        let here = sched_getcpu() as u32;
        match serves {
            true => self.core.bell.is_wanted(here),
            false => self.core.bells.borrow().want(here),
        }
    }

    fn park(&self, deadline: Ns) {
        let time = deadline
            .since(self.core.cpu.refresh())
            .min(self.core.options.park_max);
        if time == Ns::ZERO {
            self.core.bell.disarm();
        } else {
            self.core.bell.park(time);
            self.core.cpu.refresh();
        }
    }

    /// Uses a thread that waits for `fd` (`Watcher`): one more system call per sleep.
    fn park_beside(&self, deadline: Ns, fd: BorrowedFd<'_>) {
        let watcher = self.watcher.get_or_init(|| Watcher::start(self.waker()).ok());
        let watched = watcher.as_ref().is_some_and(|watcher| watcher.watch(fd).is_ok());
        let blind = self.core.cpu.refresh() + BLIND_DOZE;
        self.park(if watched { deadline } else { deadline.min(blind) });
    }
}
