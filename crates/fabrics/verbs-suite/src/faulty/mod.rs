//! [`Faulty`]: a wrapper that loses, duplicates, delays, reorders and tears the messages of another provider.
//!
//! **Fault model.** The faults are those that a network or a NIC can produce *below* an unreliable queue pair; a
//! program that survives them here survives them there. Each request of an unreliable kind (a WRITE or SEND over UC, a
//! SEND over UD) draws at most one fate when it is posted:
//!
//! | fate | effect at the peer |
//! |---|---|
//! | drop | nothing, ever |
//! | duplicate | the message, and the same message again later: a WRITE overwrites newer data once more |
//! | delay | the message, later than others posted after it |
//! | reorder | the message, at the second following post or poll of its context |
//! | tear | a WRITE's cache lines one by one in random order at random times; the last word may come first |
//!
//! A late message carries the bytes as they were at posting. The sender sees the same as without the fault, because an
//! unreliable sender gets no acknowledgement. RC guarantees delivery, so its requests draw no fate;
//! [`FaultOptions::rc_break`] breaks whole connections instead, before or after a list is executed.
//!
//! A [`Forger`] plays a client that uses keys of other clients, as no fault of a network does.
//!
//! Bytes are never corrupted: checksums below verbs exclude that. The receiving side is not changed.
//!
//! All faults follow from the seed and the order of calls. Late messages are delivered when this context posts, polls
//! or parks. If no fault is possible, calls are passed on unchanged.
//!
//! ```
//! use drover_verbs::Device;
//! use drover_verbs_suite::{faulty::*, loopback::{Loopback, LoopbackDevice}};
//! let options = FaultOptions { drop: 0.01, tear: 0.1, ..FaultOptions::quiet(42) };
//! let device = FaultyDevice::<Loopback>::new(LoopbackDevice::new(), options);
//! assert!(!device.caps().writes.ordered, "torn writes are not ordered");
//! let context = device.context()?;
//! # drop(context);
//! # assert_eq!(device.counts().total(), 0);
//! # Ok::<(), drover_verbs::OpenError>(())
//! ```
//!
//! **Reserved:** work request ids from `0xfa17_fa17_0000_0000` to `0xfa17_fa17_ffff_ffff` are the wrapper's own.

mod context;
mod fate;
mod forger;
mod late;
mod options;
mod qp;
mod queues;
mod results;

pub use context::{FaultyContext, FaultyDevice, FaultyDomain, FaultyMr};
pub use forger::{Forged, Forger, Forgery, GivenKey, KeyMistake};
pub use options::{FaultCounts, FaultOptions};
pub use qp::FaultyQp;
pub use queues::{FaultyCq, FaultySrq};
pub use results::lost_results;

use drover_verbs::Provider;
use std::marker::PhantomData;

/// The provider `P` with faults injected; see the [module documentation](self).
#[derive(Debug)]
pub struct Faulty<P>(PhantomData<P>);

impl<P: Provider> Provider for Faulty<P> {
    const NAME: &'static str = "faulty";
    const ISOLATES: bool = P::ISOLATES;
    type Cpu = P::Cpu;
    type Device = FaultyDevice<P>;
    type Domain = FaultyDomain<P>;
    type Context = FaultyContext<P>;
    type Mr = FaultyMr<P>;
    type SharedMr = P::SharedMr;
    type DeviceMemory = P::DeviceMemory;
    type Qp = FaultyQp<P>;
    type Cq = FaultyCq<P>;
    type Srq = FaultySrq<P>;
    type SharedQueue = drover_verbs::provide::NoSharedQueue;
}
