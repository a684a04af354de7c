//! Links between the cores of a service's members: rings over TCP, for messages that are only bytes here.
//!
//! ```text
//!   member a, core 0                                         member b, core 1
//!   send --> Outgoing --- messages, in batches ---> Incoming --serve--> reply
//!   fill <-- Outgoing <--- replies, in order ------ Incoming <------------'
//! ```
//! A link carries the messages of one core to one core of another member, and their replies; messages the other way have a
//! link of their own. Replies come in the order of their messages, so no number crosses the network, and a peer can fill
//! only what it was asked for.
//!
//! - [`Links`] are all links of one core: [`send`](Links::send), [`step`](Links::step), [`flush`](Links::flush). They
//!   connect when something is sent, and never block. A [`LinkHandler`] serves messages and takes replies.
//!   A core may have two of them, one for each [`LinkPurpose`]: while it takes no requests, it still serves copies.
//! - [`LinkAcceptor`] is a thread that listens, lets in only members that know the service's secret, and gives each link to
//!   the [`LinkInbox`] of the core it is meant for, or to the control thread.
//! - [`LinkCaller`] is a blocking client for control threads, [`ControlLink`] the blocking server of its calls.
//!
//! Links are plain text. Both ends prove that they know the secret, so strangers are kept out; a machine that can read or
//! change the packets of this network is not, so members belong in a network that is trusted. Why all this is so:
//! `docs/decisions/0047-links-between-members.md`.
#![forbid(unsafe_code)]

mod acceptor;
mod blocking;
mod caller;
mod control_link;
mod dialing;
mod frame;
mod fuzz;
mod half_open;
mod handler;
mod handshake;
mod inbox;
mod incoming;
mod input;
mod links;
mod options;
mod out_queue;
mod outgoing;
mod socket;

pub use acceptor::{AcceptorOptions, LinkAcceptor};
pub use caller::{CallError, LinkCaller};
pub use control_link::ControlLink;
pub use fuzz::fuzz_link;
pub use handler::{LinkHandler, LinkReply, Source};
pub use handshake::{LinkTarget, MemberIdentity, NAME_BYTES_MAX, Refusal, SECRET_BYTES};
pub use inbox::{CoreInboxes, LinkInbox};
pub use links::{FindPeer, LinkCounters, Links, SendRefused};
pub use options::{LinkPurpose, LinksOptions, PeerAddr};
