//! [`WorldOptions`]: all settings of a simulated cluster but its seed.

use crate::profile::{Parameters, Profile};
use drover_base::Ns;
use drover_sim::{Noise, Phase};
use drover_verbs::{Caps, Support};

/// Costs to switch off in cards, hosts and network, to see their effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ablations {
    /// Contexts and work requests always hit.
    pub caches: bool,
    /// Doorbell registers have no locks.
    pub locks: bool,
    /// Links have infinite bandwidth.
    pub links: bool,
    /// The work of cores costs nothing.
    pub cpu: bool,
}

/// Retries of RC requesters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RcOptions {
    /// Time without any answer after which a request is retransmitted.
    pub timeout: Ns,
    /// Consecutive timeouts after which the peer counts as dead.
    pub retries: u32,
    /// Delay of a retry after "no RECV".
    pub rnr_delay: Ns,
}

impl Default for RcOptions {
    /// The usual 4.096 us x 2^14, seven times.
    fn default() -> RcOptions {
        RcOptions {
            timeout: Ns(4_096 << 14),
            retries: 7,
            rnr_delay: Ns::from_us(10),
        }
    }
}

/// Settings of a cluster. Start from [`WorldOptions::new`].
#[derive(Clone, Debug)]
pub struct WorldOptions {
    /// Prices of its parts.
    pub profile: Profile,
    /// Costs to switch off.
    pub ablations: Ablations,
    /// Stalls and clock skew of cores.
    pub noise: Noise,
    /// Position of pollers in their polling round when something arrives.
    pub phase: Phase,
    /// Probability of losing a packet. RC retransmits, UC and UD do not.
    pub loss: f64,
    /// Whether lines of messages become visible, and lines of a READ are sampled, one by one.
    pub torn: bool,
    /// Whether cards claim that UC loses no WRITE and keeps their order, which is true without loss and tearing.
    pub lossless: bool,
    /// Torn mode: longest time from line to line.
    pub tear_max: Ns,
    /// Retries of RC requesters.
    pub rc: RcOptions,
    /// Highest charge of one step of an actor.
    pub step_cap: Ns,
    /// Prices of costs that actors charge, in nanoseconds per unit, in addition to those of verbs.
    pub costs: Vec<(String, f64)>,
}

impl WorldOptions {
    /// A quiet, lossless cluster of `profile`.
    pub fn new(profile: Profile) -> WorldOptions {
        WorldOptions {
            profile,
            ablations: Ablations::default(),
            noise: Noise::OFF,
            phase: Phase::Uniform,
            loss: 0.0,
            torn: false,
            lossless: false,
            tear_max: Ns(50),
            rc: RcOptions::default(),
            step_cap: Ns::from_us(50),
            costs: Vec::new(),
        }
    }

    /// Capabilities of every card of the cluster.
    pub(crate) fn caps(&self) -> Caps {
        let p = self.profile.parameters();
        let mut caps = Caps::none();
        caps.supports = Support::ALL;
        caps.inline_bytes_max = p.qp.inline_max as usize;
        caps.mtu_bytes = p.link.mtu as usize;
        caps.message_bytes_max = 1 << 30;
        caps.send_bytes_max = 1 << 30;
        (caps.send_depth_max, caps.recv_depth_max) = (1 << 14, 1 << 14);
        caps.sge_max = 16;
        caps.reads_outstanding_max = p.qp.reads_max as usize;
        // Lines become visible in ascending order, torn or not.
        (caps.writes.ordered, caps.wakes.on_memory) = (true, true);
        caps.writes.lossless = self.lossless && self.loss == 0.0 && !self.torn;
        caps.post_batch = 16;
        caps
    }

    /// The profile's parameters with the ablations applied.
    pub(crate) fn parameters(&self) -> Parameters {
        let mut p = self.profile.parameters().clone();
        if self.ablations.caches {
            p.context.capacity = 1e12;
            p.wqe_cache.ways = u64::MAX;
            p.mtt.entries = 0;
        }
        if self.ablations.locks {
            p.lock.shared_registers = 0;
        }
        if self.ablations.links {
            p.link.bytes_per_ns = 1e6;
        }
        p
    }
}
