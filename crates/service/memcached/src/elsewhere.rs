//! [`Elsewhere`]: the way to the other cores of a server.

use drover_base::KeyHash;
use drover_net::Hole;

/// There is no room on the way to that core at the moment. The request was not sent; the connection waits for
/// [`Wants::Others`](drover_net::Wants::Others).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoRoom;

/// Where keys live, and how a request gets there. What crosses are bytes of [`crossing`](crate::crossing); the core
/// that receives them calls [`Desk::serve`](crate::Desk::serve), whose reply comes back to fill the hole, be it empty.
///
/// Requests to one core arrive in the order they were sent, and so do their replies.
pub trait Elsewhere {
    /// Cores of this server.
    fn core_count(&self) -> usize;

    /// Which of them this is.
    fn own(&self) -> usize;

    /// Which core owns the key.
    fn core_of(&self, hash: KeyHash) -> usize;

    /// Sends one message, `pieces` one after the other, to `core`, which is not this one. Its reply fills `hole`.
    /// Errors: [`NoRoom`]; nothing was sent then.
    fn send(&mut self, core: usize, hole: Hole, pieces: &[&[u8]]) -> Result<(), NoRoom>;
}

/// A server of one core: everything is here.
#[derive(Clone, Copy, Default, Debug)]
pub struct Nowhere;

impl Elsewhere for Nowhere {
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

    fn send(&mut self, _core: usize, _hole: Hole, _pieces: &[&[u8]]) -> Result<(), NoRoom> {
        Err(NoRoom)
    }
}
