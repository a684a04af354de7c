//! [`CopyLinks`]: the ways of a core to the cores that keep its copies.

use super::core::Job;
use super::network::TestNetwork;
use drover_base::KeyHash;
use drover_cluster::ServedShards;
use drover_member::MemberAddress;
use drover_memcached::{LinkRefused, PeerLinks};
use drover_net::PendingReply;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// How a message of a core about copies has ended; `None`: it was lost.
type Ended = (PendingReply, Option<Vec<u8>>);

/// Where the reply to a message about copies goes. Dropped without a reply, the message counts as lost.
pub struct CopyReply {
    pending: PendingReply,
    to: Sender<Ended>,
    reply: Option<Vec<u8>>,
}

impl CopyReply {
    pub fn send(mut self, reply: Vec<u8>) {
        self.reply = Some(reply);
    }
}

impl Drop for CopyReply {
    fn drop(&mut self) {
        let _ = self.to.send((self.pending, self.reply.take()));
    }
}

/// The links for copies of one core, whose routes are peers and cores.
pub struct CopyLinks {
    shards: Arc<ServedShards>,
    network: Arc<TestNetwork>,
    routes: Vec<(u16, usize)>,
    to_us: Sender<Ended>,
    pub ended: Receiver<Ended>,
}

impl CopyLinks {
    pub fn new(shards: Arc<ServedShards>, network: Arc<TestNetwork>) -> CopyLinks {
        let (to_us, ended) = channel();
        CopyLinks {
            shards,
            network,
            routes: Vec::new(),
            to_us,
            ended,
        }
    }

    fn address(&self, peer: u16) -> Option<MemberAddress> {
        MemberAddress::of(&self.shards.peer(peer)?.addresses)
    }

    fn route_to(&mut self, place: (u16, usize)) -> usize {
        let known = self.routes.iter().position(|it| *it == place);
        known.unwrap_or_else(|| {
            self.routes.push(place);
            self.routes.len() - 1
        })
    }
}

impl PeerLinks for CopyLinks {
    fn route(&mut self, peer: u16, hash: KeyHash) -> Option<usize> {
        let core_count = self.address(peer)?.core_count;
        let core = hash.partition_index(usize::from(core_count));
        Some(self.route_to((peer, core)))
    }

    fn routes(&mut self, peer: u16) -> Vec<usize> {
        let core_count = self.address(peer).map_or(0, |address| address.core_count);
        let cores = 0..usize::from(core_count);
        cores.map(|core| self.route_to((peer, core))).collect()
    }

    fn has_space(&mut self, _: usize, _: usize) -> bool {
        true
    }

    fn send(&mut self, route: usize, pending: PendingReply, pieces: &[&[u8]]) -> Result<(), LinkRefused> {
        let (peer, core) = self.routes[route];
        let address = self.address(peer).ok_or(LinkRefused::Down)?;
        let member = self.network.get(&address.host_port).ok_or(LinkRefused::Down)?;
        if self.network.loses_copies() {
            // It may be lost on its way there, or its reply on its way back; the sender cannot know.
            let _ = self.to_us.send((pending, None));
            return Ok(());
        }
        let reply = CopyReply {
            pending,
            to: self.to_us.clone(),
            reply: None,
        };
        let job = Job::Copies(pieces.concat(), reply);
        member.cores[core].send(job).map_err(|_| LinkRefused::Down)
    }
}
