//! Links for copies between the cores of members, in memory: they keep order, break, and then some messages come late.

use super::CORES;
use drover_base::KeyHash;
use drover_cluster::ServedShards;
use drover_memcached::{LinkRefused, PeerLinks};
use drover_net::PendingReply;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

/// A core, by its member and its index there.
pub type CoreId = (usize, usize);
/// Routes of a core to the cores of one member.
const ROUTES: usize = 4;

#[derive(Default)]
pub struct Link {
    pub messages: VecDeque<(PendingReply, Vec<u8>)>,
    pub replies: VecDeque<(PendingReply, Vec<u8>)>,
    /// Sent and not answered.
    pub under_way: VecDeque<PendingReply>,
}

/// All links, by the cores that they go from and to.
#[derive(Default)]
pub struct Network {
    pub links: BTreeMap<(CoreId, CoreId), Link>,
    /// Messages of links that broke, which may still arrive.
    pub late: Vec<(CoreId, Vec<u8>)>,
}

impl Network {
    /// Breaks a link. Returns what will not be answered.
    pub fn cut(&mut self, from: CoreId, to: CoreId) -> Vec<PendingReply> {
        let Some(link) = self.links.remove(&(from, to)) else {
            return Vec::new();
        };
        let messages = link.messages.into_iter().map(|(_, message)| (to, message));
        self.late.extend(messages);
        link.under_way.into()
    }
}

/// The links of one core.
pub struct TestLinks {
    pub own: CoreId,
    pub shards: Arc<ServedShards>,
    pub network: Rc<RefCell<Network>>,
    /// Nothing can be sent now.
    pub is_down: bool,
}

impl TestLinks {
    fn member(&self, peer: u16) -> Option<usize> {
        self.shards.peer(peer)?.id.name.strip_prefix('m')?.parse().ok()
    }

    pub fn target(route: usize) -> CoreId {
        (route / ROUTES, route % ROUTES)
    }
}

impl PeerLinks for TestLinks {
    fn route(&mut self, peer: u16, hash: KeyHash) -> Option<usize> {
        let member = self.member(peer)?;
        Some(member * ROUTES + hash.partition_index(CORES[member]))
    }

    fn routes(&mut self, peer: u16) -> Vec<usize> {
        let member = self.member(peer).expect("a peer of the test");
        (0..CORES[member]).map(|core| member * ROUTES + core).collect()
    }

    fn has_space(&mut self, _route: usize, _bytes: usize) -> bool {
        !self.is_down
    }

    fn send(&mut self, route: usize, pending: PendingReply, pieces: &[&[u8]]) -> Result<(), LinkRefused> {
        if self.is_down {
            return Err(LinkRefused::Down);
        }
        let mut network = self.network.borrow_mut();
        let link = network
            .links
            .entry((self.own, TestLinks::target(route)))
            .or_default();
        link.messages.push_back((pending, pieces.concat()));
        link.under_way.push_back(pending);
        assert_eq!(link.under_way.len(), 1, "one message under way");
        Ok(())
    }
}
