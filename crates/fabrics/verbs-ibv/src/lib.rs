//! Verbs over libibverbs: InfiniBand and RoCE cards, and the kernel's software RoCE on any network interface.
//!
//! It exposes the semantics of the hardware without emulation: a list is one chain for one post (longer lists than 256
//! requests are several), completions are the device's, and a peer's death shows as an exhausted retry counter. The
//! library is loaded when an [`IbvDevice`] is opened, so a machine without RDMA does not need it; if it is missing, the
//! error says what to do.
//!
//! - [`IbvDevice`] is a choice of device, port and address ([`choose`]), with the limits read from it;
//!   an [`IbvDomain`] is the opened device and its protection domain, for all threads of a process; [`IbvContext`] is one
//!   thread's view. Threads that use no common domain open the device separately.
//! - **Addresses** are offsets: memory is registered at device address 0, so neither end translates addresses.
//! - **Remote keys** are numbers of the domain, and address handles of the context, both looked up in the context's own
//!   tables, so that a released key gives no access; that takes about a nanosecond.
//! - **Ownership**: every object of the library is held by its users (`raw/`) and destroyed once, after them.
//! - [`ffi`] is the binding: symbols, structures, numbers.
//!
//! ```no_run
//! use drover_mem::PageWish;
//! use drover_verbs::*;
//! use drover_verbs_ibv::{Ibv, IbvDevice, IbvOptions};
//! let device = IbvDevice::open(IbvOptions::default())?;
//! println!("{} port {}: {}", device.choice().device, device.choice().port, device.choice().reason);
//! let ctx = device.context()?;
//! let memory = ctx.alloc(4096, PageWish::Small)?;
//! let mr = ctx.register(&memory, Access::REMOTE_WRITE)?;
//! let cq = ctx.create_cq(16)?;
//! let mut qp = ctx.create_qp(&QpOptions::<Ibv>::new(QpKind::Uc, &cq, ctx.caps()))?;
//! # let (peer_qp, peer_region) = (qp.export()?, mr.export(&[])?);
//! qp.connect(&peer_qp)?; // the export received from the peer
//! let remote = ctx.import_region(&peer_region)?;
//! let mut list = SendList::default();
//! let payload = list.inline(b"hello");
//! list.push(SendWr::write(remote.at(64), payload));
//! qp.post_send(ctx.cpu(), &list)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Properties of this fabric
//! - The bytes of a WRITE become visible in any order ([`WriteCaps::ordered`](drover_verbs::WriteCaps) is not offered)
//!   and without notification ([`WakeCaps::on_memory`](drover_verbs::WakeCaps) is not offered): pollers of memory spin.
//! - The time that a SEND waits for a RECV is counted in steps that the receiver sets: see `rnr.rs`.
//! - **Waiting**: polling never sleeps; a parked context sleeps until a completion arrives (`park.rs`). The program's
//!   run loop decides when to poll, to park and to yield the core.
//! - A stuck queue pair is logged with the attributes that its device reports ([`IbvOptions::stuck_after`]).
//! - The MTU must be equal at both ends of a UC connection, and no smaller at the receiver of datagrams. RC uses the
//!   smaller one, but refuses a peer whose MTU is smaller than [`IbvOptions::mtu_bytes`], if that is set (`agree.rs`).
//! - Statuses that only broken devices report become [`RemoteOperation`](drover_verbs::WcStatus).
//!
//! Source: `[rdma-core]` for the ABI and its contracts, `[IBTA]` for semantics.

mod agree;
mod card;
mod chain;
pub mod choose;
mod context;
mod core;
mod counters;
mod cq;
mod device;
mod domain;
pub mod ffi;
mod limits;
mod memlock;
mod mr;
mod park;
mod post;
mod qp;
mod raw;
mod rnr;
mod shared;
mod srq;
pub mod survey;
mod tables;
mod watch;
mod wire;

pub use agree::Agreement;
pub use card::IbvDeviceMemory;
pub use choose::{Choice, Wish};
pub use context::IbvContext;
pub use cq::IbvCq;
pub use device::{IbvDevice, IbvOptions};
pub use domain::IbvDomain;
pub use mr::{IbvMr, IbvSharedMr};
pub use qp::IbvQp;
pub use shared::IbvSharedQueue;
pub use srq::IbvSrq;
pub use survey::Survey;
pub use watch::StuckQp;

use drover_mem::NativeCpu;
use drover_verbs::Provider;

/// The provider `ibv`: verbs over libibverbs, on cards and on the kernel's software RoCE. It is only a type parameter;
/// a device is an [`IbvDevice`].
#[derive(Clone, Copy, Debug)]
pub struct Ibv;

impl Provider for Ibv {
    const NAME: &'static str = "ibv";
    const ISOLATES: bool = true;
    type Cpu = NativeCpu;
    type Device = IbvDevice;
    type Domain = IbvDomain;
    type Context = IbvContext;
    type Mr = IbvMr;
    type SharedMr = IbvSharedMr;
    type DeviceMemory = IbvDeviceMemory;
    type Qp = IbvQp;
    type Cq = IbvCq;
    type Srq = IbvSrq;
    type SharedQueue = IbvSharedQueue;
}
