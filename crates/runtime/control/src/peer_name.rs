//! [`PeerName`]: a client as the log lines of its server name it.

use super::peer::Peer;
use std::fmt;
use std::sync::Arc;

/// The other end of a control channel as log lines name it: its id, once it has one, the process or host, and the
/// listener where it came in, such as `client 5, pid 812 (uid 1000), at shm:/run/drover/drover.sock`.
#[derive(Clone, Debug)]
pub struct PeerName {
    id: Option<Arc<str>>,
    peer: Peer,
    listener: Option<Arc<str>>,
    is_client: bool,
}

impl PeerName {
    /// A peer about which only the system has said something.
    pub(crate) fn new(peer: Peer) -> PeerName {
        PeerName {
            id: None,
            peer,
            listener: None,
            is_client: false,
        }
    }

    /// The process or host.
    pub fn peer(&self) -> Peer {
        self.peer
    }

    /// Whether the peer is a client, so that this end is a server's.
    pub(crate) fn is_client(&self) -> bool {
        self.is_client
    }

    /// The peer is a client, at this listener if there is one.
    pub(crate) fn came_in_at(&mut self, listener: Option<&Arc<str>>) {
        self.is_client = true;
        if listener.is_some() {
            self.listener = listener.cloned();
        }
    }

    pub(crate) fn identify(&mut self, id: &str) {
        self.id = Some(id.into());
    }
}

impl fmt::Display for PeerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(id) = &self.id {
            write!(f, "{id}, ")?;
        }
        self.peer.fmt(f)?;
        match &self.listener {
            Some(listener) => write!(f, ", at {listener}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_grows_with_what_is_known() {
        let addr = "10.0.0.7:4711".parse().expect("an address");
        let mut name = PeerName::new(Peer::Host(addr));
        assert_eq!(name.to_string(), "10.0.0.7:4711");
        assert!(!name.is_client());
        name.came_in_at(Some(&"tcp://10.0.0.1:7471".into()));
        name.came_in_at(None);
        name.identify("client 5");
        assert_eq!(
            name.to_string(),
            "client 5, 10.0.0.7:4711, at tcp://10.0.0.1:7471"
        );
        assert!(name.is_client());
    }
}
