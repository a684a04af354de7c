//! [`PeerBook`]: where the other members' links are, found without a core waiting for a name server.

use drover_base::{Cpu, Ns};
use drover_cluster::ServedShards;
use drover_links::{FindPeer, PeerAddr};
use drover_mem::NativeCpu;
use drover_member::MemberAddress;
use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};

/// A name is looked up again after this time, if it is asked for: a member may have moved.
const LOOK_UP_EVERY: Ns = Ns::from_s(1);

/// Addresses of the members that the cores know by number.
pub struct PeerBook {
    shards: Arc<ServedShards>,
    names: Mutex<BTreeMap<String, Name>>,
}

/// What is known of a host name with a port.
struct Name {
    addr: Option<SocketAddr>,
    asked_at: Ns,
}

impl PeerBook {
    pub fn new(shards: Arc<ServedShards>) -> Arc<PeerBook> {
        Arc::new(PeerBook {
            shards,
            names: Mutex::default(),
        })
    }

    /// For the links of one core.
    pub fn finder(self: &Arc<PeerBook>) -> FindPeer {
        let (book, clock) = (self.clone(), NativeCpu::new(0));
        Box::new(move |number| book.find(number, clock.refresh()))
    }

    fn find(self: &Arc<PeerBook>, number: u16, now: Ns) -> Option<PeerAddr> {
        let peer = self.shards.peer(number)?;
        let place = MemberAddress::of(&peer.addresses)?.host_port;
        let addr = match place.parse() {
            Ok(addr) => addr,
            Err(_) => self.named(place, now)?,
        };
        let name = peer.id.name.to_string();
        Some(PeerAddr { name, addr })
    }

    /// The last address found for a name. `None`: none yet; a thread is looking it up, and links ask again.
    fn named(self: &Arc<PeerBook>, place: String, now: Ns) -> Option<SocketAddr> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let known = names.get(&place);
        let addr = known.and_then(|name| name.addr);
        if known.is_none_or(|name| now.since(name.asked_at) >= LOOK_UP_EVERY) {
            names.insert(place.clone(), Name { addr, asked_at: now });
            drop(names);
            let book = self.clone();
            let look_up = move || book.look_up(&place);
            if let Err(error) = std::thread::Builder::new()
                .name("names".to_owned())
                .spawn(look_up)
            {
                tracing::warn!("cannot start a thread that looks up names: {error}");
            }
        }
        addr
    }

    fn look_up(&self, place: &str) {
        let found = match place.to_socket_addrs() {
            Ok(mut found) => found.next(),
            Err(error) => {
                tracing::warn!("member at {place}: {error}");
                None
            }
        };
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(name), Some(addr)) = (names.get_mut(place), found) {
            name.addr = Some(addr);
        }
    }
}
