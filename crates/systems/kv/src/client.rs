//! [`KvClient`]: submit and poll.

use crate::{Op, Outcome};
use drover_base::Ns;
use drover_verbs::Provider;

/// The caller's number for an operation; its completion carries the same number.
pub type Token = u64;

/// One finished operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion<'a> {
    /// The caller's number of the operation, as given to [`submit`](KvClient::submit).
    pub token: Token,
    /// Result of the operation.
    pub outcome: Outcome<'a>,
}

/// Why the client did not accept an operation. The operation had no effect and will not complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The window, of the key's partition or of the whole client, is full: poll, then submit again. Not an error but
    /// flow control.
    #[error("the window is full")]
    WindowFull,
    /// The key is empty or longer than [`KEY_BYTES_MAX`](crate::KEY_BYTES_MAX).
    #[error("a key has 1 to 250 bytes")]
    BadKey,
    /// The item is over the server's limit, or the key does not fit a request. Before the first session the limit is
    /// unknown: then the operation is accepted and refused later.
    #[error("the key or the value is larger than the server allows")]
    TooLarge,
    /// The system has no such operation.
    #[error("the system does not offer this")]
    NotOffered,
    /// The client was closed.
    #[error("the client is closed")]
    Closed,
}

/// A client of one key-value service, for one thread. Never blocks; keeps a window of operations in flight.
///
/// Operations of one client on one key take effect in the order of submission, as long as the connection lasts and the
/// server answers in time. Otherwise a read is sent again, and may see a value whose PUT was submitted after it.
pub trait KvClient<P: Provider> {
    /// Accepts one operation. The next [`poll`](KvClient::poll) sends it at the latest, unless it must wait for a
    /// session or for an earlier operation on its key. Key and value are copied.
    ///
    /// # Errors
    /// [`SubmitError`] if the operation is not accepted; it will then not complete.
    fn submit(&mut self, cpu: &P::Cpu, op: &Op<'_>, token: Token) -> Result<(), SubmitError>;

    /// Makes all items go that are there in `delay_s` seconds. It completes with [`Outcome::Deleted`] when that is sure for all
    /// clients (with a delay: when it is sure that it will happen), else with [`Outcome::Refused`]. It keeps no order with operations on
    /// keys: what is written before it has completed may be gone, too.
    ///
    /// # Errors
    /// [`SubmitError::NotOffered`] if the system cannot do that by its clients.
    fn flush(&mut self, cpu: &P::Cpu, delay_s: u32, token: Token) -> Result<(), SubmitError> {
        let _ = (cpu, delay_s, token);
        Err(SubmitError::NotOffered)
    }

    /// Sends staged operations, receives replies, connects where a session is missing, and runs timers; never blocks.
    /// Calls `sink` with every completed operation and returns their number.
    fn poll(&mut self, cpu: &P::Cpu, sink: &mut impl FnMut(Completion<'_>)) -> usize;

    /// Number of operations submitted and not yet completed, including those that wait in the client.
    fn in_flight(&self) -> usize;

    /// Time by which [`poll`](KvClient::poll) must be called again even if nothing arrives, on the clock of the core; a
    /// time in the past means at once, [`Ns::MAX`] never.
    fn next_timer(&self) -> Ns;
}
