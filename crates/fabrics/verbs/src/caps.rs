//! What a fabric can do: capabilities with numbers, read once, never guessed.

/// Kind of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum QpKind {
    /// Reliable connection: all verbs, in order, acknowledged.
    Rc,
    /// Unreliable connection: SEND and WRITE; lost requests are lost silently.
    Uc,
    /// Unreliable datagram: SEND to any address handle; dropped silently when nobody posted a RECV.
    Ud,
}

/// Rights on a registered region. Local read is always there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Access {
    /// The provider may write here: RECVs, results of READ and atomics.
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
    /// Everything.
    pub const ALL: Access = Access {
        local_write: true,
        remote_read: true,
        remote_write: true,
        remote_atomic: true,
    };

    /// Remote write or atomics without local write is refused, as by `ibv_reg_mr`.
    pub fn is_consistent(self) -> bool {
        self.local_write || !(self.remote_write || self.remote_atomic)
    }
}

/// What a context offers. Protocols ask here instead of asking which fabric they run on.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Caps {
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
    /// Largest inline payload, bytes.
    pub inline_bytes_max: usize,
    /// Largest UD payload (and largest UC WRITE that lands whole or not at all), bytes.
    pub mtu_bytes: usize,
    /// Largest message, bytes: WRITEs and READs of this length are possible.
    pub message_bytes_max: usize,
    /// Largest SEND over RC or UC that any queue pair takes, bytes. A longer one may be refused as
    /// [`MessageTooLong`](crate::PostErrorKind::MessageTooLong), depending on the receiver's queue.
    pub send_bytes_max: usize,
    /// Most requests outstanding per queue pair.
    pub send_depth_max: usize,
    /// Most RECVs outstanding per queue.
    pub recv_depth_max: usize,
    /// Most scatter/gather elements per request.
    pub sge_max: usize,
    /// READs and atomics in flight per queue pair.
    pub reads_outstanding_max: usize,
    /// The last word of a WRITE becomes visible last. Without it, protocols that poll memory need a checksum.
    pub ordered_writes: bool,
    /// WRITEs over UC all arrive, in the order they were posted, as long as both ends live. Without it, they may be lost.
    pub lossless_writes: bool,
    /// A WRITE into a [`Watch`](crate::Watch)ed region wakes a parked context. Without it, pollers of memory spin.
    pub memory_wait: bool,
    /// A file descriptor that becomes readable ends [`park_beside`](crate::Context::park_beside). Without it, a core that
    /// also waits for sockets looks at them between short parks.
    pub fd_wait: bool,
    /// How many requests are worth one doorbell (1 where posting is only a copy).
    pub post_batch: usize,
}

impl Caps {
    /// A fabric that can do nothing; providers fill in what they offer (the struct is `non_exhaustive`).
    pub const fn none() -> Caps {
        Caps {
            rc: false,
            uc: false,
            ud: false,
            atomics: false,
            srq: false,
            inline_bytes_max: 0,
            mtu_bytes: 0,
            message_bytes_max: 0,
            send_bytes_max: 0,
            send_depth_max: 0,
            recv_depth_max: 0,
            sge_max: 1,
            reads_outstanding_max: 0,
            ordered_writes: false,
            lossless_writes: false,
            memory_wait: false,
            fd_wait: false,
            post_batch: 1,
        }
    }

    /// Whether queue pairs of `kind` exist.
    pub fn has(&self, kind: QpKind) -> bool {
        match kind {
            QpKind::Rc => self.rc,
            QpKind::Uc => self.uc,
            QpKind::Ud => self.ud,
        }
    }
}
