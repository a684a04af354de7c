//! [`MemberStatus`]: what operators see of a member.

use drover_base::Ns;
use drover_cluster::{Epoch, MemberId};

/// A member at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MemberStatus {
    /// Its registration, if it has one.
    pub id: Option<MemberId>,
    /// Epoch of the newest map that it knows.
    pub epoch: Epoch,
    /// Time until it stops serving, unless the registry renews its lease; [`Ns::MAX`]: it serves whatever happens to the
    /// registry.
    pub lease_left: Ns,
    /// Its shards.
    pub shards: ShardCounts,
    /// What it has received and lost since it started.
    pub tally: Tally,
    /// The registry, as the member sees it.
    pub registry: RegistryHealth,
    /// Time since the last change of the map; `None`: there was none.
    pub since_change: Option<Ns>,
    /// The last thing that went wrong in a hand-over; empty: nothing has.
    pub last_error: String,
}

/// Shards of a member, by what happens to them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ShardCounts {
    /// Shards that it serves as long as its lease lives.
    pub served: usize,
    /// Shards that the map plans to hand over to it.
    pub arriving: usize,
    /// Shards that the map plans to hand over to others.
    pub leaving: usize,
    /// Shards with void items, which are being deleted.
    pub void: usize,
    /// Shards of others of which it keeps a copy, complete or not.
    pub kept: usize,
    /// Shards of its own of which another member keeps a complete copy.
    pub copied: usize,
}

/// What a member has received and lost since it started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Items that were copied to it.
    pub copied_items: u64,
    /// Bytes of their keys and values, and of what belongs to them.
    pub copied_bytes: u64,
    /// Shards that were handed over to it.
    pub received_shards: u64,
    /// Hand-overs of a shard that did not succeed.
    pub failed_handovers: u64,
    /// Shards that begin empty here since their owner had died.
    pub lost_shards: u64,
    /// Shards whose owner had died and whose copy, which it kept, it serves since.
    pub promoted_shards: u64,
    /// Copies of its shards that were begun again, since their keeper did not follow.
    pub restarted_copies: u64,
}

/// The registry, as a member sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RegistryHealth {
    /// Time of the last answer, on the clock of the cores; `None`: there was none.
    pub answered_at: Option<Ns>,
    /// Requests without an answer since then.
    pub failures: u64,
    /// Whether another member has this one's name.
    pub name_taken: bool,
}
