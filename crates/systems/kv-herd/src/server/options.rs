//! [`ServerOptions`]: sizes, limits and behaviour of a server.

use crate::layout::{SLOT_BYTES_MAX, WINDOW_MAX};
use drover_base::{HashKind, HashSeed, Ns};
use drover_cluster::ServedShards;
use drover_rt::Idle;
use drover_store::{PartitionOptions, WarmFile};
use std::sync::Arc;

/// How a worker overlaps the memory accesses of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServeMode {
    /// Gathers the requests that have arrived, up to `batch`; passes over them three times (prefetch the buckets,
    /// prefetch the items, execute); posts the replies with one doorbell. Never waits to fill a batch. `[R16]`
    Batch {
        /// Most requests in a batch, clamped to 1 to 256.
        batch: usize,
    },
    /// The two-stage pipeline of HERD's paper: requests enter one at a time, each reply has its own doorbell, and after
    /// 100 failed polls in a row a no-op enters to move the others on `[HERD §4.2]`.
    Pipeline {
        /// Whether the worker finishes all requests in the pipeline after one sweep over all clients without a new
        /// request, instead of entering no-ops *(our choice)*.
        drain: bool,
    },
}

/// Options of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Number of partitions, each with its own worker: 1 to [`PARTITIONS_MAX`](crate::control::PARTITIONS_MAX).
    pub partition_count: usize,
    /// Options of each partition's store. Its `value_bytes_max` and `hash_seed` are ignored in favour of
    /// [`item_bytes_max`](ServerOptions::item_bytes_max) and [`identity`](ServerOptions::identity). With a memory file
    /// ([`warm`](ServerOptions::warm)), all of it is ignored in favour of the options with which the file was opened.
    pub partition: PartitionOptions,
    /// Longest value that clients may store, bytes, without key and header. The server does not start if it is over the
    /// store's limit, [`VALUE_BYTES_MAX`](drover_store::VALUE_BYTES_MAX).
    pub item_bytes_max: usize,
    /// Limits on the number of clients, and on the resources of each.
    pub clients: ClientLimits,
    /// How workers overlap requests: in batches or in a pipeline.
    pub mode: ServeMode,
    /// Requirements on requests and clients.
    pub requests: RequestRules,
    /// File that holds the partitions' memory, so that the items outlive the process; `None`: private memory. The keys
    /// in the file are hashed under the [seed](WarmFile::seed) that it records, and
    /// [`hash_seed`](IdentityOptions::hash_seed) must be the same, which is not checked.
    pub warm: Option<Arc<WarmFile>>,
    /// Start of the clock by which items expire.
    pub clock: ClockStart,
    /// Hash seed and epoch of the server.
    pub identity: IdentityOptions,
    /// How workers send replies.
    pub replies: ReplyOptions,
    /// Number of sweeps without a new request after which a step of a worker checks every slot and, if there is still
    /// none, reports that it is idle; 0 counts as 1. The default, 64, is for real cores: a sweep costs 3 ns per client
    /// plus a pause instruction, and a check of every slot costs 3 ns per slot. Simulations use 1, because time passes
    /// only between their steps. A worker with a co-actor makes at most 16 sweeps per step, and one while the co-actor
    /// is busy.
    pub idle_sweeps: usize,
    /// Whether and when an idle worker's thread sleeps. On a fabric that cannot wake it, it [dozes](Idle::Doze) instead
    /// of sleeping. Not used by workers that are stepped by hand.
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

/// Limits on the number of a server's clients, and on the resources of each.
#[derive(Clone, Copy, Debug)]
pub struct ClientLimits {
    /// Most clients at a time, with slots or datagrams; further ones are refused. The server does not start if it is 0.
    pub count_max: usize,
    /// Most clients with slots at a time; further ones are asked to send datagrams, or refused if
    /// [`datagram_recvs`](ClientLimits::datagram_recvs) is 0. Polling slots stops scaling near 260 clients
    /// `[HERD §5.5]`.
    pub with_slots_max: usize,
    /// Most slots per client and partition: a power of two up to 256, or the server does not start.
    pub window_max: usize,
    /// Largest slot, bytes: a multiple of 64 from 64 to 1024, or the server does not start. With a short MTU slots are
    /// shorter: a slot and 8 bytes of header fit into a datagram.
    pub slot_bytes_max: usize,
    /// RECVs posted for request datagrams, per worker; lowered to the fabric's limit. 0: clients cannot send datagrams.
    /// The window of a client that sends datagrams is at most a 64th of this, rounded down to a power of two, but at
    /// least 1.
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

/// Requirements on requests and clients.
#[derive(Clone, Default, Debug)]
pub struct RequestRules {
    /// Whether requests of format D may come without a key, so that the hash is the key, as in HERD's paper. An item
    /// stored by hash and the item of the key with that hash are two items.
    pub hash_only: bool,
    /// Whether requests must have a checksum even if the fabric keeps the order of a WRITE's bytes. Clients with format
    /// P, which has no checksums, are then refused.
    pub crc: bool,
    /// Secret that clients must send in [`Hello::auth`](crate::control::Hello::auth), at most 256 bytes; empty: clients
    /// need none.
    pub auth: Vec<u8>,
    /// Shards that the server may serve, as a member of a service of several: requests about other keys are answered
    /// [`Elsewhere`](crate::layout::Status::Elsewhere), at no cost to servers without. `None`: it serves every key. The server does
    /// not start if [`hash_only`](RequestRules::hash_only) is set, too, since the keys of changed items must be known.
    pub served: Option<Arc<ServedShards>>,
}

/// Start of the clock by which items expire.
#[derive(Clone, Copy, Default, Debug)]
pub struct ClockStart {
    /// Seconds that the clock shows when the server starts. Above 0, the clock continues that of an earlier process.
    pub start_s: u32,
    /// Time at which the clock shows `start_s`, on the clock of the provider's cores
    /// ([`Cpu::now`](drover_base::Cpu::now)); `None`: the time at which the server is created, the same for all
    /// workers.
    pub started: Option<Ns>,
}

/// Numbers that distinguish this server from other servers, and this run of it from others.
#[derive(Clone, Copy, Default, Debug)]
pub struct IdentityOptions {
    /// Seed of the key hash, which clients get in the Welcome; `None`: drawn, for [`hash`](IdentityOptions::hash).
    pub hash_seed: Option<HashSeed>,
    /// Hash of the keys, if there is no seed.
    pub hash: HashKind,
    /// The epoch by which clients notice that the server was restarted ([`Welcome::epoch`]): it must differ from run to
    /// run. `None`: random. 0 counts as 1.
    ///
    /// [`Welcome::epoch`]: crate::control::Welcome::epoch
    pub epoch: Option<u64>,
}

/// How workers send replies.
#[derive(Clone, Copy, Debug)]
pub struct ReplyOptions {
    /// Longest value that is sent inline, bytes; lowered to the fabric's own limit. The card fetches longer values from
    /// memory, which is faster from 144 bytes on with PCIe 3.0 x8 and from 192 with PCIe 2.0 x8 `[HERD §5.3]`.
    pub inline_bytes_max: usize,
    /// One reply in this many is signaled; 0 counts as 1. Lowered if two periods and a batch do not fit the fabric's
    /// longest send queue. *(64 as in `[H14]` and `[R16]`)*
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
    /// Options of each partition's store: [`partition`](ServerOptions::partition) with the server's limit on values.
    pub(crate) fn partition_options(&self) -> PartitionOptions {
        PartitionOptions {
            value_bytes_max: self.item_bytes_max,
            hash_seed: self.identity.hash_seed,
            ..self.partition
        }
    }

    /// Most replies that a worker posts at once: the size of a batch, clamped to 1 to 256; 3 with a pipeline.
    pub(super) fn batch(&self) -> usize {
        match self.mode {
            ServeMode::Batch { batch } => batch.clamp(1, 256),
            ServeMode::Pipeline { .. } => 3,
        }
    }
}
