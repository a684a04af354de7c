//! Links between the cores of members, in memory. Messages and replies of a link keep their order; a link may break.

use super::CORES;
use drover_base::KeyHash;
use drover_cluster::ServedShards;
use drover_memcached::{LinkRefused, PeerLinks};
use drover_net::PendingReply;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

/// Messages that a link holds; so few that it is sometimes full.
const SPACE: usize = 12;

/// A core: those of member m begin at m * [`CORES`].
pub type CoreNumber = usize;

#[derive(Default)]
pub struct Link {
    /// Changes when the link breaks.
    pub number: u64,
    pub messages: VecDeque<(PendingReply, Vec<u8>)>,
    pub replies: VecDeque<(PendingReply, Vec<u8>)>,
    /// What was sent and is not answered.
    under_way: VecDeque<PendingReply>,
}

impl Link {
    /// The oldest reply that has come.
    pub fn take_reply(&mut self) -> Option<(PendingReply, Vec<u8>)> {
        let (pending, reply) = self.replies.pop_front()?;
        assert_eq!(self.under_way.pop_front(), Some(pending), "replies come in order");
        Some((pending, reply))
    }

    /// Breaks the link. The requests that will not be answered; and the number of the link that is no more.
    pub fn cut(&mut self, next_number: u64) -> (Vec<PendingReply>, u64) {
        self.messages.clear();
        self.replies.clear();
        let lost = self.under_way.drain(..).collect();
        (lost, std::mem::replace(&mut self.number, next_number))
    }
}

/// All links, by the cores that they go from and to.
#[derive(Default)]
pub struct Network {
    pub links: BTreeMap<(CoreNumber, CoreNumber), Link>,
}

/// The links of one core.
#[derive(Clone)]
pub struct TestLinks {
    pub own: CoreNumber,
    pub shards: Arc<ServedShards>,
    pub network: Rc<RefCell<Network>>,
}

impl TestLinks {
    /// The first core of a peer.
    fn first_core(&self, peer: u16) -> Option<CoreNumber> {
        let name = self.shards.peer(peer)?.id.name;
        let member: usize = name.strip_prefix('m')?.parse().ok()?;
        Some(member * CORES)
    }
}

impl PeerLinks for TestLinks {
    fn route(&mut self, peer: u16, hash: KeyHash) -> Option<usize> {
        Some(self.first_core(peer)? + hash.partition_index(CORES))
    }

    fn routes(&mut self, peer: u16) -> Vec<usize> {
        let first = self.first_core(peer).expect("a peer of the test");
        (first..first + CORES).collect()
    }

    fn has_space(&mut self, route: usize, _bytes: usize) -> bool {
        let network = self.network.borrow();
        let link = network.links.get(&(self.own, route));
        link.is_none_or(|link| link.messages.len() < SPACE)
    }

    fn send(&mut self, route: usize, pending: PendingReply, pieces: &[&[u8]]) -> Result<(), LinkRefused> {
        if !self.has_space(route, 0) {
            return Err(LinkRefused::Full);
        }
        let mut network = self.network.borrow_mut();
        let number = 1 + network.links.len() as u64;
        let link = network.links.entry((self.own, route)).or_insert_with(|| Link {
            number,
            ..Link::default()
        });
        link.messages.push_back((pending, pieces.concat()));
        link.under_way.push_back(pending);
        Ok(())
    }
}
