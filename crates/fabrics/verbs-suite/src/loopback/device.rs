//! [`LoopbackDevice`]: an opened fabric, shared by all its contexts.

use super::cpu::{Clock, LoopbackCpu};
use super::fabric::Fabric;
use super::{Flaw, Loopback, LoopbackContext, LoopbackDomain};
use drover_base::{Ns, Rng};
use drover_verbs::{Caps, Device, DomainOptions, OpenError, Support};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// What [`park`](drover_verbs::Context::park) does if nothing has arrived when it is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParkMode {
    /// Returns at once, after moving the device's clock to the deadline if there is one: for programs of one thread.
    AdvanceClock,
    /// Blocks the thread until something arrives or as much system time has passed as the deadline is ahead of the
    /// device's clock; then, if nothing arrived, moves that clock to the deadline. For contexts in several threads.
    Block,
}

/// Options of a [`LoopbackDevice`].
#[derive(Clone, Debug)]
pub struct LoopbackOptions {
    /// Capabilities that the device reports; lower them to test how a protocol copes. The device enforces kinds of
    /// queue pairs, atomics, shared receive queues, depths, numbers of elements, lengths of payloads (but not
    /// `send_bytes_max`), and memory on the card. Other fields are only reported: WRITEs stay ordered and lossless, and parks end early, even
    /// if `writes` and `wakes` say no.
    pub caps: Caps,
    /// Seed of the random streams of the device's cores; each core has a stream of its own.
    pub seed: u64,
    /// Time by which each [`refresh`](drover_base::Cpu::refresh) of a core moves the device's clock.
    pub tick: Ns,
    /// What `park` does if nothing has arrived when it is called.
    pub park: ParkMode,
    /// Bug to switch on, to test the tests; `None`: no bug.
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

/// All features and guarantees, with limits like those of a card.
fn caps() -> Caps {
    let mut caps = Caps::none();
    caps.supports = Support::ALL;
    caps.inline_bytes_max = 256;
    caps.mtu_bytes = 4096;
    caps.message_bytes_max = 1 << 30;
    caps.send_bytes_max = 1 << 30;
    caps.send_depth_max = 1 << 14;
    caps.recv_depth_max = 1 << 14;
    caps.sge_max = 16;
    caps.reads.outstanding_max = 16;
    (caps.reads.unit_bytes, caps.reads.see_earlier) = (8, true);
    caps.writes.ordered = true;
    caps.writes.lossless = true;
    caps.wakes.on_memory = true;
    caps.wakes.on_fd = true;
    caps.supports.device_memory_bytes = 64 << 10;
    caps
}

/// An opened loopback fabric. Clones are the same fabric; two devices opened separately cannot reach each other.
#[derive(Clone, Debug)]
pub struct LoopbackDevice {
    pub(super) options: Arc<LoopbackOptions>,
    clock: Clock,
    pub(super) shared: Shared,
}

/// The fabric and its lock, held by every handle.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    fabric: Arc<Mutex<Fabric>>,
    /// Notified when a parked context is rung.
    pub(super) rung: Arc<Condvar>,
}

impl Shared {
    /// Locks the fabric. After a panic in another thread it is consistent enough for a test to report the failure.
    pub(super) fn lock(&self) -> MutexGuard<'_, Fabric> {
        self.fabric
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl LoopbackDevice {
    /// Opens a fabric with default options.
    #[allow(
        clippy::new_without_default,
        reason = "opening a fabric is not a default value"
    )]
    pub fn new() -> LoopbackDevice {
        LoopbackDevice::with_options(LoopbackOptions::default())
    }

    /// Opens a fabric with `options`.
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

    /// Creates a context of `domain`, or in a domain of its own.
    pub(super) fn context_of(&self, domain: Option<u32>) -> LoopbackContext {
        let (id, domain) = self.shared.lock().add_context(domain);
        let rng = Rng::new(self.options.seed, u64::from(id), 0);
        let cpu = LoopbackCpu::new(self.clock.clone(), self.options.tick, rng);
        LoopbackContext::new((id, domain), cpu, &self.options, self.shared.clone())
    }

    /// The time of the device's clock, which starts at zero. Does not move it.
    pub fn now(&self) -> Ns {
        self.clock.now()
    }

    /// Moves the device's clock forward by `by`. The cores of its contexts see it at their next
    /// [`refresh`](drover_base::Cpu::refresh).
    pub fn advance(&self, by: Ns) {
        self.clock.advance(by);
    }
}

impl Device<Loopback> for LoopbackDevice {
    fn context(&self) -> Result<LoopbackContext, OpenError> {
        Ok(self.context_of(None))
    }

    fn domain(&self, _options: &DomainOptions) -> Result<LoopbackDomain, OpenError> {
        Ok(LoopbackDomain::new(self))
    }

    fn caps(&self) -> &Caps {
        &self.options.caps
    }
}
