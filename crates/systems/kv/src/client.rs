//! [`KvClient`]: submit and poll.

use crate::{Op, Outcome};
use drover_base::Ns;
use drover_verbs::Provider;

/// The caller's name for an operation; comes back in its completion.
pub type Token = u64;

/// One finished operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion<'a> {
    /// As submitted.
    pub token: Token,
    /// What came of it.
    pub outcome: Outcome<'a>,
}

/// Why an operation was not taken. It had no effect and will not complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The window of the key's partition is full: poll, then submit again. Not an error but flow control.
    #[error("the window is full")]
    WindowFull,
    /// The key is empty or longer than [`KEY_BYTES_MAX`](crate::KEY_BYTES_MAX).
    #[error("a key has 1 to 250 bytes")]
    BadKey,
    /// The value is over the server's item limit, or the key does not fit a request.
    #[error("the key or the value is larger than the server allows")]
    TooLarge,
    /// The client was closed.
    #[error("the client is closed")]
    Closed,
}

/// A client of one key-value service, for one thread. Never blocks; keeps a window of operations in flight.
///
/// Operations of one client on one key take effect in the order they were submitted, as long as the connection lasts
/// and the server answers in time: a read that has to be sent again may see what was written after it.
pub trait KvClient<P: Provider> {
    /// Stages one operation. It is on its way at the latest after the next [`poll`](KvClient::poll).
    /// Key and value are copied.
    fn submit(&mut self, cpu: &P::Cpu, op: &Op<'_>, token: Token) -> Result<(), SubmitError>;

    /// Sends what is staged, takes what has arrived, minds the timers; hands every finished operation to
    /// `sink` and returns how many there were.
    fn poll(&mut self, cpu: &P::Cpu, sink: &mut impl FnMut(Completion<'_>)) -> usize;

    /// Operations submitted and not completed.
    fn in_flight(&self) -> usize;

    /// When [`poll`](KvClient::poll) must be called again even if nothing arrives ([`Ns::MAX`]: never).
    fn next_timer(&self) -> Ns;
}
