//! [`Event`]: the record of one verb.

use drover_base::Ns;
use drover_verbs::{Payload, PostErrorKind, Qpn, SendList, SendOp, SendWr, Wc, WcStatus, WrId};
use std::collections::VecDeque;
use std::fmt;

/// A request, completion or other step recorded by a [`TracedDevice`](super::TracedDevice).
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// Number of the event, from 0 over the life of the device; events that are no longer kept count too.
    pub number: u64,
    /// Time ([`Cpu::now`](drover_base::Cpu::now) of the context's core); for [`What::QueuePair`], the time of the event
    /// recorded before, in any context (zero if none is kept).
    pub at: Ns,
    /// Index of the context, from 0 in the order of opening.
    pub context: u64,
    /// What happened.
    pub what: What,
}

/// What happened in an [`Event`].
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum What {
    /// A send request was posted.
    Posted {
        /// Queue pair that it was posted to.
        qpn: Qpn,
        /// Index of the request in its list; one list is one doorbell.
        index: usize,
        /// The request. An inline or gathered payload, and the operands of a masked CAS, referred to the list, and can no
        /// longer be looked up.
        wr: SendWr,
        /// Length of the payload in bytes.
        bytes: usize,
    },
    /// A RECV was posted.
    PostedRecv {
        /// Queue pair that it was posted to, or `None` for a shared receive queue.
        qpn: Option<Qpn>,
        /// Id of the RECV.
        wr_id: WrId,
        /// Length of the RECV's memory in bytes.
        bytes: u32,
    },
    /// A request or RECV of a list was refused.
    Refused {
        /// Queue pair that it was posted to, or `None` for a shared receive queue.
        qpn: Option<Qpn>,
        /// Index of the refused request in its list.
        index: usize,
        /// Reason for the refusal.
        kind: PostErrorKind,
    },
    /// A completion was polled.
    Completed(Wc),
    /// A queue pair was created, connected, moved to the error state or destroyed, or a connection attempt failed.
    QueuePair {
        /// Number of the queue pair.
        qpn: Qpn,
        /// The step in words, for example `connected`.
        step: &'static str,
    },
    /// The context is about to park.
    Parked {
        /// Deadline of the park; the park may end earlier.
        deadline: Ns,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>6} {:>12} ctx {} ",
            self.number,
            self.at.to_string(),
            self.context
        )?;
        match &self.what {
            What::Posted { qpn, wr, bytes, .. } => {
                let quiet = if wr.signaled { "" } else { ", unsignaled" };
                write!(
                    f,
                    "qp {} post {} {}, {bytes} B{quiet}",
                    qpn.0,
                    wr.wr_id.0,
                    OpText(wr.op)
                )
            }
            What::PostedRecv { qpn, wr_id, bytes } => {
                write!(f, "{} post RECV {}, {bytes} B", Whose(*qpn), wr_id.0)
            }
            What::Refused { qpn, index, kind } => {
                write!(f, "{} refused request {index}: {kind}", Whose(*qpn))
            }
            What::Completed(wc) if wc.status != WcStatus::Success => {
                write!(f, "qp {} {} failed: {:?}", wc.qpn.0, wc.wr_id.0, wc.status)
            }
            What::Completed(wc) => {
                write!(
                    f,
                    "qp {} {} done: {:?}, {} B",
                    wc.qpn.0, wc.wr_id.0, wc.opcode, wc.byte_len
                )?;
                wc.imm.map_or(Ok(()), |imm| write!(f, ", imm {:#x}", imm.0))
            }
            What::QueuePair { qpn, step } => write!(f, "qp {} {step}", qpn.0),
            What::Parked { deadline } => write!(f, "parks until {deadline}"),
        }
    }
}

struct Whose(Option<Qpn>);

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(qpn) => write!(f, "qp {}", qpn.0),
            None => f.write_str("srq"),
        }
    }
}

struct OpText(SendOp);

impl fmt::Display for OpText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            SendOp::Send { dest: Some(dest), .. } => write!(f, "SEND to qp {}", dest.qpn.0),
            SendOp::Send { dest: None, .. } => f.write_str("SEND"),
            SendOp::Write { remote, .. } => write!(f, "WRITE to {}+{}", remote.rkey, remote.offset),
            SendOp::Read { remote } => write!(f, "READ from {}+{}", remote.rkey, remote.offset),
            SendOp::CompareSwap {
                remote,
                compare,
                swap,
            } => write!(
                f,
                "CAS at {}+{}: {compare:#x} -> {swap:#x}",
                remote.rkey, remote.offset
            ),
            SendOp::FetchAdd { remote, add } => {
                write!(f, "FAA at {}+{}: {add:#x}", remote.rkey, remote.offset)
            }
            SendOp::MaskedCompareSwap { remote, .. } => {
                write!(f, "masked CAS at {}+{}", remote.rkey, remote.offset)
            }
        }
    }
}

/// Length of a payload in bytes.
pub(super) fn payload_bytes(list: &SendList, payload: Payload) -> usize {
    match payload {
        Payload::Inline { len, .. } => len as usize,
        Payload::Region(sge) => sge.len as usize,
        Payload::Gather { start, count } => list.sges(start, count).iter().map(|sge| sge.len as usize).sum(),
    }
}

/// A copy of the events that a [`TracedDevice`](super::TracedDevice) keeps. `Display` prints one line per event.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Trace {
    /// The events, oldest first.
    pub events: VecDeque<Event>,
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.events.iter().try_for_each(|event| writeln!(f, "{event}"))
    }
}
