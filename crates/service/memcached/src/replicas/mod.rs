//! Replicas, as the cores see them: each core sends the *present state* of the keys that it has changed to the cores that keep copies of
//! their shards, and lets no reply leave before they have it.
//!
//! ```text
//!  owner's core                                                    keeper's core
//!  names of changed keys --sort--> Channel --one message at a time--> its partition
//!    (noted before a change)          ^                                   |
//!  names found by a scan (filling) ---'<--- taken, or not now: the names --'
//!                                           go back and are looked up again
//! ```
//! - A [`Channel`](channel) leads from one core to one core of a member that keeps copies. Keys that change while its message is under way wait.
//!   They are looked up when they are sent, so a lost message needs no copy, order between keys does not matter, and all may come twice.
//! - A change of a shard with a *gated* copy **holds** its core: until the keeper has taken it, the core executes no request and no reply leaves
//!   ([`ServedShards::is_held`](drover_cluster::ServedShards::is_held)). That is group commit: one round trip for all changes of a step.
//! - While a copy is *filled*, changes are sent and hold nothing.
//! - If the shard is not this member's any more while the core is held, the replies are [void](Hold::Void): its next owner may have something else.
//! - The keeper takes entries of a shard only for the tenure of the copy that its table names, and no message twice or late.
//!
//! Messages have a head as in [`forward`](crate::forward), whose hash is zero. They come only over links [for
//! copies](Source::Copies), and nothing else does.
//!
//! | kind | body | what the core does | number in the reply |
//! |---|---|---|---|
//! | `c` | see below | takes the state of keys into the copies that it keeps | 1: taken, but for the shards that follow the head (2 each); 0: nothing, the message is late |
//! | `i` | set of shards, cursor (8) | of its own member: looks for items of these shards, from a cursor on, and sends them to their keepers | next cursor, or the same one: too much is waiting already. [`END`](crate::handover::END): there is no more |
//! | `q` | set of shards, mark (8) | of its own member: says whether all that it knew of these shards when it got this mark first has been taken | 1: yes; 0: not yet; 2: it gave up, the copies must begin again |
//!
//! Sets of shards, entries and the head of replies are those of [hand-overs](crate::handover). The body of `c`:
//!
//! | offset | size | field | |
//! |---|---|---|---|
//! | 0 | 8 | life | of the process that sends it, random |
//! | 8 | 2 | core | that sends it |
//! | 10 | 2 | cores | of its member |
//! | 12 | 8 | number | above that of every earlier message of this life and core |
//! | 20 | 8 | version | of the core's partition: the keeper's goes on above it, so no CAS number comes twice after a promotion |
//! | 28 | 2 | shards | how many follow |
//! | 30 | 11 each | shard (2), tenure of its copy (8), flushed (1) | 1: first delete all items of this shard that are the sender's, by their hashes |
//! | then | | entries | items, and names of those that are gone |
//!
//! Numbers are little-endian. A message has at most [`PAGE_BYTES`](crate::handover::PAGE_BYTES) of entries, or one longer item.
//!
//! What a step costs, however many channels there are: with a copy, a look-up and a copy of each item that has changed, and two system calls for each keeper's core. Without replicas, one
//! comparison.

mod changes;
mod channel;
mod channels;
mod execute;
mod flush;
mod keeper;
mod message;
mod replicator;
mod step;

pub(crate) use message::is_of_copies;
pub use message::{drained_message, fill_message};
pub use step::Hold;

pub(crate) use keeper::Keeper;
pub(crate) use replicator::Replicator;

use crate::Core;
use drover_base::Ns;

/// What a core of a member with replicas has besides.
pub(crate) struct Replicas {
    /// Sends copies.
    pub(crate) replicator: Replicator,
    /// Takes copies of others.
    pub(crate) keeper: Keeper,
}

impl Core {
    /// Makes the core of a member one that sends what it changes to the members that keep copies, and keeps copies for others. `life` is a random
    /// number of this process.
    ///
    /// # Panics
    /// If it is no core [of a member](Core::of_member).
    pub fn with_replicas(mut self, life: u64) -> Core {
        let member = self.member.as_mut().expect("a core of a member");
        member.replicas = Some(Box::new(Replicas {
            replicator: Replicator::new(member.shards.clone(), member.index, life, member.counters.clone()),
            keeper: Keeper::default(),
        }));
        self
    }

    /// When the core must be stepped again for what it could not send so far; [`Ns::MAX`]: not for that.
    pub fn copies_due(&self) -> Ns {
        self.replicas()
            .map_or(Ns::MAX, |replicas| replicas.replicator.due_at())
    }

    /// Whether the core is [held](drover_cluster::ServedShards::is_held).
    pub fn is_held(&self) -> bool {
        let member = self.member.as_ref();
        member.is_some_and(|member| member.shards.is_held(member.index))
    }

    pub(crate) fn replicas(&self) -> Option<&Replicas> {
        self.member.as_ref()?.replicas.as_deref()
    }

    pub(crate) fn replicas_mut(&mut self) -> Option<&mut Replicas> {
        self.member.as_mut()?.replicas.as_deref_mut()
    }

    /// A step has panicked, and the core's partition is another one, without items: what it kept for others is lost, and nothing that waits
    /// to be acknowledged may be.
    pub(crate) fn replicas_replaced(&mut self) {
        let epoch = self.member.as_ref().map(|member| member.shards.epoch());
        if let (Some(replicas), Some(epoch)) = (self.replicas_mut(), epoch) {
            replicas.keeper.lost_all(epoch);
            replicas.replicator.restarted();
        }
    }
}
