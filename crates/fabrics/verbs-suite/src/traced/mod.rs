//! [`Traced`]: a wrapper that records the last verbs of another provider, for the analysis of test failures.
//!
//! A ring of [`Event`]s per device, in the order of the calls of its contexts: posts, completions, refusals. It does
//! not copy payloads. A call costs a lock and a small allocation, so it is not for measurements.
//!
//! ```
//! use drover_verbs::{Context, Device, QpKind, QpOptions};
//! use drover_verbs_suite::{loopback::*, traced::*};
//! let device = TracedDevice::<Loopback>::new(LoopbackDevice::new(), 100);
//! let context = device.context()?;
//! let cq = context.create_cq(8)?;
//! let mut qp = context.create_qp(&QpOptions::new(QpKind::Ud, &cq, context.caps()))?;
//! drover_verbs::QueuePair::to_error(&mut qp);
//! println!("{}", device.trace());
//! assert!(device.trace().to_string().contains("to error"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod context;
mod event;
mod qp;

pub use context::{TracedContext, TracedDevice, TracedDomain};
pub use event::{Event, Trace, What};
pub use qp::{TracedCq, TracedQp, TracedSrq};

use drover_verbs::Provider;
use std::marker::PhantomData;

/// The provider `P` with recording; see the [module documentation](self).
#[derive(Debug)]
pub struct Traced<P>(PhantomData<P>);

impl<P: Provider> Provider for Traced<P> {
    const NAME: &'static str = "traced";
    type Cpu = P::Cpu;
    type Device = TracedDevice<P>;
    type Domain = TracedDomain<P>;
    type Context = TracedContext<P>;
    type Mr = P::Mr;
    type SharedMr = P::SharedMr;
    type DeviceMemory = P::DeviceMemory;
    type Qp = TracedQp<P>;
    type Cq = TracedCq<P>;
    type Srq = TracedSrq<P>;
    type SharedQueue = drover_verbs::provide::NoSharedQueue;
}
