//! [`WorldOptions`]: everything about a simulated cluster that is not its seed.

use crate::profile::{Parameters, Profile};
use drover_base::Ns;
use drover_sim::{Noise, Phase};
use drover_verbs::Caps;

/// What a card, a host and a network of a profile may be relieved of, to see what it was good for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ablations {
    /// Contexts and work requests always hit.
    pub caches: bool,
    /// Doorbell registers have no locks.
    pub locks: bool,
    /// Links carry any number of bytes at once.
    pub links: bool,
    /// Cores work for nothing.
    pub cpu: bool,
}

/// How a cluster is made. Start from [`WorldOptions::new`].
#[derive(Clone, Debug)]
pub struct WorldOptions {
    /// What its parts cost.
    pub profile: Profile,
    /// What they are relieved of.
    pub ablations: Ablations,
    /// How unsteady cores are.
    pub noise: Noise,
    /// Where pollers are in their round when something arrives.
    pub phase: Phase,
    /// Probability that a packet is lost. RC sends again, UC and UD do not.
    pub loss: f64,
    /// Lines of messages become visible, and those of a READ are sampled, one by one.
    pub torn: bool,
    /// Cards say that UC loses no WRITE and keeps their order, which is so where no packet is lost and nothing torn.
    pub lossless: bool,
    /// Torn mode: up to so much time from line to line.
    pub tear_max: Ns,
    /// An RC request is sent again when nothing has been answered for so long.
    pub rc_timeout: Ns,
    /// How often in a row before the peer counts as dead.
    pub rc_retries: u32,
    /// An RC requester waits so long after "no RECV".
    pub rnr_delay: Ns,
    /// The most that one step of an actor may charge.
    pub step_cap: Ns,
    /// Prices of costs that actors charge, nanoseconds per unit, on top of those of verbs.
    pub costs: Vec<(String, f64)>,
}

impl WorldOptions {
    /// A quiet, lossless cluster of `profile`. Timeouts are the usual 4.096 us x 2^14, seven retries.
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
            rc_timeout: Ns(4_096 << 14),
            rc_retries: 7,
            rnr_delay: Ns::from_us(10),
            step_cap: Ns::from_us(50),
            costs: Vec::new(),
        }
    }

    /// What every card of the cluster offers.
    pub(crate) fn caps(&self) -> Caps {
        let p = self.profile.parameters();
        let mut caps = Caps::none();
        (caps.rc, caps.uc, caps.ud) = (true, true, true);
        (caps.atomics, caps.srq) = (true, true);
        caps.inline_bytes_max = p.qp.inline_max as usize;
        caps.mtu_bytes = p.link.mtu as usize;
        caps.message_bytes_max = 1 << 30;
        caps.send_bytes_max = 1 << 30;
        (caps.send_depth_max, caps.recv_depth_max) = (1 << 14, 1 << 14);
        caps.sge_max = 16;
        caps.reads_outstanding_max = p.qp.reads_max as usize;
        // Lines become visible in ascending order, torn or not.
        (caps.ordered_writes, caps.memory_wait) = (true, true);
        caps.lossless_writes = self.lossless && self.loss == 0.0 && !self.torn;
        caps.post_batch = 16;
        caps
    }

    /// The profile's parameters, ablated.
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
