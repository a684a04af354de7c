//! [`LinkNetwork`]: how the threads of a member call cores and control threads, over links.

use drover_base::Ns;
use drover_links::{LinkCaller, LinkTarget, MemberIdentity, PeerAddr};
use drover_member::{Call, CallTarget, MemberAddress, Network};
use std::io;
use std::net::ToSocketAddrs;
use std::sync::Arc;

/// Longest wait for a connection.
const CONNECT_MAX: Ns = Ns::from_s(1);
/// Longest wait for a reply without progress: a core answers between two steps, a control thread after a round of its cores.
const REPLY_MAX: Ns = Ns::from_s(2);

/// Calls over links, as this member.
pub struct LinkNetwork(pub Arc<MemberIdentity>);

impl Network for LinkNetwork {
    fn connect(&self, name: &str, address: &MemberAddress, target: CallTarget) -> io::Result<Box<dyn Call>> {
        let found = address.host_port.to_socket_addrs()?.next();
        let addr = found.ok_or_else(|| io::Error::other(format!("{} has no address", address.host_port)))?;
        let peer = PeerAddr {
            name: name.to_owned(),
            addr,
        };
        let target = match target {
            CallTarget::Core(index) => LinkTarget::Core(index),
            CallTarget::Control => LinkTarget::Control,
        };
        let caller = LinkCaller::connect(&self.0, &peer, target, CONNECT_MAX).map_err(io::Error::other)?;
        Ok(Box::new(LinkCall(caller)))
    }
}

struct LinkCall(LinkCaller);

impl Call for LinkCall {
    fn call(&mut self, message: &[u8]) -> io::Result<&[u8]> {
        self.0.call(message, REPLY_MAX).map_err(io::Error::other)
    }
}
