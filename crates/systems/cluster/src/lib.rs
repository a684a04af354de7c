//! Services of several members: who is there, who owns which shard, and how shards change hands, so that no two members ever answer
//! for the same shard and planned changes lose nothing.
//!
//! ```text
//! registry (etcd, or one of ours)      member                                       client
//!   members under leases      <------    Agent      registers, renews, plans          Redirects   the map, perhaps an old one
//!   Map of shards, epoch      ------>      Ownership    which shards are ours           Routed      epoch, "do not forward"
//!                                          ServedShards may I serve this, now?   <--
//!                                          Handover     a shard on its way to us       Redirect    "elsewhere": when to ask again
//! ```
//! It moves no items and opens no socket, reads no clock and no random source: times are arguments, and what is to be done comes back as
//! values. It decides nothing by majority: that is what the registry is for.
//!
//! - [`Map`] says who owns each of the shards; [`Draft`] makes the next one; [`plan`] fits it to the members that are there, with
//!   [`placement`] by rendezvous hashing.
//! - [`Registry`] is the trait of what keeps members and map; [`LocalRegistry`] is one in this process, [`SimulatedRegistry`] one in
//!   virtual time where things go wrong.
//! - [`ServiceSettings`] are what all members have in common: the hash of keys, a secret, lease and replicas.
//! - [`ServedShards`] is what the cores of a member's process ask about each request.
//! - [`Agent`] is a member, made of [`Registration`], [`Ownership`] and [`Handover`]s; [`Redirects`] is a client's part.
//!
//! Why no two members ever answer for a shard: decision
//! [0045](https://github.com/drover-kv/drover/blob/main/docs/decisions/0045-who-may-answer-for-a-shard.md).
//!
//! A service of one member:
//! ```
//! use drover_base::{KeyHash, Ns};
//! use drover_cluster::{
//!     Advert, Agent, AgentOptions, HandoverTimes, LeaseTerms, LocalRegistry, Published, ServedShards, Verdict,
//! };
//! let advert = Advert::new("a", 1, vec!["tcp://10.0.0.1:11211".to_string()])?;
//! let mut agent = Agent::new(AgentOptions {
//!     advert,
//!     terms: LeaseTerms::default(),
//!     handover: HandoverTimes::default(),
//!     handovers_max: 16,
//!     shard_count: 64,
//!     instance: 1,
//!     replicas: 1,
//! });
//! let (mut registry, mut actions) = (LocalRegistry::default(), Vec::new());
//! for ms in 0..5 {
//!     agent.step(Ns::from_ms(ms), &mut registry, &mut actions);
//! }
//! assert_eq!(actions.len(), 64, "each shard begins");
//! // What the cores of the process ask:
//! let served = ServedShards::new(64, 1);
//! served.publish_all(agent.ownership(), &Published::default());
//! served.set_stop_at(agent.stop_at());
//! let hash = KeyHash::default();
//! assert_eq!(served.verdict(hash, Ns::from_ms(5)), Verdict::Serve);
//! // Nothing renews the lease: after two thirds of it the member answers nothing, however it spent the time.
//! assert_eq!(served.verdict(hash, Ns::from_s(5)), Verdict::Nowhere);
//! # Ok::<(), drover_cluster::BadAdvert>(())
//! ```
//!
//! Sources: `[Leases]`, `[WeightedRendezvous]`; see `docs/sources.md`. The rest is *our choice*.
#![forbid(unsafe_code)]

mod agent;
mod copies;
mod handover;
mod map;
mod member;
mod ownership;
pub mod placement;
mod plan;
mod redirects;
mod registration;
mod registry;
mod routing;
mod served;
mod settings;
mod shard;

pub use agent::{Action, Agent, AgentOptions};
pub use handover::{Ask, Handover, HandoverReply, HandoverRequest, HandoverTimes};
pub use map::{
    BadMapBytes, Copy, Draft, MEMBERS_MAX, MOVES_MAX, Map, MapMember, Move, Standing, Tenure, fuzz_map,
};
pub use member::{ADDRESS_BYTES_MAX, ADDRESSES_MAX, Advert, BadAdvert, Member, MemberId, NAME_BYTES_MAX};
pub use ownership::{Change, Ownership};
pub use plan::plan;
pub use redirects::{Attempts, ELSEWHERE_MAX, PAUSE_FIRST, Redirect, Redirects};
pub use registration::{LeaseRequest, LeaseTerms, OnRegistryLoss, Registration};
pub use registry::{
    Accepted, LocalRegistry, Registry, RegistryEvent, RegistryFaults, RegistryReply, RegistryRequest,
    SimulatedClient, SimulatedRegistry, Transaction, View,
};
pub use routing::Routed;
pub use served::{CopyStage, NotedKey, Peer, Published, SentCopy, ServedShards, Verdict, WakeCore};
pub use settings::{REPLICAS_MAX, SECRET_BYTES, ServiceSettings};
pub use shard::{Epoch, SHARD_COUNT, ShardId};
