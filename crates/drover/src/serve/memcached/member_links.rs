//! [`MemberLinks`]: the links of a core to the cores of other members, as its router uses them.

use drover_base::{KeyHash, Ns, Progress};
use drover_cluster::ServedShards;
use drover_links::{LinkHandler, Links, SendRefused};
use drover_member::MemberAddress;
use drover_memcached::{LinkRefused, PeerLinks};
use drover_net::PendingReply;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Links of one core, by the numbers that its member gives to its peers.
pub(super) struct MemberLinks {
    links: Links,
    shards: Arc<ServedShards>,
    /// Number of cores of each peer; 0: not looked up yet.
    core_counts: Vec<u16>,
    /// Number of peers whose links are retired.
    retired_count: u64,
}

impl MemberLinks {
    pub(super) fn new(links: Links, shards: Arc<ServedShards>) -> MemberLinks {
        MemberLinks {
            links,
            shards,
            core_counts: Vec::new(),
            retired_count: 0,
        }
    }

    /// Takes what has arrived, at the beginning of the core's step.
    pub(super) fn step(&mut self, handler: &mut impl LinkHandler, now: Ns) -> Progress {
        if self.shards.ended_count() != self.retired_count {
            self.retire_ended();
        }
        self.links.step(handler, now)
    }

    #[cold]
    fn retire_ended(&mut self) {
        self.retired_count = self.shards.ended_count();
        for peer in self.shards.ended_peers() {
            self.links.retire_peer(peer);
        }
    }

    /// Writes what is queued, at the end of the core's step. Returns whether the next step has something to do at once.
    pub(super) fn flush(&mut self) -> bool {
        self.links.flush()
    }

    /// Closes the incoming links with replies that were not written yet.
    pub(super) fn close_unsent(&mut self, handler: &mut impl LinkHandler) {
        self.links.close_unsent(handler);
    }

    /// Whether requests that found a link full should be sent again.
    pub(super) fn has_space_again(&mut self) -> bool {
        self.links.has_space_again()
    }

    /// Becomes readable when there is something to [take](MemberLinks::step).
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.links.fd()
    }

    /// Makes good for a step that panicked.
    pub(super) fn recover(&mut self) {
        self.links.recover();
    }

    #[inline]
    fn core_count(&mut self, peer: u16) -> Option<usize> {
        match self.core_counts.get(usize::from(peer)) {
            Some(&count) if count != 0 => Some(usize::from(count)),
            _ => self.look_up(peer),
        }
    }

    #[cold]
    fn look_up(&mut self, peer: u16) -> Option<usize> {
        let count = MemberAddress::of(&self.shards.peer(peer)?.addresses)?.core_count;
        let index = usize::from(peer);
        if self.core_counts.len() <= index {
            self.core_counts.resize(index + 1, 0);
        }
        self.core_counts[index] = count;
        Some(usize::from(count))
    }
}

impl PeerLinks for MemberLinks {
    #[inline]
    fn route(&mut self, peer: u16, hash: KeyHash) -> Option<usize> {
        let core = hash.partition_index(self.core_count(peer)?);
        Some(self.links.route(peer, core as u16))
    }

    fn routes(&mut self, peer: u16) -> Vec<usize> {
        let core_count = self.core_count(peer).unwrap_or(0);
        (0..core_count)
            .map(|core| self.links.route(peer, core as u16))
            .collect()
    }

    fn has_space(&mut self, route: usize, bytes: usize) -> bool {
        self.links.has_space(route, bytes)
    }

    fn send(
        &mut self,
        route: usize,
        pending_reply: PendingReply,
        pieces: &[&[u8]],
    ) -> Result<(), LinkRefused> {
        self.links
            .send(route, pending_reply, pieces)
            .map_err(|refused| match refused {
                SendRefused::Full => LinkRefused::Full,
                SendRefused::Down => LinkRefused::Down,
            })
    }
}
