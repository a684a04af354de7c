//! [`Domain`]: what the threads of one process share.

use crate::{
    Access, CreateError, Export, ImportError, OpenError, PostError, Provider, RegisterError, RemoteRegion,
    SendList, Wc,
};
use drover_mem::Region;
use std::fmt;

/// One protection domain, and one registration and mapping of each region, for all threads of a process. Clones are
/// handles of the same domain. [`Device::context`](crate::Device::context) makes a domain that only its context uses.
///
/// Keys belong to a domain: all its contexts know the regions that one of them imports, no other context does.
pub trait Domain<P: Provider>: Clone + Send + Sync + 'static {
    /// Creates a context of this domain for the calling thread.
    ///
    /// # Errors
    /// [`OpenError`] if the fabric is not available or lacks resources.
    fn context(&self) -> Result<P::Context, OpenError>;

    /// Registers `region` with the rights `access`, once for all contexts; each gets a handle of its own from
    /// [`Context::adopt`](crate::Context::adopt). Dropping the last clone of the result and the last of these handles
    /// deregisters it.
    ///
    /// # Errors
    /// As [`Context::register`](crate::Context::register).
    fn register(&self, region: &Region, access: Access) -> Result<P::SharedMr, RegisterError>;

    /// Makes the region that a peer exported usable in requests posted from every context of this domain. Cost: a
    /// context's first request with the new key may take microseconds.
    ///
    /// # Errors
    /// As [`Context::import_region`](crate::Context::import_region).
    fn import_region(&self, export: &Export) -> Result<RemoteRegion, ImportError>;

    /// Releases an imported region: contexts that have not used its key refuse it from now on. A context that has used
    /// it may go on until it calls [`Context::forget_region`](crate::Context::forget_region) itself or ends, and only
    /// then is a mapping given back.
    fn forget_region(&self, region: &RemoteRegion);

    /// Doorbell registers of this domain, and who shares them.
    fn doorbells(&self) -> DoorbellReport;

    /// Gives a connected queue pair, the completion queue of its sends and their context to all threads of the process:
    /// the objects of a context stay together, so `ctx` goes along, and nothing else may have been made from it that is
    /// still there. For measurements of what sharing costs.
    ///
    /// # Errors
    /// [`CreateError::NotSupported`] without [`Support::shared_queues`](crate::Support::shared_queues), or if other objects of `ctx` are left.
    fn share(&self, ctx: P::Context, qp: P::Qp, cq: P::Cq) -> Result<P::SharedQueue, CreateError> {
        let _ = (ctx, qp, cq);
        Err(CreateError::NotSupported {
            what: "a queue pair that threads share",
            fabric: P::NAME,
        })
    }
}

/// A queue pair and its completion queue that several threads use, each call under a lock. Completions come to the thread
/// that polls them, whichever thread posted the request: threads say in [`WrId`](crate::WrId) whose it is. No completion
/// ends a [`park`](crate::Context::park). Dropping it destroys both queues.
pub trait SharedQueue<P: Provider>: Send + Sync + 'static {
    /// As [`QueuePair::post_send`](crate::QueuePair::post_send), for the thread of `cpu`. Requests of one list stay
    /// together.
    ///
    /// # Errors
    /// As there.
    fn post_send(&self, cpu: &P::Cpu, list: &SendList) -> Result<(), PostError>;

    /// As [`CompletionQueue::poll`](crate::CompletionQueue::poll), for the thread of `cpu`.
    ///
    /// # Panics
    /// As there.
    fn poll(&self, cpu: &P::Cpu, wcs: &mut [Wc]) -> usize;
}

/// Options of a new [`Domain`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct DomainOptions {
    /// How queue pairs get their doorbell registers.
    pub doorbells: Doorbells,
    /// Most registers that contexts get for themselves under [`Doorbells::PerContext`]; further contexts share them.
    /// `None`: as many as the device has.
    pub registers: Option<usize>,
}

impl DomainOptions {
    /// Options with these doorbells and the other fields as by default.
    pub fn with(doorbells: Doorbells) -> DomainOptions {
        DomainOptions {
            doorbells,
            ..DomainOptions::default()
        }
    }
}

/// How the queue pairs of a domain get their doorbell registers: the places in a card to which a post writes. Posts of
/// several threads to one register wait for its lock. Fabrics without cards have none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Doorbells {
    /// The driver's default: as a rule the first few queue pairs of a process get a register each, and later ones share
    /// a dozen.
    #[default]
    Driver,
    /// A register per context, that is, per thread: posts take no lock. Where the driver cannot do it, `Driver` is what
    /// one gets, and [`DoorbellReport::doorbells`] says so.
    PerContext,
}

impl fmt::Display for Doorbells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Doorbells::Driver => "driver's default",
            Doorbells::PerContext => "one per context",
        })
    }
}

/// Doorbell registers of a domain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DoorbellReport {
    /// How they are assigned in fact.
    pub doorbells: Doorbells,
    /// Number of users of each register that has any, in the order of first use: queue pairs under
    /// [`Doorbells::Driver`], contexts under [`Doorbells::PerContext`]. Empty if unknown.
    pub users: Vec<usize>,
    /// Where this knowledge is from.
    pub source: DoorbellSource,
}

/// Source of a [`DoorbellReport`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DoorbellSource {
    /// The fabric has no doorbell registers.
    NoDoorbells,
    /// The driver was asked for a register per context and agreed; nothing was measured.
    Granted,
    /// The driver decides and does not tell.
    Unknown,
    /// The fabric keeps the table itself: exact.
    Exact,
}

impl DoorbellReport {
    /// The report of a fabric without doorbell registers.
    pub fn none() -> DoorbellReport {
        DoorbellReport {
            doorbells: Doorbells::PerContext,
            users: Vec::new(),
            source: DoorbellSource::NoDoorbells,
        }
    }

    /// Whether a register that several use is known.
    pub fn is_shared(&self) -> bool {
        self.users.iter().any(|&users| users > 1)
    }
}
