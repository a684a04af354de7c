//! [`WorldOptions`]: all settings of a simulated cluster but its seed.

use crate::profile::{Parameters, Profile};
use drover_base::Ns;
use drover_sim::{Noise, Phase};
use drover_verbs::{Atomics, Caps, Support};

/// Costs to switch off in cards, hosts and network, to see their effect. By default none is switched off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ablations {
    /// If true, the card's caches of queue-pair contexts and work requests never fill: a context misses only at its
    /// first use, a work request never. The first-level cache of contexts (`near_entries` of the profile) keeps its
    /// size.
    pub caches: bool,
    /// If true, doorbell registers have no locks, and what cores share otherwise costs no waiting.
    pub locks: bool,
    /// If true, links are so fast (10^6 bytes per nanosecond) that their bandwidth never limits. Their latency stays,
    /// and so does the bandwidth of the PCIe bus.
    pub links: bool,
    /// If true, the work and the memory accesses of cores take no time, but a step that finds work still takes at least
    /// 1 ns. Waiting for locks and for the card stays, and so does the time to detect an arrival.
    pub cpu: bool,
}

/// Timeouts and retries of RC queue pairs as requesters, the same for all queue pairs of a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RcOptions {
    /// Timeout of a queue pair: if it has unacknowledged requests and has neither sent a request nor received an answer
    /// for this time, it retransmits all unacknowledged requests.
    pub timeout: Ns,
    /// Most timeouts in a row, without an answer in between, that lead to a retransmission. The next timeout fails the
    /// oldest unacknowledged request with `RetryExceeded` and breaks the queue pair. With 0, the first timeout does so.
    pub retries: u32,
    /// Time that a requester waits before it repeats a request for which the peer had no RECV. How long it goes on
    /// repeating is [`QpOptions::rnr_timeout`](drover_verbs::QpOptions::rnr_timeout).
    pub rnr_delay: Ns,
}

impl Default for RcOptions {
    /// A timeout of 67 ms (4.096 us times 2^14), seven retries, and 10 us before a repeat for lack of a RECV.
    fn default() -> RcOptions {
        RcOptions {
            timeout: Ns(4_096 << 14),
            retries: 7,
            rnr_delay: Ns::from_us(10),
        }
    }
}

/// Settings of a simulated cluster, the same for all its machines. Start from [`WorldOptions::new`].
#[derive(Clone, Debug)]
pub struct WorldOptions {
    /// Profile of all machines of the cluster: sizes of their parts, and the time that each piece of work takes.
    pub profile: Profile,
    /// Costs to switch off; none by default.
    pub ablations: Ablations,
    /// Random stalls and clock skew of cores; none by default.
    pub noise: Noise,
    /// Assumed position of a parked core in its polling round when something arrives, which decides how much later the
    /// core notices it. Uniformly random by default.
    pub phase: Phase,
    /// Probability, from 0 to 1, that a packet is lost on the link. A message, or an acknowledgement, is lost if one of
    /// its packets is. RC retransmits, UC and UD do not.
    pub loss: f64,
    /// Torn mode. If true, the 64-byte lines of a WRITE or SEND become visible at the receiver one by one in ascending
    /// order, and a READ copies the peer's lines one by one. If false, all bytes of a message at one time.
    pub torn: bool,
    /// In torn mode, words of 8 bytes become visible, and are READ, one by one, instead of lines of 64. False by default.
    pub torn_words: bool,
    /// Whether cards report [`WriteCaps::lossless`](drover_verbs::WriteCaps::lossless); this option changes nothing
    /// else. With `loss` above 0 or in torn mode, cards never report it. False by default.
    pub lossless: bool,
    /// Torn mode: longest time from one line to the next. The actual times are random, and at least a picosecond.
    /// Without torn mode it is not used.
    pub tear_max: Ns,
    /// Timeouts and retries of RC queue pairs.
    pub rc: RcOptions,
    /// Longest virtual time of one step of a core (one round over its actors): charges and memory accesses, waiting
    /// excluded. The simulation panics if a step takes longer. 50 us by default.
    pub step_cap: Ns,
    /// Times of the work that actors charge: (name of the cost, nanoseconds per unit). A cost that is not listed is
    /// free. The profile has the times of verbs; an entry such as `verbs.poll` here replaces the profile's.
    pub costs: Vec<(String, f64)>,
}

impl WorldOptions {
    /// Settings for machines of the kind `profile`: no stalls, clock skew, packet loss or tearing; no cost switched
    /// off; no prices in `costs`. Cards do not report that they are lossless.
    pub fn new(profile: Profile) -> WorldOptions {
        WorldOptions {
            profile,
            ablations: Ablations::default(),
            noise: Noise::OFF,
            phase: Phase::Uniform,
            loss: 0.0,
            torn: false,
            torn_words: false,
            lossless: false,
            tear_max: Ns(50),
            rc: RcOptions::default(),
            step_cap: Ns::from_us(50),
            costs: Vec::new(),
        }
    }

    /// Aligned bytes that always become visible, and are READ, at one time.
    pub(crate) fn tear_unit(&self) -> u64 {
        match self.torn && self.torn_words {
            true => 8,
            false => 64,
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
        caps.reads.outstanding_max = p.qp.reads_max as usize;
        // Lines become visible in ascending order, torn or not.
        (caps.writes.ordered, caps.wakes.on_memory) = (true, true);
        caps.writes.lossless = self.lossless && self.loss == 0.0 && !self.torn;
        // As on cards of this kind: the atomics unit excludes other requests, not cores.
        caps.supports.atomics = Atomics::Card;
        (caps.reads.unit_bytes, caps.reads.see_earlier) = (self.tear_unit() as usize, true);
        caps.supports.device_memory_bytes = p.machine.device_memory_bytes as usize;
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
