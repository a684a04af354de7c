//! [`IbvDomain`]: one opened device and one protection domain for all threads of a process.

use crate::Ibv;
use crate::context::IbvContext;
use crate::core::Events;
use crate::device::Opening;
use crate::mr::{IbvSharedMr, Registration};
use crate::raw::{Opened, Protection};
use crate::shared::IbvSharedQueue;
use crate::wire;
use crate::{IbvCq, IbvQp};
use drover_mem::{NativeCpu, Region};
use drover_verbs::provide::Keys;
use drover_verbs::{
    Access, Caps, CreateError, Domain, DomainOptions, DoorbellReport, DoorbellSource, Doorbells, Export,
    ImportError, OpenError, RegisterError, RemoteRegion,
};
use std::fmt;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// What threads of one process share: the opened device, its protection domain, registrations and imported keys. With
/// [`Doorbells::PerContext`] each context gets a thread domain and a parent domain over the protection domain, where the
/// driver has them.
#[derive(Clone)]
pub struct IbvDomain {
    inner: Arc<Inner>,
}

struct Inner {
    opening: Arc<Opening>,
    caps: Caps,
    options: DomainOptions,
    base: Arc<Protection>,
    shared: Mutex<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Remote keys of imported regions, as their owners' devices know them.
    imports: Keys<u32>,
    /// Contexts that are alive: whether each has a register of its own.
    contexts: Vec<Weak<OwnRegister>>,
}

/// Whether a context has a doorbell register of its own. The context holds it.
pub(crate) struct OwnRegister(bool);

impl IbvDomain {
    pub(crate) fn open(
        opening: &Arc<Opening>,
        caps: &Caps,
        options: &DomainOptions,
    ) -> Result<IbvDomain, OpenError> {
        let name = &opening.choice.device;
        let opened = Opened::open(&opening.lib, name).map_err(failed("ibv_open_device"))?;
        let opened = opened.ok_or_else(|| OpenError::Unavailable {
            fabric: "ibv",
            reason: format!("{name} has gone since it was chosen; open the device again"),
        })?;
        opening.counters.opened(&opened);
        Ok(IbvDomain {
            inner: Arc::new(Inner {
                opening: opening.clone(),
                caps: caps.clone(),
                options: *options,
                base: Protection::new(&opened).map_err(failed("ibv_alloc_pd"))?,
                shared: Mutex::default(),
            }),
        })
    }

    /// Another domain of the same opened device, for a single context.
    pub(crate) fn beside(&self) -> Result<IbvDomain, OpenError> {
        let Inner {
            opening, caps, base, ..
        } = &*self.inner;
        Ok(IbvDomain {
            inner: Arc::new(Inner {
                opening: opening.clone(),
                caps: caps.clone(),
                // Peers post to its queue pairs, nobody here does: it needs no register.
                options: DomainOptions::default(),
                base: Protection::new(base.opened()).map_err(failed("ibv_alloc_pd"))?,
                shared: Mutex::default(),
            }),
        })
    }

    /// A context for the thread that `events` wake.
    pub(crate) fn context_with(&self, events: Events) -> IbvContext {
        let Inner { opening, caps, .. } = &*self.inner;
        // Relaxed: contexts need different numbers, in any order.
        let index = opening.opened.fetch_add(1, Ordering::Relaxed);
        let cpu = NativeCpu::nth(opening.seed, index);
        let (pd, own) = self.protection();
        IbvContext::open(self, caps.clone(), cpu, pd, own, events)
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.inner.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is(&self, other: &IbvDomain) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    pub(crate) fn opening(&self) -> &Arc<Opening> {
        &self.inner.opening
    }

    /// The protection domain that memory is registered in.
    pub(crate) fn base(&self) -> &Arc<Protection> {
        &self.inner.base
    }

    /// The device's key under `rkey`.
    pub(crate) fn find(&self, rkey: u32) -> Option<u32> {
        self.lock().imports.find(rkey).copied()
    }

    /// The protection domain of a new context, and whether it has a register of its own.
    fn protection(&self) -> (Arc<Protection>, Arc<OwnRegister>) {
        let Inner { options, base, .. } = &*self.inner;
        let shared = &mut *self.lock();
        shared.contexts.retain(|context| context.strong_count() > 0);
        let own = shared.contexts.iter().filter_map(Weak::upgrade);
        let has_space = own.filter(|own| own.0).count() < options.registers.unwrap_or(usize::MAX);
        let parent = match options.doorbells {
            Doorbells::PerContext if has_space => base.for_thread(),
            _ => None,
        };
        let own = Arc::new(OwnRegister(parent.is_some()));
        shared.contexts.push(Arc::downgrade(&own));
        (parent.unwrap_or_else(|| base.clone()), own)
    }
}

/// The error of a call that failed.
pub(crate) fn failed(what: &'static str) -> impl FnOnce(io::Error) -> OpenError {
    move |source| OpenError::System { what, source }
}

impl Domain<Ibv> for IbvDomain {
    fn context(&self) -> Result<IbvContext, OpenError> {
        Ok(self.context_with(Events::new(self.inner.base.opened())?))
    }

    fn register(&self, region: &Region, access: Access) -> Result<IbvSharedMr, RegisterError> {
        Ok(IbvSharedMr {
            domain: self.clone(),
            registration: Arc::new(Registration::new(self, region, access)?),
        })
    }

    fn import_region(&self, export: &Export) -> Result<RemoteRegion, ImportError> {
        let region = wire::decode_region(export)?;
        let rkey = self.lock().imports.insert(region.rkey).ok_or_else(table_full)?;
        Ok(RemoteRegion {
            rkey,
            len: region.len,
            access: region.access,
        })
    }

    fn forget_region(&self, region: &RemoteRegion) {
        self.lock().imports.remove(region.rkey);
    }

    /// Contexts that the driver refused a register of their own, or that are beyond
    /// [`DomainOptions::registers`](drover_verbs::DomainOptions), count as users of one: the driver's shared ones. Without
    /// thread domains the driver decides, and nothing is known.
    fn doorbells(&self) -> DoorbellReport {
        let contexts = self.lock().contexts.clone();
        let alive: Vec<bool> = contexts
            .iter()
            .filter_map(Weak::upgrade)
            .map(|own| own.0)
            .collect();
        let own = alive.iter().filter(|&&own| own).count();
        if own == 0 {
            return DoorbellReport {
                doorbells: Doorbells::Driver,
                users: Vec::new(),
                source: DoorbellSource::Unknown,
            };
        }
        let mut users = vec![1; own];
        users.extend(Some(alive.len() - own).filter(|&others| others > 0));
        DoorbellReport {
            doorbells: Doorbells::PerContext,
            users,
            source: DoorbellSource::Granted,
        }
    }

    fn share(&self, ctx: IbvContext, qp: IbvQp, cq: IbvCq) -> Result<IbvSharedQueue, CreateError> {
        IbvSharedQueue::new(ctx, qp, cq)
    }
}

impl fmt::Debug for IbvDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IbvDomain({})", self.inner.opening.place())
    }
}

pub(crate) fn table_full() -> ImportError {
    ImportError::System {
        what: "import",
        source: io::Error::other("the table of imports is full"),
    }
}
