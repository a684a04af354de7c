//! Work completions.

use crate::{Imm, WrId};

/// Number of a queue pair, 24 bits. It is unique in its device while the queue pair lives; over shared memory, in its
/// process, and among processes very probably.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Qpn(pub u32);

/// Result of a request or RECV, named after the statuses of libibverbs (`ibv_wc_status`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum WcStatus {
    /// The request was executed; over UC and UD: was sent or lost.
    #[default]
    Success,
    /// RECV: the message was longer than the RECV (over UC and UD, `shm` and `sim` drop such a message instead). Send
    /// request: a local length was wrong.
    LocalLength,
    /// The request's local memory is not registered, or the right is missing.
    LocalProtection,
    /// The queue pair entered the error state before this request was done.
    Flushed,
    /// The responder found the request malformed (SEND longer than its RECV, unaligned atomic).
    RemoteInvalidRequest,
    /// The responder refused the remote address: unknown key, out of bounds, or missing right.
    RemoteAccess,
    /// The responder failed to execute the request. Over `ibv` also any status that has no name here.
    RemoteOperation,
    /// The peer does not answer: it died, its queue pair is gone or failed, or the link failed. Over shared memory a
    /// killed peer is not noticed: requests to it succeed, or wait for a RECV.
    RetryExceeded,
    /// The peer had no RECV posted for at least [`QpOptions::rnr_timeout`](crate::QpOptions::rnr_timeout), which some
    /// fabrics cannot count.
    RnrRetryExceeded,
}

impl WcStatus {
    /// All statuses, in the order of their declaration.
    pub const ALL: [WcStatus; 9] = [
        WcStatus::Success,
        WcStatus::LocalLength,
        WcStatus::LocalProtection,
        WcStatus::Flushed,
        WcStatus::RemoteInvalidRequest,
        WcStatus::RemoteAccess,
        WcStatus::RemoteOperation,
        WcStatus::RetryExceeded,
        WcStatus::RnrRetryExceeded,
    ];

    /// Name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            WcStatus::Success => "success",
            WcStatus::LocalLength => "local_length",
            WcStatus::LocalProtection => "local_protection",
            WcStatus::Flushed => "flushed",
            WcStatus::RemoteInvalidRequest => "remote_invalid_request",
            WcStatus::RemoteAccess => "remote_access",
            WcStatus::RemoteOperation => "remote_operation",
            WcStatus::RetryExceeded => "retry_exceeded",
            WcStatus::RnrRetryExceeded => "rnr_retry_exceeded",
        }
    }
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
    /// A CAS, masked or not.
    CompareSwap,
    /// An FAA.
    FetchAdd,
    /// A RECV, completed by a SEND of the peer.
    Recv,
    /// A RECV, completed by a WRITE with immediate data of the peer.
    RecvWriteImm,
}

/// One completion. After the first failure on an RC or UC queue pair, that queue pair is in the error state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wc {
    /// Id of the request, as posted.
    pub wr_id: WrId,
    /// Result. On failure only this, `qpn` and `wr_id` are valid.
    pub status: WcStatus,
    /// Verb of the completed request; for a RECV, the kind of message that completed it.
    pub opcode: Opcode,
    /// Number of bytes received by a RECV (of a datagram with the 40 bytes of GRH), read by a READ, or written to our
    /// memory by the WRITE that completed a RECV. Unspecified for other requests.
    pub byte_len: u32,
    /// Immediate data of the received message, if it has any.
    pub imm: Option<Imm>,
    /// Number of the local queue pair: the one that the request was posted to or, for a RECV of a shared receive queue,
    /// the one that received the message.
    pub qpn: Qpn,
    /// Number of the sender's queue pair; for datagrams only, otherwise unspecified.
    pub src_qpn: Qpn,
}

impl Wc {
    /// Whether it is that of a RECV, completed by a SEND, without failure. One comparison for both.
    #[inline(always)]
    pub fn is_received(&self) -> bool {
        u16::from_le_bytes([self.opcode as u8, self.status as u8])
            == u16::from_le_bytes([Opcode::Recv as u8, WcStatus::Success as u8])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_good_recv_of_a_send_is_received() {
        let wc = |opcode, status| Wc {
            opcode,
            status,
            ..Wc::default()
        };
        assert!(wc(Opcode::Recv, WcStatus::Success).is_received());
        for opcode in [Opcode::Send, Opcode::Write, Opcode::Read, Opcode::RecvWriteImm] {
            assert!(!wc(opcode, WcStatus::Success).is_received(), "{opcode:?}");
        }
        for status in [
            WcStatus::LocalLength,
            WcStatus::Flushed,
            WcStatus::RnrRetryExceeded,
        ] {
            assert!(!wc(Opcode::Recv, status).is_received(), "{status:?}");
        }
    }
}
