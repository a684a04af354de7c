//! [`MemberRouter`]: the rings to the other cores of a member, and links to the cores of other members.

use crate::{CoreRouter, Outbound, RouteFull};
use drover_base::KeyHash;
use drover_net::PendingReply;

/// Links of one core to the cores of other members. Routes are numbers from 0, dense, and keep their meaning.
///
/// As with rings, messages of one route arrive in the order they were sent, as do their replies: each message has one, or
/// [is lost](crate::Executor::take_lost), or [comes back](crate::Executor::take_unsent).
pub trait PeerLinks {
    /// The route to the core of `peer` (as of [`Verdict::Peer`](drover_cluster::Verdict::Peer)) that owns the key with this hash.
    /// `None`: there is no way to it.
    fn route(&mut self, peer: u16, hash: KeyHash) -> Option<usize>;

    /// The routes to all cores of `peer`.
    fn routes(&mut self, peer: u16) -> Vec<usize>;

    /// As [`CoreRouter::has_space`].
    fn has_space(&mut self, route: usize, bytes: usize) -> bool;

    /// As [`CoreRouter::send`].
    ///
    /// # Errors
    /// [`LinkRefused`]; nothing was sent.
    fn send(
        &mut self,
        route: usize,
        pending_reply: PendingReply,
        pieces: &[&[u8]],
    ) -> Result<(), LinkRefused>;
}

/// Why a message was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkRefused {
    /// The link holds as much as it may.
    Full,
    /// There is no link, and an attempt to make one has just failed.
    Down,
}

/// Router of a core of a member: its routes are the cores of the member by index, then those of the links.
#[derive(Debug)]
pub struct MemberRouter<'r, L> {
    rings: &'r mut Outbound,
    links: &'r mut L,
    is_down: bool,
}

impl<'r, L> MemberRouter<'r, L> {
    /// The router over the rings to the other cores of the member, and the links to the cores of other members.
    pub fn new(rings: &'r mut Outbound, links: &'r mut L) -> MemberRouter<'r, L> {
        MemberRouter {
            rings,
            links,
            is_down: false,
        }
    }
}

impl<L: PeerLinks> CoreRouter for MemberRouter<'_, L> {
    fn core_count(&self) -> usize {
        self.rings.core_count()
    }

    fn own(&self) -> usize {
        self.rings.own()
    }

    fn core_of(&self, hash: KeyHash) -> usize {
        self.rings.core_of(hash)
    }

    fn has_space(&mut self, route: usize, bytes: usize) -> bool {
        match route.checked_sub(self.core_count()) {
            None => self.rings.has_space(route, bytes),
            Some(link) => self.links.has_space(link, bytes),
        }
    }

    fn send(&mut self, route: usize, pending_reply: PendingReply, pieces: &[&[u8]]) -> Result<(), RouteFull> {
        match route.checked_sub(self.core_count()) {
            None => self.rings.send(route, pending_reply, pieces),
            Some(link) => {
                let sent = self.links.send(link, pending_reply, pieces);
                self.is_down = sent == Err(LinkRefused::Down);
                sent.map_err(|_| RouteFull)
            }
        }
    }

    fn is_down(&self) -> bool {
        self.is_down
    }

    fn peer_route(&mut self, peer: u16, hash: KeyHash) -> Option<usize> {
        Some(self.core_count() + self.links.route(peer, hash)?)
    }

    fn peer_routes(&mut self, peer: u16) -> Vec<usize> {
        let first = self.core_count();
        let routes = self.links.routes(peer);
        routes.into_iter().map(|route| first + route).collect()
    }
}
