//! Capabilities of a fabric, with numbers, read once and never guessed.

/// Kind of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum QpKind {
    /// Reliable connection: all verbs, in order, acknowledged.
    Rc,
    /// Unreliable connection: SEND and WRITE; lost requests are lost silently.
    Uc,
    /// Unreliable datagram: SEND to any address handle; dropped silently when no RECV is posted.
    Ud,
}

/// Rights on a registered region. Local reads are always allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Access {
    /// The provider may write: RECVs, results of READ and atomics.
    pub local_write: bool,
    /// Peers may READ.
    pub remote_read: bool,
    /// Peers may WRITE (needs `local_write`).
    pub remote_write: bool,
    /// Peers may CAS and FAA (needs `local_write`).
    pub remote_atomic: bool,
}

impl Access {
    /// Source of SENDs and WRITEs only.
    pub const LOCAL_READ: Access = Access {
        local_write: false,
        remote_read: false,
        remote_write: false,
        remote_atomic: false,
    };
    /// Receive buffers, results.
    pub const LOCAL: Access = Access {
        local_write: true,
        ..Access::LOCAL_READ
    };
    /// Peers may READ.
    pub const REMOTE_READ: Access = Access {
        remote_read: true,
        ..Access::LOCAL
    };
    /// Peers may WRITE but not READ.
    pub const REMOTE_WRITE: Access = Access {
        remote_write: true,
        ..Access::LOCAL
    };
    /// All rights.
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

/// Kinds of queue pairs, and verbs that not every fabric has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Support {
    /// RC queue pairs.
    pub rc: bool,
    /// UC queue pairs.
    pub uc: bool,
    /// UD queue pairs.
    pub ud: bool,
    /// CAS and FAA on 8-byte words.
    pub atomics: bool,
    /// Shared receive queues.
    pub srq: bool,
}

impl Support {
    /// Nothing.
    pub const NONE: Support = Support {
        rc: false,
        uc: false,
        ud: false,
        atomics: false,
        srq: false,
    };
    /// Everything.
    pub const ALL: Support = Support {
        rc: true,
        uc: true,
        ud: true,
        atomics: true,
        srq: true,
    };
}

/// What is certain about WRITEs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteCaps {
    /// Whether the last word of a WRITE becomes visible last. If not, protocols that poll memory need a checksum.
    pub ordered: bool,
    /// Whether all WRITEs over UC arrive, in posting order, as long as both ends live. If not, they may be lost.
    pub lossless: bool,
}

/// What wakes a parked context, besides completions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WakeCaps {
    /// Whether a WRITE into a [`Watch`](crate::Watch)ed region does. If not, pollers of memory spin.
    pub on_memory: bool,
    /// Whether a readable file descriptor ends [`park_beside`](crate::Context::park_beside). If not, a core that also
    /// waits for sockets polls them between short parks.
    pub on_fd: bool,
}

/// Capabilities of a context. Protocols check these, never which fabric they run on.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Caps {
    /// Kinds of queue pairs, and verbs that not every fabric has.
    pub supports: Support,
    /// Largest inline payload, bytes.
    pub inline_bytes_max: usize,
    /// Largest UD payload, in bytes; also the largest UC WRITE that arrives either whole or not at all.
    pub mtu_bytes: usize,
    /// Largest WRITE or READ, bytes.
    pub message_bytes_max: usize,
    /// Largest SEND over RC or UC that every queue pair accepts, bytes. A longer one may be refused as
    /// [`MessageTooLong`](crate::PostErrorKind::MessageTooLong), depending on the receiver's queue.
    pub send_bytes_max: usize,
    /// Maximum number of outstanding requests per queue pair.
    pub send_depth_max: usize,
    /// Maximum number of outstanding RECVs per queue.
    pub recv_depth_max: usize,
    /// Maximum number of scatter/gather elements per request.
    pub sge_max: usize,
    /// Maximum number of READs and atomics in flight per queue pair.
    pub reads_outstanding_max: usize,
    /// What is certain about WRITEs.
    pub writes: WriteCaps,
    /// What wakes a parked context, besides completions.
    pub wakes: WakeCaps,
    /// Number of requests worth collecting for one doorbell (1 where posting is only a copy).
    pub post_batch: usize,
}

impl Caps {
    /// No capabilities; providers fill in what they offer (the struct is `non_exhaustive`).
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
            reads_outstanding_max: 0,
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

    /// Whether the provider supports queue pairs of `kind`.
    pub fn has(&self, kind: QpKind) -> bool {
        match kind {
            QpKind::Rc => self.supports.rc,
            QpKind::Uc => self.supports.uc,
            QpKind::Ud => self.supports.ud,
        }
    }
}
