//! [`Faulty`]: a provider around a provider that loses, doubles, delays, reorders and tears what the inner one
//! would have delivered.
//!
//! **Fault model.** The faults are those that a network, a NIC or an unlucky moment can produce *below* an
//! unreliable queue pair; a program that survives them here survives them there. Each request that may suffer
//! (a WRITE or SEND over UC, a SEND over UD) draws at most one fate when it is posted:
//!
//! | fate | what the peer sees |
//! |---|---|
//! | drop | nothing, ever |
//! | duplicate | the message, and the same message again later: a WRITE lands once more over what came since |
//! | delay | the message, later than others posted after it |
//! | reorder | the message, just after the next look at a queue |
//! | tear | a WRITE's cache lines one by one in random order, each when it likes; the last word may come first |
//!
//! What is delivered late carries the bytes as they were at posting. The sender sees what it would have seen
//! without the fault: an unreliable sender never learns. RC promises delivery, so its requests suffer none of
//! this; [`FaultOptions::rc_break`] breaks whole connections instead, before or after the request was carried out.
//!
//! Bytes are never corrupted: checksums below verbs exclude that. Nothing happens on the receiving side.
//!
//! Everything follows from the seed and the order of calls. Late messages move when this context posts,
//! polls or parks. With no fault possible, calls pass through untouched.
//!
//! ```
//! use drover_verbs::Device;
//! use drover_verbs_suite::{faulty::*, loopback::{Loopback, LoopbackDevice}};
//! let options = FaultOptions { drop: 0.01, tear: 0.1, ..FaultOptions::quiet(42) };
//! let device = FaultyDevice::<Loopback>::new(LoopbackDevice::new(), options);
//! assert!(!device.caps().ordered_writes, "torn writes are not ordered");
//! let context = device.context()?;
//! # drop(context);
//! # assert_eq!(device.counts().total(), 0);
//! # Ok::<(), drover_verbs::OpenError>(())
//! ```
//!
//! **Reserved:** work request ids from `0xfa17_fa17_0000_0000` on are the wrapper's own.

mod context;
mod fate;
mod late;
mod options;
mod qp;
mod queues;

pub use context::{FaultyContext, FaultyDevice, FaultyMr};
pub use options::{FaultCounts, FaultOptions};
pub use qp::FaultyQp;
pub use queues::{FaultyCq, FaultySrq};

use drover_verbs::Provider;
use std::marker::PhantomData;

/// `P` with faults; see the module.
#[derive(Debug)]
pub struct Faulty<P>(PhantomData<P>);

impl<P: Provider> Provider for Faulty<P> {
    const NAME: &'static str = "faulty";
    type Cpu = P::Cpu;
    type Device = FaultyDevice<P>;
    type Context = FaultyContext<P>;
    type Mr = FaultyMr<P>;
    type Qp = FaultyQp<P>;
    type Cq = FaultyCq<P>;
    type Srq = FaultySrq<P>;
}
