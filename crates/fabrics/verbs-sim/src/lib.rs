//! The provider `sim`: network cards, links and hosts of a modelled kind, in virtual time.
//!
//! A [`World`] is a cluster of machines. Every machine has a card, opened as a [`SimDevice`]. A context created from it
//! is a thread on a virtual core of its own; actors hosted on that core run the same protocol code as with other
//! providers. A [`profile`] holds the cost of every stage of a request (MMIO, engines, caches, PCIe, links, memory),
//! and a [`Report`] shows how long each part was busy and which one is the bottleneck.
//!
//! It does not connect processes, and its results are not measurements: they hold for the profile, whose numbers state
//! their sources.
//!
//! **Semantics** are those of the conformance suite. Beyond it: messages are whole units (every packet costs headers,
//! and a message is lost if one of its packets is), lines of a message become visible in ascending order, the data of a
//! READ is copied when the card answers (in torn mode line by line before that), and a CAS or FAA is atomic towards
//! READs and other atomics.
//!
//! **Not modelled**, though profiles have numbers for it: the cache of address translations (`mtt`), inline receive,
//! and the capacity of the last-level cache (regions that peers may write are always in it; any other line that a core
//! has not touched recently comes from DRAM). Nor is flow control between ports: their queues are unbounded, which
//! makes no difference while windows are bounded.
//!
//! **Threads.** All objects of a world stay on the thread that created it. A device may move to another thread, but
//! creating a context there is an error that says so.
//!
//! ```
//! use drover_verbs::*;
//! use drover_verbs_sim::{Sim, World, profile::Profile};
//!
//! let world = World::new(Profile::named("apt")?, 2, 7);
//! let (here, there) = (world.device(0).context()?, world.device(1).context()?);
//! let (mut cq, there_cq) = (here.create_cq(16)?, there.create_cq(16)?);
//! let mut qp = here.create_qp(&QpOptions::<Sim>::new(QpKind::Rc, &cq, here.caps()))?;
//! let mut there_qp = there.create_qp(&QpOptions::<Sim>::new(QpKind::Rc, &there_cq, there.caps()))?;
//! qp.connect(&there_qp.export()?)?;
//! there_qp.connect(&qp.export()?)?;
//!
//! let target = there.alloc(4096, drover_mem::PageWish::Small)?;
//! let mr = there.register(&target, Access::REMOTE_WRITE)?;
//! let remote = here.import_region(&mr.export(&[])?)?;
//! let mut list = SendList::default();
//! let payload = list.inline(b"hello");
//! list.push(SendWr::write(remote.at(64), payload).signaled(WrId(7)));
//! qp.post_send(here.cpu(), &list)?;
//!
//! let mut wcs = [Wc::default(); 4];
//! assert_eq!(cq.poll(here.cpu(), &mut wcs), 0, "nothing has happened yet");
//! world.run_until(drover_base::Ns::from_us(5));
//! assert_eq!(cq.poll(here.cpu(), &mut wcs), 1);
//! let mut bytes = [0; 5];
//! target.copy_out(64, &mut bytes);
//! assert_eq!(&bytes, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Sources: `[HERD]`, `[A16]`, `[SMART]`; the profiles state the source of each number.
#![forbid(unsafe_code)]

mod context;
mod counters;
mod device;
mod domain;
mod handles;
mod model;
mod options;
pub mod profile;
mod report;
mod world;

pub use context::SimContext;
pub use counters::Counters;
pub use device::SimDevice;
pub use domain::SimDomain;
pub use drover_verbs::Doorbells;
pub use handles::{SimCq, SimDeviceMemory, SimMr, SimQp, SimSharedMr, SimSharedQueue, SimSrq};
pub use options::{Ablations, RcOptions, WorldOptions};
pub use report::{ATOMIC_LOCK, Binding, MachineReport, PartUsages, Report};
pub use world::World;

use drover_verbs::Provider;

/// The provider `sim`: cards, links and hosts in virtual time, in one thread. It is only a type parameter and has no
/// values; the cluster is a [`World`].
#[derive(Debug)]
pub enum Sim {}

impl Provider for Sim {
    const NAME: &'static str = "sim";
    type Cpu = drover_sim::VirtualCpu;
    type Device = SimDevice;
    type Domain = SimDomain;
    type Context = SimContext;
    type Mr = SimMr;
    type SharedMr = SimSharedMr;
    type DeviceMemory = SimDeviceMemory;
    type Qp = SimQp;
    type Cq = SimCq;
    type Srq = SimSrq;
    type SharedQueue = SimSharedQueue;
}
