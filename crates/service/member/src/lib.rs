//! A member of a service of several members: keeps its lease and its map, tells its cores what they may serve, and has shards handed
//! over without losing anything.
//!
//! ```text
//!  registry <--> control thread: Agent --publish--> ServedShards <--verdict-- cores
//!                  | Begin, Discard     ^ received                              ^
//!                  v                    |                                       | pages, lookups, stores, deletions
//!                sweeper     filler   movers -begin, freeze--> owner's control   | (messages between cores)
//!                  '-----------'--------'---------------------------------------'
//! ```
//! It decides nothing: that is [`drover_cluster`]'s. It reaches cores through a [`Network`], such as [`LinkNetwork`]. It executes nothing on items: the cores
//! do, on messages ([`drover_memcached::handover`]).
//!
//! - [`RunningMember`] runs the threads; [`MemberStatus`] is what operators see.
//! - [`ControlHandler`] answers what other members ask.
//!
//! Why hand-overs are as they are: decision
//! [0048](https://github.com/drover-kv/drover/blob/main/docs/decisions/0048-shards-are-handed-over-in-sets.md).
//!
//! # What must not happen, and why it does not
//!
//! - *A shard is served while void items of it are there.* What the cores hold of a shard is tracked (`contents.rs`), and a shard is published
//!   as served only when that is what the map means. Deletions begin when every core has passed a round after the shard was
//!   published as not served.
//! - *Items are stored after they were to be deleted.* Messages of a hand-over to a core that did not answer may still be under way: before a
//!   deletion the cores are told to store nothing of that attempt any more.
//! - *An update is lost in a planned change.* The owner's cores note changed keys, all of them from a round on that has ended before the
//!   first page is asked for, and the shard is frozen, on all of them, before the last notes are taken.
//! - *A flush is undone by a copy.* Replies of cores carry how often they have flushed their items; a copy during which that changes, here
//!   or there, is void.
//! - *A CAS number comes twice.* Cores go on above the versions of the cores that the items were on.
//! - *A copy that lacks something is promoted.* It is complete in the map only when its keeper has taken all that the cores found and, after
//!   replies began to wait for it, all that had changed before. A copy that may lack something begins again under another tenure.
//! - *A late copy overwrites something.* A keeper's cores store a copy only while it is published as kept, under its tenure.
//! - *A hand-over or a copy delays the lease.* Copying and deleting have threads of their own, and no thread waits while it holds the state.
#![forbid(unsafe_code)]

mod connection;
mod contents;
mod copies;
mod filler;
mod link_network;
mod member;
mod mover;
mod network;
mod observed;
mod outgoing;
mod own_cores;
mod owner;
mod requests;
mod shared;
mod state;
mod status;
mod sweeper;

pub use link_network::LinkNetwork;
pub use member::{MemberOptions, RunningMember, StartError};
pub use network::{Call, CallTarget, MemberAddress, Network};
pub use owner::ControlHandler;
pub use status::{MemberStatus, RegistryHealth, ShardCounts, Tally};
