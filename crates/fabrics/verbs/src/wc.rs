//! Work completions.

use crate::{Imm, WrId};

/// Number of a queue pair, unique in its fabric while the queue pair lives. 24 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Qpn(pub u32);

/// How a request ended. Names as in verbs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum WcStatus {
    /// Done.
    #[default]
    Success,
    /// A SEND was longer than the RECV, or a local length was wrong.
    LocalLength,
    /// Local memory not registered or without the right.
    LocalProtection,
    /// The queue pair went to the error state before this request was done.
    Flushed,
    /// The responder found the request malformed (SEND longer than its RECV, unaligned atomic).
    RemoteInvalidRequest,
    /// The responder refused: unknown key, out of bounds, no such right.
    RemoteAccess,
    /// The responder could not do it.
    RemoteOperation,
    /// The peer does not answer: it died, or the link did.
    RetryExceeded,
    /// The peer had no RECV posted for too long.
    RnrRetryExceeded,
}

/// What completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Opcode {
    /// A SEND, with or without immediate.
    #[default]
    Send,
    /// A WRITE, with or without immediate.
    Write,
    /// A READ.
    Read,
    /// A CAS.
    CompareSwap,
    /// An FAA.
    FetchAdd,
    /// A RECV that took a SEND.
    Recv,
    /// A RECV that took the immediate of a WRITE.
    RecvWriteImm,
}

/// One completion. After the first bad one on an RC or UC queue pair, that queue pair is in the error state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wc {
    /// As posted.
    pub wr_id: WrId,
    /// How it ended. The other fields but `qpn` mean something on success only.
    pub status: WcStatus,
    /// What it was.
    pub opcode: Opcode,
    /// Bytes received or read. For a datagram this includes the 40 bytes of GRH.
    pub byte_len: u32,
    /// Immediate data, if the message had some.
    pub imm: Option<Imm>,
    /// The local queue pair.
    pub qpn: Qpn,
    /// The sender's queue pair (datagrams only).
    pub src_qpn: Qpn,
}
