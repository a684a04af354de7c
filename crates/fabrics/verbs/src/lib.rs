//! The verbs API of drover: what a protocol can ask of a fabric, without how it is done.
//!
//! A *provider* implements [`Provider`] and the traits around it; a protocol is generic over it and names none.
//! This crate holds the contract only. The conformance suite that every provider passes, the reference provider and
//! the wrappers `Faulty` and `Traced` are in `drover-verbs-suite`.
//!
//! **Threads.** A [`Device`] is shared and `Send`; a [`Context`] and all objects created from it belong to one thread.
//! Threads that use the same memory open their contexts in one [`Domain`]: each region is registered and mapped once.
//! Threads and processes exchange [`Export`]s: plain bytes, with file descriptors where a fabric passes memory.
//!
//! **Control path**: [`Context::register`], `create_*`, [`QueuePair::connect`]: may allocate, lock and make system
//! calls.
//! **Data path**: [`QueuePair::post_send`], [`QueuePair::post_recv`], [`CompletionQueue::poll`]: never do, except for
//! what [`QueuePair::post_send`] names. Posting takes lists: one call is one doorbell. Requests of two kinds, of which there are
//! very many, have lists of their own: [`ShortList`].
//!
//! **Ordering.** Requests of one queue pair execute in order. A WRITE's bytes become visible in unspecified order
//! unless [`WriteCaps::ordered`]; then the last word becomes visible last. Completions of one queue pair come in
//! order; a completion implies that all unsignaled requests before it are done too.
//!
//! Source: `[IBTA]` chapters 9-11 for semantics, `[rdma-core]` for names and limits.
#![forbid(unsafe_code)]

mod caps;
mod card;
mod counters;
mod domain;
mod error;
mod export;
mod list;
mod masked;
mod pieces;
pub mod provide;
mod provider;
mod request;
mod short;
mod wc;

pub use caps::{Access, Atomics, Caps, QpKind, ReadCaps, Support, WakeCaps, WriteCaps};
pub use card::DeviceMemory;
pub use counters::DeviceCounters;
pub use domain::{Domain, DomainOptions, DoorbellReport, DoorbellSource, Doorbells, SharedQueue};
pub use error::{ConnectError, CreateError, ImportError, OpenError, PostError, PostErrorKind, RegisterError};
pub use export::Export;
pub use list::{Imm, Payload, RecvList, RecvWr, SendList, SendOp, SendWr, Sge, UdDest, WrId};
pub use masked::{MaskedOperands, MaskedSwap};
pub use pieces::{PIECES_MAX, Pieces};
pub use provider::{
    Bell, CompletionQueue, Context, Device, Fenced, MemoryRegion, Provider, QpOptions, QpState, QueuePair,
    RemoteAddr, RemoteRegion, SharedReceiveQueue, Waker, Watch,
};
pub use short::{DatagramList, SHORT_BYTES, Short, ShortList, ShortSend, ShortWrite, Signed, WriteList};
pub use wc::{Opcode, Qpn, Wc, WcStatus};

/// Bytes of the global routing header that precedes a datagram's payload in the receive buffer, on every fabric.
pub const GRH_BYTES: usize = 40;
