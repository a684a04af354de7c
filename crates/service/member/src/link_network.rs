//! [`LinkNetwork`]: the network of members that are linked over TCP.

use crate::network::{Call, CallTarget, MemberAddress, Network};
use drover_base::Ns;
use drover_links::{LinkCaller, LinkTarget, MemberIdentity, PeerAddr};
use std::io;
use std::net::ToSocketAddrs;
use std::sync::Arc;

/// Time that connecting, and each reply, may take: long enough for a core that is busy, short enough that a hand-over from a member that
/// has died does not hold up the others. *(our choice)*
const TIMEOUT: Ns = Ns::from_s(2);

/// Links to cores and control threads of members, this one's own included.
pub struct LinkNetwork {
    identity: Arc<MemberIdentity>,
}

impl LinkNetwork {
    /// The network as the member `identity` sees it.
    pub fn new(identity: Arc<MemberIdentity>) -> LinkNetwork {
        LinkNetwork { identity }
    }
}

impl Network for LinkNetwork {
    fn connect(&self, name: &str, address: &MemberAddress, target: CallTarget) -> io::Result<Box<dyn Call>> {
        let target = match target {
            CallTarget::Core(index) => LinkTarget::Core(index),
            CallTarget::Copies(index) => LinkTarget::Copies(index),
            CallTarget::Control => LinkTarget::Control,
        };
        let addr = address.host_port.to_socket_addrs()?.next();
        let addr = addr.ok_or(io::ErrorKind::AddrNotAvailable)?;
        let name = name.to_string();
        let peer = PeerAddr { name, addr };
        let caller = LinkCaller::connect(&self.identity, &peer, target, TIMEOUT);
        Ok(Box::new(LinkCall(caller.map_err(io::Error::other)?)))
    }
}

struct LinkCall(LinkCaller);

impl Call for LinkCall {
    fn call(&mut self, message: &[u8]) -> io::Result<&[u8]> {
        self.0.call(message, TIMEOUT).map_err(io::Error::other)
    }
}
