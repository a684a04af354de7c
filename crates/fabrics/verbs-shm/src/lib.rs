//! Verbs over shared memory: the fabric between processes (and threads) of one machine.
//!
//! It is a real transport, not a mock: a WRITE copies into the peer's mapping and stores its last word last, with
//! Release; a message goes through a ring that only its sender writes; a peer may be killed at any instruction. It is
//! not a network: messages are lost only by the rules of verbs (no RECV posted, ring full, bad key).
//!
//! - [`ShmDevice`] holds the configuration; [`ShmContext`] is one thread's view and owns the resources; a [`ShmDomain`]
//!   is what threads share: one mapping of each region.
//! - **One-sided requests** are executed when posted, by the initiating core, on mapped memory. Rights are
//!   enforced by the MMU: a region exported without remote write is sealed against writable mappings. (Memory
//!   that can be written can also be read: MMUs have no write-only pages.)
//! - **Messages** go through *lanes*, one per sender and receiving queue pair: see `lane.rs` and `ring.rs` for the
//!   bytes. Senders share no lock and no index, so a dead sender cannot block others.
//! - **Sleeping** contexts are woken through bells (`bell.rs`); an awake context costs its writers one cached load.
//!
//! ```
//! use drover_mem::PageWish;
//! use drover_verbs::*;
//! use drover_verbs_shm::{Shm, ShmDevice};
//! let ctx = ShmDevice::default().context()?;
//! let memory = ctx.alloc(4096, PageWish::Small)?;
//! let mr = ctx.register(&memory, Access::REMOTE_WRITE)?;
//! let cq = ctx.create_cq(16)?;
//! let mut a = ctx.create_qp(&QpOptions::<Shm>::new(QpKind::Uc, &cq, ctx.caps()))?;
//! let mut b = ctx.create_qp(&QpOptions::<Shm>::new(QpKind::Uc, &cq, ctx.caps()))?;
//! a.connect(&b.export()?)?;
//! b.connect(&a.export()?)?;
//! let remote = ctx.import_region(&mr.export(&[])?)?; // as the peer would
//! let mut list = SendList::default();
//! let payload = list.inline(b"hello");
//! list.push(SendWr::write(remote.at(64), payload));
//! a.post_send(ctx.cpu(), &list)?;
//! let mut bytes = [0; 5];
//! memory.copy_out(64, &mut bytes);
//! assert_eq!(&bytes, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Properties of this fabric
//! - Every export of a UD queue pair makes a lane for **one** sender; a second address handle from it is refused.
//! - A message *arrives* when its receiver next polls or posts RECVs: until then it waits in the lane, whose size is
//!   bounded (a datagram for a full lane is lost).
//! - A SEND must fit in half the receiver's ring; otherwise its post is refused as too long. With the default options
//!   the limit is at least 7,152 bytes, and 28,656 into a queue pair with 128 RECVs. WRITEs and READs have no such
//!   limit.
//! - An RC SEND completes when it is in the lane and a RECV of sufficient length is posted for it; towards a shared
//!   receive queue, as soon as it is in the lane.
//! - A peer that is killed is not noticed: WRITEs, READs and atomics to its memory go on succeeding.
//! - Destroying a queue pair does not unmap memory that its peer imported: give every peer memory of its own, and never
//!   reuse it for another peer before [`fence`](drover_verbs::QueuePair::fence) is done (`flight.rs`). Against a process
//!   that breaks the rules even that does not help.
//! - Queue pair numbers start at a random number per process: unique with high probability, not by construction.

mod bell;
mod context;
mod core;
mod cq;
mod device;
mod domain;
mod execute;
mod flight;
mod inbox;
mod lane;
mod lanes;
mod mr;
mod pending;
mod qp;
mod recv;
mod ring;
mod stats;
mod watcher;
mod wire;

pub use context::ShmContext;
pub use cq::ShmCq;
pub use device::{ShmDevice, ShmOptions};
pub use domain::ShmDomain;
pub use mr::{ShmMr, ShmSharedMr};
pub use qp::ShmQp;
pub use recv::ShmSrq;
pub use stats::ShmStats;

use drover_mem::NativeCpu;
use drover_verbs::Provider;

/// The shared-memory provider.
#[derive(Clone, Copy, Debug)]
pub struct Shm;

impl Provider for Shm {
    const NAME: &'static str = "shm";
    type Cpu = NativeCpu;
    type Device = ShmDevice;
    type Domain = ShmDomain;
    type Context = ShmContext;
    type Mr = ShmMr;
    type SharedMr = ShmSharedMr;
    type DeviceMemory = drover_verbs::provide::NoDeviceMemory;
    type Qp = ShmQp;
    type Cq = ShmCq;
    type Srq = ShmSrq;
    type SharedQueue = drover_verbs::provide::NoSharedQueue;
}
