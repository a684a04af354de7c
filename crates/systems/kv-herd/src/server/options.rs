//! [`ServerOptions`]: what a server offers and how it works.

use crate::layout::{SLOT_BYTES_MAX, WINDOW_MAX};
use drover_base::{HashSeed, Ns};
use drover_rt::Idle;
use drover_store::{PartitionOptions, WarmFile};
use std::sync::Arc;

/// How a worker overlaps the memory accesses of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServeMode {
    /// Gathers what is there, up to `batch` requests; three passes over them (ask for the buckets, ask for the
    /// items, execute); one doorbell for the replies. Never waits to fill a batch. `[R16]`
    Batch {
        /// At least 1.
        batch: usize,
    },
    /// The paper's two-stage pipeline, one request at a time, pushed on by no-ops after 100 failed polls
    /// `[HERD §4.2]`.
    Pipeline {
        /// Also finish everything when a whole sweep found nothing *(our choice)*.
        drain: bool,
    },
}

/// How to make a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Partitions, each with a worker of its own.
    pub partition_count: usize,
    /// Each partition's store; `value_bytes_max` is set from [`item_bytes_max`](ServerOptions::item_bytes_max).
    pub partition: PartitionOptions,
    /// Longest value, bytes.
    pub item_bytes_max: usize,
    /// How many clients there may be, and what each gets.
    pub clients: ClientLimits,
    /// Batch or pipeline.
    pub mode: ServeMode,
    /// What requests must have.
    pub requests: RequestRules,
    /// Where the partitions' memory is, if it is to outlive the process. Its keys are hashed under its seed, which must
    /// be [`hash_seed`](IdentityOptions::hash_seed).
    pub warm: Option<Arc<WarmFile>>,
    /// Start of the clock that items expire by.
    pub clock: ClockStart,
    /// What distinguishes this server from others.
    pub identity: IdentityOptions,
    /// How replies are sent.
    pub replies: ReplyOptions,
    /// Sweeps over the slots without a find before a step looks everywhere and then says that it is idle. On
    /// real cores 64: a sweep costs 3 ns per client and a pause, a look everywhere 3 ns per slot. Simulated time passes
    /// only between steps: 1.
    pub idle_sweeps: usize,
    /// When a worker with nothing to do sleeps, if the fabric can wake it.
    pub idle: Idle,
}

impl Default for ServerOptions {
    fn default() -> ServerOptions {
        ServerOptions {
            partition_count: 1,
            partition: PartitionOptions::default(),
            item_bytes_max: 1 << 20,
            clients: ClientLimits::default(),
            mode: ServeMode::Batch { batch: 32 },
            requests: RequestRules::default(),
            warm: None,
            clock: ClockStart::default(),
            identity: IdentityOptions::default(),
            replies: ReplyOptions::default(),
            idle_sweeps: 64,
            idle: Idle::ADAPTIVE,
        }
    }
}

/// How many clients there may be, and what each gets.
#[derive(Clone, Copy, Debug)]
pub struct ClientLimits {
    /// Most clients at a time.
    pub count_max: usize,
    /// Most of them with slots; further ones are asked to send datagrams, if that is possible. Polling slots
    /// stops scaling near 260 clients `[HERD §5.5]`.
    pub with_slots_max: usize,
    /// Most slots per client and partition, a power of two.
    pub window_max: usize,
    /// Largest slot, a multiple of 64.
    pub slot_bytes_max: usize,
    /// RECVs posted for request datagrams, per worker; 0: no datagram front end. Clients get a 64th of them as their
    /// window.
    pub datagram_recvs: usize,
}

impl Default for ClientLimits {
    fn default() -> ClientLimits {
        ClientLimits {
            count_max: 1024,
            with_slots_max: usize::MAX,
            window_max: WINDOW_MAX,
            slot_bytes_max: SLOT_BYTES_MAX,
            datagram_recvs: 0,
        }
    }
}

/// What requests must have.
#[derive(Clone, Default, Debug)]
pub struct RequestRules {
    /// Requests of format D may have no key: the hash is the key, as in the paper, and names another item than the key
    /// that was hashed.
    pub hash_only: bool,
    /// Requests must end with a checksum even if the fabric keeps the order of a WRITE's bytes.
    pub crc: bool,
    /// What clients must say to be let in; empty: nothing.
    pub auth: Vec<u8>,
}

/// Start of the clock that items expire by.
#[derive(Clone, Copy, Default, Debug)]
pub struct ClockStart {
    /// What the clock shows when the server starts, in seconds: how long ago it began, in whatever process that was.
    pub start_s: u32,
    /// When that was, on the clock of the provider's cores ([`Cpu::now`](drover_base::Cpu::now)); `None`: when the
    /// server is started, the same moment for all workers.
    pub started: Option<Ns>,
}

/// What distinguishes a server from others.
#[derive(Clone, Copy, Default, Debug)]
pub struct IdentityOptions {
    /// Secret of the key hash; `None`: random.
    pub hash_seed: Option<HashSeed>,
    /// The server's epoch; `None`: random.
    pub epoch: Option<u64>,
}

/// How replies are sent.
#[derive(Clone, Copy, Debug)]
pub struct ReplyOptions {
    /// Longest value that travels in the request to the fabric itself, if the fabric allows as much. Longer ones are
    /// fetched by the card, which pays off from 144 bytes on with PCIe 3.0 x8 and from 192 with PCIe 2.0 x8 `[HERD §5.3]`.
    pub inline_bytes_max: usize,
    /// One reply in so many asks for a completion. *(64 as in `[H14]` and `[R16]`)*
    pub signal_period: usize,
}

impl Default for ReplyOptions {
    fn default() -> ReplyOptions {
        ReplyOptions {
            inline_bytes_max: usize::MAX,
            signal_period: 64,
        }
    }
}

impl ServerOptions {
    /// Each partition's store.
    pub(crate) fn partition_options(&self) -> PartitionOptions {
        PartitionOptions {
            value_bytes_max: self.item_bytes_max,
            ..self.partition
        }
    }

    /// Most requests in a batch.
    pub(super) fn batch(&self) -> usize {
        match self.mode {
            ServeMode::Batch { batch } => batch.clamp(1, 256),
            ServeMode::Pipeline { .. } => 3,
        }
    }
}
