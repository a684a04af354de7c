//! Options of a core's links.

use crate::handshake::LinkTarget;
use drover_base::Ns;
use std::net::SocketAddr;

/// Where another member is reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerAddr {
    /// Name of the member, for the handshake and for log lines.
    pub name: String,
    /// Address of its [`LinkAcceptor`](crate::LinkAcceptor).
    pub addr: SocketAddr,
}

/// What links are for. The same cores of two members have links of their own for each purpose.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum LinkPurpose {
    /// Requests, which wait while their core waits for other members.
    #[default]
    Requests,
    /// Copies of items, which never wait for requests.
    Copies,
}

impl LinkPurpose {
    /// The part of a member that such links to a core reach.
    pub(crate) fn target(self, core: u16) -> LinkTarget {
        match self {
            LinkPurpose::Requests => LinkTarget::Core(core),
            LinkPurpose::Copies => LinkTarget::Copies(core),
        }
    }
}

/// Options of a core's [`Links`](crate::Links). Both members should have the same.
#[derive(Clone, Debug)]
pub struct LinksOptions {
    /// What the links are for.
    pub purpose: LinkPurpose,
    /// Maximum bytes of a message; the link of a longer one is closed.
    pub message_bytes_max: usize,
    /// Maximum bytes of a reply; the link of a longer one is closed. Memory is taken as the bytes arrive.
    pub reply_bytes_max: usize,
    /// Bytes of unwritten messages from which on a link is full, and bytes of unwritten replies from which on it reads no
    /// further messages. One message or reply may go beyond.
    pub queue_bytes: usize,
    /// Number of messages without a reply from which on a link is full.
    pub outstanding_max: usize,
    /// Time that connecting, with the handshake, may take.
    pub connect_timeout: Ns,
    /// Time after which a peer that is silent, or takes no replies, has lost its link. A third of it is the time between
    /// keep-alives.
    pub stall_timeout: Ns,
    /// Time after a failed attempt to connect in which the route is [down](crate::SendRefused::Down). It doubles with each
    /// further failure,
    pub backoff_min: Ns,
    /// up to this.
    pub backoff_max: Ns,
}

impl Default for LinksOptions {
    fn default() -> LinksOptions {
        LinksOptions {
            purpose: LinkPurpose::Requests,
            message_bytes_max: 2 << 20,
            reply_bytes_max: 256 << 20,
            queue_bytes: 256 << 10,
            outstanding_max: 16 << 10,
            connect_timeout: Ns::from_ms(500),
            stall_timeout: Ns::from_s(3),
            backoff_min: Ns::from_ms(5),
            backoff_max: Ns::from_ms(200),
        }
    }
}
