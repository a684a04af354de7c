//! Connects the two ends of a queue pair over a control channel.
//!
//! ```text
//!   A: offer(qp) --EXPORT-->            <--EXPORT-- offer(qp) :B
//!   A: accept(qp) = connect                 connect = accept(qp) :B
//!   A: READY ---------------->            <---------- READY :B
//! ```
//! [`connect`] does all three steps, so when it returns both ends can receive. In one thread, call [`offer`] for both
//! ends and then [`accept`] for both; or use [`ends`], which needs no control channel.

use crate::{ControlError, ControlStream, DecodeError, EncodeError, Reader, Writer, kind};
use drover_base::{Cpu, Ns};
use drover_mem::AllocError;
use drover_verbs::{
    ConnectError, Context, CreateError, Device, Export, OpenError, Provider, QpKind, QpOptions, QueuePair,
};

/// Errors of exchanging exports and connecting queue pairs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// The control channel failed or refused to send, or the deadline passed.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The peer's export is malformed.
    #[error("the peer's offer is malformed: {0}")]
    Decode(#[from] DecodeError),
    /// Our export does not fit a frame: a bug of the provider.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// A frame of another kind than the expected one arrived.
    #[error("the peer sent a frame of kind {found} where {expected} was expected")]
    Unexpected {
        /// Expected kind of frame.
        expected: u16,
        /// Received kind of frame.
        found: u16,
    },
    /// The provider could not connect the queue pair to the peer's.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The provider could not open a context.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The provider could not create a completion queue or a queue pair.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// Our export could not be made, for lack of memory or descriptors.
    #[error(transparent)]
    Alloc(#[from] AllocError),
}

/// Sends an export: of a queue pair, or of a region for the peer to use. Never blocks.
///
/// # Errors
/// [`ExchangeError`] if the export does not fit a frame, has descriptors and the channel is TCP, or the peer does not
/// read. A channel that is closed is reported only by [`recv_export`].
pub fn send_export(stream: &mut ControlStream, export: &Export) -> Result<(), ExchangeError> {
    let mut writer = Writer::new();
    writer.export(export);
    let (body, fds) = writer.finish()?;
    Ok(stream.send(kind::EXPORT, &body, &fds)?)
}

/// Blocks until the peer's export arrives, at most until `deadline`.
///
/// # Errors
/// [`ExchangeError`] if the channel ends, the deadline passes, or another frame or a malformed export arrives.
pub fn recv_export<C: Cpu>(
    stream: &mut ControlStream,
    cpu: &C,
    deadline: Ns,
) -> Result<Export, ExchangeError> {
    let frame = stream.recv_until(cpu, deadline)?;
    expect(kind::EXPORT, frame.kind)?;
    let mut reader = Reader::new(&frame.body, &frame.fds);
    let export = reader.export()?;
    reader.finish()?;
    Ok(export)
}

/// Sends the export of `qp`, which lets the peer connect to it. Never blocks.
///
/// # Errors
/// [`ExchangeError`] if the export cannot be made or sent.
pub fn offer<P: Provider>(stream: &mut ControlStream, qp: &P::Qp) -> Result<(), ExchangeError> {
    send_export(stream, &qp.export()?)
}

/// Blocks until the peer's export arrives, at most until `deadline`, and connects `qp` to the peer's queue pair. The
/// peer must do the same with the export that [`offer`] sent.
///
/// # Errors
/// [`ExchangeError`] if no export arrives or the provider refuses it.
pub fn accept<P: Provider>(
    stream: &mut ControlStream,
    qp: &mut P::Qp,
    cpu: &P::Cpu,
    deadline: Ns,
) -> Result<(), ExchangeError> {
    let theirs = recv_export(stream, cpu, deadline)?;
    Ok(qp.connect(&theirs)?)
}

/// Connects `qp`, an RC or UC queue pair, with that of the peer, which must call `connect` too. Blocks until both are
/// connected, at most until `deadline`. Each end sends two frames and receives two.
///
/// # Errors
/// [`ExchangeError`] if the channel ends, the deadline passes, the peer sends anything else or the provider refuses.
pub fn connect<P: Provider>(
    stream: &mut ControlStream,
    qp: &mut P::Qp,
    cpu: &P::Cpu,
    deadline: Ns,
) -> Result<(), ExchangeError> {
    offer::<P>(stream, qp)?;
    accept::<P>(stream, qp, cpu, deadline)?;
    stream.send(kind::READY, &[], &[])?;
    expect(kind::READY, stream.recv_until(cpu, deadline)?.kind)
}

fn expect(expected: u16, found: u16) -> Result<(), ExchangeError> {
    if expected == found {
        return Ok(());
    }
    Err(ExchangeError::Unexpected { expected, found })
}

/// Owns a queue pair, its completion queue and its context: a start for small programs and tests.
pub struct End<P: Provider> {
    /// The queue pair. Declared first, because it must be destroyed first.
    pub qp: P::Qp,
    /// Completion queue of the queue pair's sends and receives.
    pub cq: P::Cq,
    /// Context of the queue pair.
    pub ctx: P::Context,
}

impl<P: Provider> End<P> {
    /// Opens a context of `device` and creates a completion queue and an unconnected queue pair in it, whose send queue
    /// and receive queue hold 128 requests each, or fewer if the device does not support that.
    ///
    /// # Errors
    /// [`ExchangeError`] if the provider cannot create one of them.
    pub fn new(device: &P::Device, kind: QpKind) -> Result<End<P>, ExchangeError> {
        let ctx = device.context()?;
        let cq = ctx.create_cq(2 * QUEUE_DEPTH)?;
        let mut options = QpOptions::<P>::new(kind, &cq, ctx.caps());
        options.send_depth = options.send_depth.min(QUEUE_DEPTH);
        options.recv_depth = options.recv_depth.min(QUEUE_DEPTH);
        let qp = ctx.create_qp(&options)?;
        Ok(End { qp, cq, ctx })
    }

    /// [`connect`]s the queue pair over `stream`. Blocks for at most `wait`.
    ///
    /// # Errors
    /// As [`connect`].
    pub fn connect(&mut self, stream: &mut ControlStream, wait: Ns) -> Result<(), ExchangeError> {
        let deadline = self.ctx.cpu().refresh() + wait;
        connect::<P>(stream, &mut self.qp, self.ctx.cpu(), deadline)
    }
}

/// Most outstanding requests and most outstanding RECVs of an [`End`].
const QUEUE_DEPTH: usize = 128;

/// Creates two RC or UC queue pairs on `device`, each in a context of its own, and connects them with each other,
/// without a control channel.
///
/// # Errors
/// [`ExchangeError`] if the provider cannot create or connect them.
pub fn ends<P: Provider>(device: &P::Device, kind: QpKind) -> Result<(End<P>, End<P>), ExchangeError> {
    let (mut a, mut b) = (End::<P>::new(device, kind)?, End::<P>::new(device, kind)?);
    let (a_export, b_export) = (a.qp.export()?, b.qp.export()?);
    a.qp.connect(&b_export)?;
    b.qp.connect(&a_export)?;
    Ok((a, b))
}

impl<P: Provider> std::fmt::Debug for End<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "End({} on {})", self.qp.qpn().0, P::NAME)
    }
}
