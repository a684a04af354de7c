//! Work completions.

use crate::{Imm, WrId};

/// Number of a queue pair, unique in its fabric while the queue pair lives. 24 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Qpn(pub u32);

/// Result of a request. Names as in verbs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum WcStatus {
    /// The request is done.
    #[default]
    Success,
    /// A SEND was longer than the RECV, or a local length was wrong.
    LocalLength,
    /// Local memory is not registered, or the right is missing.
    LocalProtection,
    /// The queue pair entered the error state before this request was done.
    Flushed,
    /// The responder found the request malformed (SEND longer than its RECV, unaligned atomic).
    RemoteInvalidRequest,
    /// The responder refused: unknown key, out of bounds, or missing right.
    RemoteAccess,
    /// The responder failed to execute it.
    RemoteOperation,
    /// The peer does not answer: it died, or the link failed.
    RetryExceeded,
    /// The peer had no RECV posted for too long.
    RnrRetryExceeded,
}

/// Kind of the completed request.
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

/// One completion. After the first failure on an RC or UC queue pair, that queue pair is in the error state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wc {
    /// Id of the request, as posted.
    pub wr_id: WrId,
    /// Result. Other fields than `qpn` and `wr_id` are valid only on success.
    pub status: WcStatus,
    /// Kind of the request.
    pub opcode: Opcode,
    /// Bytes received or read. For a datagram they include the 40 bytes of GRH.
    pub byte_len: u32,
    /// Immediate data of the message, if any.
    pub imm: Option<Imm>,
    /// The local queue pair.
    pub qpn: Qpn,
    /// The sender's queue pair (datagrams only).
    pub src_qpn: Qpn,
}
