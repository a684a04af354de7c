//! [`LoopbackDevice`]: the fabric as opened, shared by all its contexts.

use super::cpu::{Clock, LoopbackCpu};
use super::fabric::Fabric;
use super::{Flaw, Loopback, LoopbackContext};
use drover_base::{Ns, Rng};
use drover_verbs::{Caps, Device, OpenError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// What [`park`](drover_verbs::Context::park) does when nothing has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParkMode {
    /// Moves the clock to the deadline and returns: for everything in one thread.
    AdvanceClock,
    /// Really sleeps, a nanosecond of the system's for each nanosecond of ours, then moves the clock: for
    /// contexts in several threads.
    Block,
}

/// How to make a [`LoopbackDevice`].
#[derive(Clone, Debug)]
pub struct LoopbackOptions {
    /// What it claims to be able to do; lower it to see whether a protocol copes.
    pub caps: Caps,
    /// Seed of its cores' random streams.
    pub seed: u64,
    /// How far each refresh of a core moves the clock.
    pub tick: Ns,
    /// How to park.
    pub park: ParkMode,
    /// A rule to break, for testing tests.
    pub flaw: Option<Flaw>,
}

impl Default for LoopbackOptions {
    fn default() -> LoopbackOptions {
        LoopbackOptions {
            caps: caps(),
            seed: 0,
            tick: Ns(100),
            park: ParkMode::AdvanceClock,
            flaw: None,
        }
    }
}

/// All that a fabric may offer.
fn caps() -> Caps {
    let mut caps = Caps::none();
    caps.rc = true;
    caps.uc = true;
    caps.ud = true;
    caps.atomics = true;
    caps.srq = true;
    caps.inline_bytes_max = 256;
    caps.mtu_bytes = 4096;
    caps.message_bytes_max = 1 << 30;
    caps.send_bytes_max = 1 << 30;
    caps.send_depth_max = 1 << 14;
    caps.recv_depth_max = 1 << 14;
    caps.sge_max = 16;
    caps.reads_outstanding_max = 16;
    caps.ordered_writes = true;
    caps.lossless_writes = true;
    caps.memory_wait = true;
    caps.fd_wait = true;
    caps
}

/// An opened loopback fabric. Two devices do not reach each other.
#[derive(Clone, Debug)]
pub struct LoopbackDevice {
    options: Arc<LoopbackOptions>,
    clock: Clock,
    shared: Shared,
}

/// The fabric behind its lock, as every handle holds it.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    fabric: Arc<Mutex<Fabric>>,
    /// Notified when a parked context is rung.
    pub(super) rung: Arc<Condvar>,
}

impl Shared {
    /// The fabric. A thread that panicked inside left it consistent enough for a test to go on and say why.
    pub(super) fn lock(&self) -> MutexGuard<'_, Fabric> {
        self.fabric
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl LoopbackDevice {
    /// With default options.
    #[allow(
        clippy::new_without_default,
        reason = "opening a fabric is not a default value"
    )]
    pub fn new() -> LoopbackDevice {
        LoopbackDevice::with_options(LoopbackOptions::default())
    }

    /// With options of your choice.
    pub fn with_options(options: LoopbackOptions) -> LoopbackDevice {
        let clock = Clock::new();
        let rung = Arc::new(Condvar::new());
        let fabric = Fabric::new(options.caps.clone(), options.flaw, clock.clone(), rung.clone());
        LoopbackDevice {
            options: Arc::new(options),
            clock,
            shared: Shared {
                fabric: Arc::new(Mutex::new(fabric)),
                rung,
            },
        }
    }

    /// The time now.
    pub fn now(&self) -> Ns {
        self.clock.now()
    }

    /// Moves the clock on by `by`.
    pub fn advance(&self, by: Ns) {
        self.clock.advance(by);
    }
}

impl Device<Loopback> for LoopbackDevice {
    fn context(&self) -> Result<LoopbackContext, OpenError> {
        let id = self.shared.lock().add_context();
        let rng = Rng::new(self.options.seed, u64::from(id), 0);
        let cpu = LoopbackCpu::new(self.clock.clone(), self.options.tick, rng);
        Ok(LoopbackContext::new(id, cpu, &self.options, self.shared.clone()))
    }

    fn caps(&self) -> &Caps {
        &self.options.caps
    }
}
