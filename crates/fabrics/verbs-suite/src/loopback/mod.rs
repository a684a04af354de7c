//! [`Loopback`]: the reference provider. Two ends in one process, a clock moved by hand, simple rather than fast.
//!
//! It executes every verb when it is posted, under one lock, in the simplest way. Only RC requests wait: for a RECV
//! (SEND, and WRITE with immediate data), or until the peer is connected. Protocols are developed against it, and its
//! switchable [`Flaw`]s prove that the conformance suite can fail.
//!
//! It is not fast, not a simulator (no operation takes time), and works only within one process.
//!
//! **Stricter than hardware** where that finds bugs: a send-queue slot is free again only after a completion that
//! covers it was polled; a remote key is valid only through queue pairs to the domain that exported it; an overrun
//! completion queue panics in its owner's poll; the 40 bytes before a datagram are filled with `0xa5`.
//!
//! **Memory on the card** is memory of the process, and as much as [`LoopbackOptions::caps`] say.
//!
//! **Time** is one clock per device. [`Cpu::refresh`](drover_base::Cpu::refresh) moves it by [`LoopbackOptions::tick`],
//! [`LoopbackDevice::advance`] by any amount, and a [`park`](drover_verbs::Context::park) without an event moves it to
//! its deadline.
//!
//! ```
//! use drover_verbs_suite::loopback::{Loopback, LoopbackDevice};
//! use drover_verbs::*;
//!
//! let device = LoopbackDevice::new();
//! let (here, there) = (device.context()?, device.context()?);
//! let (mut cq, there_cq) = (here.create_cq(16)?, there.create_cq(16)?);
//! let mut qp = here.create_qp(&QpOptions::<Loopback>::new(QpKind::Rc, &cq, here.caps()))?;
//! let mut there_qp = there.create_qp(&QpOptions::<Loopback>::new(QpKind::Rc, &there_cq, there.caps()))?;
//! qp.connect(&there_qp.export()?)?;
//! there_qp.connect(&qp.export()?)?;
//!
//! let target = there.alloc(4096, drover_mem::PageWish::Small)?;
//! let mr = there.register(&target, Access::REMOTE_WRITE)?;
//! let remote = here.import_region(&mr.export(&[])?)?;
//!
//! let mut list = SendList::default();
//! let payload = list.inline(b"hello");
//! list.push(SendWr::write(remote.at(64), payload).signaled(WrId(7)));
//! qp.post_send(here.cpu(), &list)?;
//!
//! let mut wcs = [Wc::default(); 4];
//! assert_eq!(cq.poll(here.cpu(), &mut wcs), 1);
//! assert_eq!((wcs[0].wr_id, wcs[0].status), (WrId(7), WcStatus::Success));
//! let mut bytes = [0; 5];
//! target.copy_out(64, &mut bytes);
//! assert_eq!(&bytes, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod card;
mod context;
mod cpu;
mod deliver;
mod device;
mod domain;
mod execute;
mod fabric;
mod flaw;
mod flawed;
mod memory;
mod qp;
mod queues;
mod request;
mod send_queue;
mod shared_queue;

pub use card::LoopbackDeviceMemory;
pub use context::LoopbackContext;
pub use cpu::LoopbackCpu;
pub use device::{LoopbackDevice, LoopbackOptions, ParkMode};
pub use domain::LoopbackDomain;
pub use flaw::Flaw;
pub use memory::{LoopbackMr, LoopbackSharedMr};
pub use qp::LoopbackQp;
pub use queues::{LoopbackCq, LoopbackSrq};
pub use shared_queue::LoopbackSharedQueue;

use drover_verbs::Provider;

/// The reference provider `loopback`: both ends are in one process, and it executes every verb at posting.
#[derive(Debug)]
pub enum Loopback {}

impl Provider for Loopback {
    const NAME: &'static str = "loopback";
    const ISOLATES: bool = true;
    type Cpu = LoopbackCpu;
    type Device = LoopbackDevice;
    type Domain = LoopbackDomain;
    type Context = LoopbackContext;
    type Mr = LoopbackMr;
    type SharedMr = LoopbackSharedMr;
    type DeviceMemory = LoopbackDeviceMemory;
    type Qp = LoopbackQp;
    type Cq = LoopbackCq;
    type Srq = LoopbackSrq;
    type SharedQueue = LoopbackSharedQueue;
}
