//! [`ShmDevice`]: creates the contexts of threads.

use crate::Shm;
use crate::context::ShmContext;
use crate::domain::ShmDomain;
use crate::lane::Geometry;
use crate::ring::{FIRST_BYTES, LENGTH_MAX, MORE_BYTES};
use drover_base::Ns;
use drover_mem::entropy;
use drover_verbs::{Caps, Device, Domain, DomainOptions, OpenError, Support};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Options of a [`ShmDevice`]; the defaults are right for services.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ShmOptions {
    /// Seed of the random streams of its contexts' cores. Each context has a stream of its own, which depends on this
    /// seed and on how many contexts the device opened before. Servers draw their epoch from these
    /// streams, so the default is unpredictable.
    pub seed: u64,
    /// Longest single sleep in [`park`](drover_verbs::Context::park), whatever the deadline; zero never sleeps.
    /// Default: one second. Bounds the delay that a hostile peer, which shares our bell page, can cause.
    pub park_max: Ns,
    /// Size of the rings through which messages reach a queue pair (each sender has its own), in lines of 64 bytes per
    /// RECV of the receiving queue pair's `recv_depth`. Default: 12, so that all replies of 1,000 bytes of a usual window
    /// fit, though nobody takes them. A ring is rounded up to a power of two from 256 to 65,536 lines; into a UD queue
    /// pair with a shared receive queue it always has 256. The system backs a ring with memory as messages first reach
    /// each page; in use, messages cycle through the whole ring.
    pub ring_lines_per_recv: usize,
    /// Whether regions of peers may be files, as those of memory nodes are that outlive their process. A file can be
    /// shortened by anybody who may write to it, which kills all processes that have it mapped; so it is for peers that are
    /// trusted anyway. Default: no.
    pub accepts_files: bool,
    /// Whether peers' memory may be of reserved huge pages. Default: yes. A peer can punch holes into its memory and use up the
    /// reserve; who touches such a hole then is killed by the system (SIGBUS). So a server of peers that it need not trust
    /// takes ordinary pages only.
    pub huge_pages_of_peers: bool,
}

impl Default for ShmOptions {
    fn default() -> ShmOptions {
        ShmOptions {
            seed: entropy(),
            park_max: Ns::from_s(1),
            ring_lines_per_recv: 12,
            accepts_files: false,
            huge_pages_of_peers: true,
        }
    }
}

impl ShmOptions {
    /// Log2 of the ring lines of a lane into a queue pair with `recv_depth` RECVs: at least 16 KiB, so that the longest
    /// datagram is well under half of the ring.
    pub(crate) fn ring_shift(&self, recv_depth: usize) -> u32 {
        let lines = (recv_depth * self.ring_lines_per_recv).max(RING_LINES_MIN);
        lines.next_power_of_two().ilog2().clamp(Geometry::SHIFT_MIN, 16)
    }
}

/// The shared-memory fabric between processes and threads of one machine. It needs no hardware and no privileges. Holds
/// options only; clones share them and the count of opened contexts.
#[derive(Clone, Debug)]
pub struct ShmDevice {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    options: ShmOptions,
    caps: Caps,
    /// Number of contexts opened so far: the next one's index among the random streams.
    opened: Arc<AtomicU64>,
}

impl ShmDevice {
    /// Creates a device. It takes no resources and cannot fail: contexts own the resources. Contexts of different
    /// devices, also in different processes, can reach each other.
    pub fn open(options: ShmOptions) -> ShmDevice {
        ShmDevice {
            inner: Arc::new(Inner {
                options,
                caps: caps(),
                opened: Arc::default(),
            }),
        }
    }
}

impl Default for ShmDevice {
    fn default() -> ShmDevice {
        ShmDevice::open(ShmOptions::default())
    }
}

impl ShmDevice {
    /// A device for memory nodes and their clients, which [trust each other](ShmOptions::accepts_files).
    pub fn of_pool() -> ShmDevice {
        ShmDevice::open(ShmOptions {
            accepts_files: true,
            ..ShmOptions::default()
        })
    }

    /// Whether this process may not have the kernel run barriers on other threads (`membarrier`). Then every post of its
    /// connections has a full fence, so that a peer can shut it out, and its sleeps are short.
    pub fn posts_are_fenced() -> bool {
        !crate::bell::can_run_barriers()
    }
}

impl Device<Shm> for ShmDevice {
    fn context(&self) -> Result<ShmContext, OpenError> {
        self.domain(&DomainOptions::default())?.context()
    }

    /// Never fails. There are no doorbells, so the options make no difference.
    fn domain(&self, _options: &DomainOptions) -> Result<ShmDomain, OpenError> {
        let Inner {
            options,
            caps,
            opened,
        } = &*self.inner;
        Ok(ShmDomain::new(options, caps, opened))
    }

    fn caps(&self) -> &Caps {
        &self.inner.caps
    }
}

/// Most elements per gather list. *(our choice: pending requests keep a copy)*
pub(crate) const SGE_MAX: usize = 8;
/// Fewest ring lines of a lane.
const RING_LINES_MIN: usize = 256;
/// Longest message: half a ring.
const SEND_BYTES_MAX: usize = FIRST_BYTES + MORE_BYTES * (RING_LINES_MIN / 2 - 1);
/// Longest datagram, bytes.
pub(crate) const MTU_BYTES: usize = 4096;
/// Deepest queue; it bounds the RECV lengths in a lane.
pub(crate) const DEPTH_MAX: usize = 16384;

fn caps() -> Caps {
    let mut caps = Caps::none();
    caps.supports = Support::ALL;
    caps.supports.shared_queues = false;
    caps.inline_bytes_max = 1024;
    caps.mtu_bytes = MTU_BYTES;
    caps.message_bytes_max = LENGTH_MAX;
    caps.send_bytes_max = SEND_BYTES_MAX;
    caps.send_depth_max = DEPTH_MAX;
    caps.recv_depth_max = DEPTH_MAX;
    caps.sge_max = SGE_MAX;
    caps.reads.outstanding_max = DEPTH_MAX;
    // Copies are made of whole words; atomics are the processor's own.
    (caps.reads.unit_bytes, caps.reads.see_earlier) = (8, true);
    caps.writes.ordered = true;
    caps.writes.lossless = true;
    caps.wakes.on_memory = true;
    caps.wakes.on_fd = true;
    caps.post_batch = 1;
    caps
}
