//! [`CoreRouter`]: sends requests to the other cores of a server.

use drover_base::KeyHash;
use drover_net::PendingReply;

/// The ring to another core is full. The request was not sent; its session returns
/// [`Need::Route`](drover_net::Need::Route) and sends it again later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RouteFull;

/// Maps keys to cores, and sends requests from this core to the others. Messages are encoded as in
/// [`forward`](crate::forward); the receiving core calls [`Executor::serve`](crate::Executor::serve), whose reply, even
/// an empty one, fills the pending reply, or several ([`each_reply`](crate::each_reply)).
///
/// Requests to one core arrive in the order they were sent, as do their replies.
pub trait CoreRouter {
    /// Number of cores of this server.
    fn core_count(&self) -> usize;

    /// Index of this core.
    fn own(&self) -> usize;

    /// Index of the core that owns the key with this hash.
    fn core_of(&self, hash: KeyHash) -> usize;

    /// Whether a message of up to `bytes` bytes to `core` would be sent now, also after one such message to each other core.
    fn has_space(&mut self, core: usize, bytes: usize) -> bool;

    /// Sends one message, the concatenation of `pieces`, to `core`, which is not this one. Its reply fills
    /// `pending_reply`.
    ///
    /// # Errors
    /// [`RouteFull`]; nothing was sent.
    fn send(&mut self, core: usize, pending_reply: PendingReply, pieces: &[&[u8]]) -> Result<(), RouteFull>;

    /// In a member of a service: the route to the core that owns the key in the member with number `peer`; a number from
    /// [`core_count`](CoreRouter::core_count) on, for [`has_space`](CoreRouter::has_space) and [`send`](CoreRouter::send). `None`: there
    /// is no way to it.
    fn peer_route(&mut self, peer: u16, hash: KeyHash) -> Option<usize> {
        let _ = (peer, hash);
        None
    }

    /// In a member of a service: whether the last [`send`](CoreRouter::send) was refused because there is no link, and none can be made
    /// now. It will not [have space](CoreRouter::has_space) soon.
    fn is_down(&self) -> bool {
        false
    }

    /// In a member of a service: the routes to all cores of the member with number `peer`.
    fn peer_routes(&mut self, peer: u16) -> Vec<usize> {
        let _ = peer;
        Vec::new()
    }
}

/// Router of a server with one core, which owns every key; sending always fails.
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

    fn has_space(&mut self, _core: usize, _bytes: usize) -> bool {
        false
    }

    fn send(&mut self, _core: usize, _hole: PendingReply, _pieces: &[&[u8]]) -> Result<(), RouteFull> {
        Err(RouteFull)
    }
}
