//! [`CoreRouter`]: the way to the other cores of a server.

use drover_base::KeyHash;
use drover_net::PendingReply;

/// There is no space on the way to that core at the moment. The request was not sent; the connection waits for
/// [`Need::Others`](drover_net::Need::Others).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RouteFull;

/// Where keys live, and how a request gets there. What crosses are bytes of [`forward`](crate::forwarding); the core
/// that receives them calls [`Executor::serve`](crate::Executor::serve), whose reply comes back to fill the pending reply, be it empty.
///
/// Requests to one core arrive in the order they were sent, and so do their replies.
pub trait CoreRouter {
    /// Cores of this server.
    fn core_count(&self) -> usize;

    /// Which of them this is.
    fn own(&self) -> usize;

    /// Which core owns the key.
    fn core_of(&self, hash: KeyHash) -> usize;

    /// Sends one message, `pieces` one after the other, to `core`, which is not this one. Its reply fills `pending_reply`.
    /// Errors: [`RouteFull`]; nothing was sent then.
    fn send(&mut self, core: usize, pending_reply: PendingReply, pieces: &[&[u8]]) -> Result<(), RouteFull>;
}

/// A server of one core: everything is here.
#[derive(Clone, Copy, Default, Debug)]
pub struct SingleCore;

impl CoreRouter for SingleCore {
    fn core_count(&self) -> usize {
        1
    }

    fn own(&self) -> usize {
        0
    }

    #[inline(always)]
    fn core_of(&self, _hash: KeyHash) -> usize {
        0
    }

    fn send(&mut self, _core: usize, _hole: PendingReply, _pieces: &[&[u8]]) -> Result<(), RouteFull> {
        Err(RouteFull)
    }
}
