//! Capabilities of a fabric, with numbers, read once and never guessed.

/// Kind of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum QpKind {
    /// Reliable connection: all verbs, in order and acknowledged; lost packets are sent again.
    Rc,
    /// Unreliable connection: SEND and WRITE, not acknowledged; a lost request completes with success, too.
    Uc,
    /// Unreliable datagram, without a connection: each SEND names its receiver by an address handle. A datagram that
    /// finds no RECV posted is dropped silently.
    Ud,
}

/// Rights that a registration grants on a region: to its owner's own requests, and to peers. Local reads are always
/// allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Access {
    /// The owner's own requests may write to the region: messages received into it, and results of READs and atomics.
    pub local_write: bool,
    /// Peers may READ the region.
    pub remote_read: bool,
    /// Peers may WRITE to the region (needs `local_write`).
    pub remote_write: bool,
    /// Peers may CAS and FAA words of the region (needs `local_write`).
    pub remote_atomic: bool,
}

impl Access {
    /// No rights but local reads: memory that SENDs and WRITEs take their bytes from.
    pub const LOCAL_READ: Access = Access {
        local_write: false,
        remote_read: false,
        remote_write: false,
        remote_atomic: false,
    };
    /// Local reads and writes: receive buffers, and memory for results of READs and atomics.
    pub const LOCAL: Access = Access {
        local_write: true,
        ..Access::LOCAL_READ
    };
    /// Local reads and writes, and peers may READ.
    pub const REMOTE_READ: Access = Access {
        remote_read: true,
        ..Access::LOCAL
    };
    /// Local reads and writes, and peers may WRITE but not READ.
    pub const REMOTE_WRITE: Access = Access {
        remote_write: true,
        ..Access::LOCAL
    };
    /// Local reads and writes, and peers may READ, WRITE, CAS and FAA.
    pub const ALL: Access = Access {
        local_write: true,
        remote_read: true,
        remote_write: true,
        remote_atomic: true,
    };

    /// Whether the rights are consistent: remote write or atomics need local write, as in `ibv_reg_mr`.
    pub fn is_consistent(self) -> bool {
        self.local_write || !(self.remote_write || self.remote_atomic)
    }
}

/// Between whom CAS and FAA are atomic. Each scope includes the one before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Atomics {
    /// There are no CAS and FAA.
    None,
    /// Between requests to one device of the responder, its own included. A word must not be changed by cores at the
    /// same time: a CPU's store or atomic may be lost. Repairs at the responder go through its card.
    Card,
    /// Between everything, also with atomic operations of the responder's cores.
    Host,
}

impl Atomics {
    /// Whether there are CAS and FAA at all.
    pub fn are_offered(self) -> bool {
        self != Atomics::None
    }
}

/// Optional features of a fabric: kinds of queue pairs, atomics, queues that are shared, memory on the card.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Support {
    /// Whether there are RC queue pairs.
    pub rc: bool,
    /// Whether there are UC queue pairs.
    pub uc: bool,
    /// Whether there are UD queue pairs.
    pub ud: bool,
    /// Whether RC queue pairs offer CAS and FAA on 8-byte words, and between whom these are atomic.
    pub atomics: Atomics,
    /// Whether RC queue pairs offer CAS of masked bits, of the same scope as CAS.
    pub masked_atomics: bool,
    /// Whether there are shared receive queues.
    pub srq: bool,
    /// Whether threads can [share](crate::Domain::share) a queue pair.
    pub shared_queues: bool,
    /// Bytes of memory on the card that may be [allocated](crate::Context::alloc_device), by all processes of the machine
    /// together. 0 nearly everywhere: who needs it and finds none uses a region instead, and says so.
    pub device_memory_bytes: usize,
}

impl Support {
    /// No feature is supported.
    pub const NONE: Support = Support {
        rc: false,
        uc: false,
        ud: false,
        atomics: Atomics::None,
        masked_atomics: false,
        srq: false,
        shared_queues: false,
        device_memory_bytes: 0,
    };
    /// All features are supported; memory on the card is left to the provider.
    pub const ALL: Support = Support {
        rc: true,
        uc: true,
        ud: true,
        atomics: Atomics::Host,
        masked_atomics: true,
        srq: true,
        shared_queues: true,
        device_memory_bytes: 0,
    };
}

/// Limits and guarantees of a fabric about READs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadCaps {
    /// Maximum number of READs and atomics of a queue pair that are in flight at the same time, or fewer if the peer's
    /// device supports fewer. More may be posted; they wait.
    pub outstanding_max: usize,
    /// A READ sees each aligned unit of so many bytes as it was before or after a WRITE of the whole unit at the same
    /// time, never a mixture, if the bytes have the same alignment at both ends. 8 nearly everywhere. Nothing is promised
    /// about several units: a structure that is longer brings its own check.
    pub unit_bytes: usize,
    /// Whether a READ sees the effect of the WRITEs, CAS and FAA that were posted before it to the same RC queue pair.
    pub see_earlier: bool,
}

/// Guarantees of a fabric about WRITEs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteCaps {
    /// Whether the last (aligned 8-byte) word of a WRITE becomes visible after all its other bytes. If not, protocols
    /// that poll memory need a checksum.
    pub ordered: bool,
    /// Whether all WRITEs over UC arrive, in posting order, as long as both ends live. If not, they may be lost.
    pub lossless: bool,
}

/// Events that end a [`park`](crate::Context::park), besides completions and wakers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WakeCaps {
    /// Whether a peer's WRITE or atomic that touches a [`Watch`](crate::Watch)ed range ends the park of the context
    /// whose bell the watch names. If not, pollers of memory spin.
    pub on_memory: bool,
    /// Whether a readable file descriptor ends [`park_beside`](crate::Context::park_beside). If not, a core that also
    /// waits for sockets polls them between short parks.
    pub on_fd: bool,
}

/// Capabilities of an opened fabric. Protocols check these, never which fabric they run on.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Caps {
    /// Kinds of queue pairs and other features that are supported.
    pub supports: Support,
    /// Longest inline payload that every supported kind of queue pair accepts, in bytes.
    pub inline_bytes_max: usize,
    /// Largest UD payload, in bytes, without the 40 bytes of GRH; also the largest UC WRITE that arrives either whole
    /// or not at all.
    pub mtu_bytes: usize,
    /// Largest WRITE or READ, in bytes. For SENDs see `send_bytes_max`, for datagrams `mtu_bytes`.
    pub message_bytes_max: usize,
    /// Largest SEND over RC or UC that every queue pair accepts, in bytes. A longer one may be refused as
    /// [`MessageTooLong`](crate::PostErrorKind::MessageTooLong), depending on the receiver's queue.
    pub send_bytes_max: usize,
    /// Maximum depth of a send queue. A request takes a place from posting until its completion is polled or, if it has
    /// none, that of a later request.
    pub send_depth_max: usize,
    /// Maximum depth of a receive queue: most RECVs posted whose completions are not yet polled. It also limits shared
    /// receive queues, except over `ibv`, whose devices have another limit for those.
    pub recv_depth_max: usize,
    /// Maximum number of scatter/gather elements per send request; a RECV has one.
    pub sge_max: usize,
    /// Limits and guarantees about READs.
    pub reads: ReadCaps,
    /// Guarantees about WRITEs.
    pub writes: WriteCaps,
    /// Events that end a [`park`](crate::Context::park), besides completions and wakers.
    pub wakes: WakeCaps,
    /// Number of requests that a protocol should collect for one post, if latency permits: 16 for network cards (`ibv`,
    /// `sim`), 1 for shared memory, where a post is only a copy. Advice, not a limit.
    pub post_batch: usize,
}

impl Caps {
    /// No capabilities: all limits are 0, except one element per request and batches of one. Providers fill in what
    /// they offer (the struct is `non_exhaustive`).
    pub const fn none() -> Caps {
        Caps {
            supports: Support::NONE,
            inline_bytes_max: 0,
            mtu_bytes: 0,
            message_bytes_max: 0,
            send_bytes_max: 0,
            send_depth_max: 0,
            recv_depth_max: 0,
            sge_max: 1,
            reads: ReadCaps {
                outstanding_max: 0,
                unit_bytes: 1,
                see_earlier: false,
            },
            writes: WriteCaps {
                ordered: false,
                lossless: false,
            },
            wakes: WakeCaps {
                on_memory: false,
                on_fd: false,
            },
            post_batch: 1,
        }
    }

    /// Whether queue pairs of `kind` are supported.
    pub fn has(&self, kind: QpKind) -> bool {
        match kind {
            QpKind::Rc => self.supports.rc,
            QpKind::Uc => self.supports.uc,
            QpKind::Ud => self.supports.ud,
        }
    }
}
