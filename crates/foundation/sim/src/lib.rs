//! A discrete-event simulation of a cluster of machines: virtual time, cores, servers with queues, seeds.
//!
//! It depends on neither verbs nor keys and values: network cards are a [`Model`] of another crate.
//!
//! - [`Sim`] runs events in the order of their time and steps the [`Actor`](drover_base::Actor)s of virtual cores.
//! - [`VirtualCpu`] is a core as actors see it: work moves its clock by the prices of a [`CostTable`], and so does waiting for
//!   the [`Locks`] that cores share.
//! - [`Station`] and [`Pipe`] are the parts of models: servers with a queue, and streams of bytes.
//! - [`Stream`] is randomness that is independent of other entities' draws; [`Noise`] and [`FaultPlan`] use it.
//!
//! **The step rule.** An actor sees memory as of the start of its step; its charges move the clock of its core; its
//! posts carry that clock. A busy actor steps again at the time of its clock. An idle actor is parked until something
//! it watches arrives or its timer expires: empty polls are accounted for by arithmetic, not by events. The error is at
//! most one step's charge, which is therefore capped ([`CpuOptions::step_cap`]).
//!
//! **Determinism.** Time is whole picoseconds, events of equal time run in the order of their creation, and the same
//! seed gives the same [`trace hash`](Sim::trace_hash). It does not depend on addresses of memory, as long as the
//! [`AddressSpace`] knows all mappings.
//!
//! ```
//! use drover_base::{Actor, Cost, Cpu, Ns, Progress};
//! use drover_sim::{CpuOptions, Event, Model, Queue, Sim, VirtualCpu};
//!
//! struct Nothing;
//! impl Model for Nothing {
//!     fn handle(&mut self, _: Event, _: &mut Queue) {}
//! }
//! /// Ticks every microsecond.
//! struct Clockwork;
//! impl Actor<VirtualCpu> for Clockwork {
//!     fn step(&mut self, cpu: &VirtualCpu) -> Progress {
//!         cpu.charge(Cost::new("clockwork.tick"), 1);
//!         Progress::Idle { wake_at: cpu.now() + Ns::from_us(1) }
//!     }
//! }
//! let sim = Sim::new(Nothing, 7);
//! let cpu = sim.add_core(0, CpuOptions::default());
//! sim.host(&cpu, Box::new(Clockwork));
//! sim.run_until(Ns::from_us(10));
//! assert_eq!(cpu.report().lines[0].count, 11); // at 0, 1, 2 ... 10 us
//! ```
//!
//! Sources: `[TigerBeetle]` and `[FoundationDB]` for seeds, faults and replay.
#![forbid(unsafe_code)]

mod address_space;
mod agenda;
mod cost;
mod cpu;
mod expected;
mod fault;
mod last_level;
mod lines;
mod locks;
mod noise;
mod pipe;
mod queue;
mod run;
mod station;
mod stream;
mod time;

pub use address_space::AddressSpace;
pub use cost::{CostLine, CostTable};
pub use cpu::{CoreId, CoreReport, CpuOptions, Phase, VirtualCpu};
pub use expected::{Alarm, Expected};
pub use fault::{Fault, FaultKind, FaultOptions, FaultPlan};
pub use last_level::LastLevel;
pub use lines::LinePrices;
pub use locks::{HeldLock, Locks, Taken, Turns, Waiting};
pub use noise::Noise;
pub use pipe::{ByteTime, Pipe};
pub use queue::{Event, Queue};
pub use run::{Model, Sim};
pub use station::{Station, Usage};
pub use stream::Stream;
pub use time::Ps;
