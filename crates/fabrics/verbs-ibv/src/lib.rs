//! Verbs over libibverbs: InfiniBand and RoCE cards, and the kernel's software RoCE on any network interface.
//!
//! It is the hardware's own semantics, with nothing emulated: a list is one chain for one post, completions are the
//! device's, a peer's death is a retry counter that runs out. It is not needed where there is no such device: the
//! library is loaded when an [`IbvDevice`] is opened, and its absence is an error that says what to do.
//!
//! - [`IbvDevice`] is a choice of device, port and address ([`choose`]), with the limits read from it;
//!   [`IbvContext`] is one thread's view, an opened device of its own.
//! - **Addresses** are offsets: memory is registered at device address 0, so neither end adds or checks anything.
//! - **Remote keys** and address handles are numbers of the context's own tables, so that what was forgotten opens
//!   nothing; a post looks them up in about a nanosecond.
//! - **Ownership**: every object of the library is held by its users (`raw/`): it is destroyed after them, once.
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
//! qp.connect(&peer_qp)?; // what the peer's `export` said
//! let remote = ctx.import_region(&peer_region)?;
//! let mut list = SendList::default();
//! let payload = list.inline(b"hello");
//! list.push(SendWr::write(remote.at(64), payload));
//! qp.post_send(ctx.cpu(), &list)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is particular here
//! - WRITEs land in any order within a message ([`Caps::ordered_writes`](drover_verbs::Caps) is not offered), and
//!   nobody is told of them ([`Caps::memory_wait`](drover_verbs::Caps)): who polls memory spins.
//! - How long a SEND waits for a RECV is counted in steps that the receiver names: see `rnr.rs`.
//! - **Waiting**: a poll is a poll; a parked context sleeps until a completion comes (`park.rs`). Which of it a program
//!   does, and when it lets others have the core, its run loop decides.
//! - A queue pair that gets nowhere is logged with what its device says of it ([`IbvOptions::stuck_after`]).
//! - What one packet carries must be equal at both ends of UC and UD; RC takes the smaller (`agree.rs`).
//! - Statuses that only broken devices give come as [`RemoteOperation`](drover_verbs::WcStatus).
//!
//! Source: `[rdma-core]` for the ABI and its contracts, `[IBTA]` for semantics.

mod agree;
mod chain;
pub mod choose;
mod context;
mod core;
mod cq;
mod device;
pub mod ffi;
mod memlock;
mod mr;
mod park;
mod post;
mod qp;
mod raw;
mod rnr;
mod srq;
pub mod survey;
mod tables;
mod watch;
mod wire;

pub use agree::Agreement;
pub use choose::{Choice, Wish};
pub use context::IbvContext;
pub use cq::IbvCq;
pub use device::{IbvDevice, IbvOptions};
pub use mr::IbvMr;
pub use qp::IbvQp;
pub use srq::IbvSrq;
pub use survey::Survey;
pub use watch::StuckQp;

use drover_mem::NativeCpu;
use drover_verbs::Provider;

/// The provider.
#[derive(Clone, Copy, Debug)]
pub struct Ibv;

impl Provider for Ibv {
    const NAME: &'static str = "ibv";
    type Cpu = NativeCpu;
    type Device = IbvDevice;
    type Context = IbvContext;
    type Mr = IbvMr;
    type Qp = IbvQp;
    type Cq = IbvCq;
    type Srq = IbvSrq;
}
