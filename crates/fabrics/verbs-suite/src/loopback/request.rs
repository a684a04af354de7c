//! [`Request`]: a work request in a send queue, and the checks at posting.

use super::Flaw;
use super::fabric::{Fabric, Qp};
use drover_verbs::{MaskedSwap, Opcode, Payload, PostErrorKind, QpKind, SendList, SendOp, SendWr, Sge, WrId};

/// A posted request.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) wr_id: WrId,
    pub(super) op: SendOp,
    pub(super) bytes: Bytes,
    /// Operands of a masked CAS.
    pub(super) masked: MaskedSwap,
    pub(super) signaled: bool,
}

/// Payload of a request.
#[derive(Clone, Debug)]
pub(super) enum Bytes {
    /// Bytes copied at posting.
    Inline(Vec<u8>),
    /// Registered memory, read at execution.
    Pieces(Vec<Sge>),
}

impl Bytes {
    pub(super) fn of(list: &SendList, payload: Payload) -> Bytes {
        match payload {
            Payload::Inline { start, len } => Bytes::Inline(list.inline_bytes(start, len).to_vec()),
            Payload::Region(sge) => Bytes::Pieces(vec![sge]),
            Payload::Gather { start, count } => Bytes::Pieces(list.sges(start, count).to_vec()),
        }
    }

    /// Simulates the owner's reuse of the memory of a payload that was not copied.
    pub(super) fn overwrite(&mut self) {
        if let Bytes::Inline(bytes) = self {
            bytes.fill(0xee);
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Bytes::Inline(bytes) => bytes.len(),
            Bytes::Pieces(sges) => sges.iter().map(|sge| sge.len as usize).sum(),
        }
    }
}

impl Request {
    pub(super) fn opcode(&self) -> Opcode {
        match self.op {
            SendOp::Send { .. } => Opcode::Send,
            SendOp::Write { .. } => Opcode::Write,
            SendOp::Read { .. } => Opcode::Read,
            SendOp::CompareSwap { .. } | SendOp::MaskedCompareSwap { .. } => Opcode::CompareSwap,
            SendOp::FetchAdd { .. } => Opcode::FetchAdd,
        }
    }
}

impl Fabric {
    /// Checks `wr` and converts it to a request of `qp`.
    pub(super) fn admit(&self, qp: &Qp, list: &SendList, wr: &SendWr) -> Result<Request, PostErrorKind> {
        let bytes = Bytes::of(list, wr.payload);
        self.check_verb(qp, wr)?;
        self.check_length(qp, wr, &bytes)?;
        self.check_local(qp, wr, &bytes)?;
        if qp.sends.is_full(self.flaw) {
            return Err(PostErrorKind::QueueFull);
        }
        Ok(Request {
            wr_id: wr.wr_id,
            op: wr.op,
            bytes,
            masked: match wr.op {
                SendOp::MaskedCompareSwap { operands, .. } => list.masked_operands(operands),
                _ => MaskedSwap::default(),
            },
            signaled: wr.signaled || self.has(Flaw::CompletesUnsignaled),
        })
    }

    fn check_verb(&self, qp: &Qp, wr: &SendWr) -> Result<(), PostErrorKind> {
        let supported = match wr.op {
            SendOp::Send { .. } => true,
            SendOp::Write { .. } => qp.kind != QpKind::Ud,
            SendOp::Read { .. } => qp.kind == QpKind::Rc,
            _ => qp.kind == QpKind::Rc && self.caps.supports.atomics.are_offered(),
        };
        if self.has(Flaw::AnyVerb) {
            return Ok(());
        }
        if !supported {
            return Err(PostErrorKind::NotSupported);
        }
        let is_masked = matches!(wr.op, SendOp::MaskedCompareSwap { .. });
        if is_masked && !self.caps.supports.masked_atomics {
            return Err(PostErrorKind::NoMaskedAtomics);
        }
        match (qp.kind, wr.op) {
            (QpKind::Ud, SendOp::Send { dest: Some(dest), .. })
                if self.ahs.contains_key(&(qp.ctx, dest.ah)) =>
            {
                Ok(())
            }
            (QpKind::Ud, _) => Err(PostErrorKind::BadAddress),
            (_, SendOp::Send { dest: Some(_), .. }) if !self.has(Flaw::IgnoresAddresses) => {
                Err(PostErrorKind::BadAddress)
            }
            _ => Ok(()),
        }
    }

    fn check_length(&self, qp: &Qp, wr: &SendWr, bytes: &Bytes) -> Result<(), PostErrorKind> {
        let longest = match qp.kind {
            QpKind::Ud if !self.has(Flaw::AnyDatagramLength) => self.caps.mtu_bytes,
            _ => self.caps.message_bytes_max,
        };
        let result = wr.op.is_atomic() || matches!(wr.op, SendOp::Read { .. });
        match bytes {
            Bytes::Inline(bytes) if result && !bytes.is_empty() => Err(PostErrorKind::NotSupported),
            Bytes::Inline(bytes) if bytes.len() > qp.inline_bytes && !self.has(Flaw::AnyInlineLength) => {
                Err(PostErrorKind::InlineTooLong)
            }
            Bytes::Pieces(sges) if sges.len() > self.caps.sge_max && !self.has(Flaw::AnyPieceCount) => {
                Err(PostErrorKind::MessageTooLong)
            }
            _ if bytes.len() > longest => Err(PostErrorKind::MessageTooLong),
            _ => Ok(()),
        }
    }

    fn check_local(&self, qp: &Qp, wr: &SendWr, bytes: &Bytes) -> Result<(), PostErrorKind> {
        let atomic = wr.op.is_atomic();
        if atomic && bytes.len() != 8 {
            return Err(PostErrorKind::LocalProtection);
        }
        let write = atomic || matches!(wr.op, SendOp::Read { .. });
        match bytes {
            Bytes::Pieces(sges) if sges.iter().any(|sge| self.local(qp.ctx, sge, write).is_none()) => {
                Err(PostErrorKind::LocalProtection)
            }
            _ => Ok(()),
        }
    }
}
