//! [`Map`]: which member owns each shard, and which shards are about to change hands, and who keeps a copy.

mod codec;
mod draft;

use crate::{Epoch, Member, MemberId, SHARD_COUNT, ShardId};
use drover_control::{DecodeError, Field, Reader, Writer};
use std::sync::Arc;

pub use codec::{BadMapBytes, fuzz_map};
pub use draft::Draft;

/// Most members of a service. *(our choice: with the bounds of their names and addresses it bounds a map's bytes)*
pub const MEMBERS_MAX: usize = 64;
/// Most shards that move at a time. *(our choice, as above)*
pub const MOVES_MAX: usize = 256;

/// Whether a member takes shards that others have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It is new: shards that want it come to it, until it has its share.
    Joining,
    /// It keeps what it has.
    Settled,
    /// An operator wants it to give all its shards away.
    Draining,
}

/// Encoded as a `u8`: 0 joining, 1 settled, 2 draining.
impl Field for Standing {
    fn encode(&self, to: &mut Writer) {
        to.u8(*self as u8);
    }

    fn decode(from: &mut Reader<'_>, field: &'static str) -> Result<Standing, DecodeError> {
        match from.u8()? {
            0 => Ok(Standing::Joining),
            1 => Ok(Standing::Settled),
            2 => Ok(Standing::Draining),
            value => Err(DecodeError::Value {
                field,
                value: value.into(),
            }),
        }
    }
}

/// A member in a map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MapMember {
    /// The member.
    pub member: Member,
    /// Whether it takes shards that others have.
    pub standing: Standing,
}

drover_control::fields!(MapMember { member, standing });

/// How a shard is owned: by whom, and since when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tenure {
    /// Index of the owner among the map's members. `None`: a hole, a shard that nobody serves.
    pub owner: Option<u16>,
    /// Epoch of the map that planned this tenure: the one that began the move, or that gave the shard to its owner without
    /// items. No two tenures of a shard have the same, so a member that missed maps can tell whether its items are valid.
    pub since: Epoch,
}

/// A shard that is being handed over. Its owner serves it until the new one has everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// The shard.
    pub shard: ShardId,
    /// Index of the next owner.
    pub to: u16,
    /// [`Tenure::since`] of the next owner: the epoch of the map that began the move.
    pub tenure: Epoch,
}

/// The copy of a shard that another member than its owner keeps, so that the shard outlives its owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Copy {
    /// Index of the member that keeps it, its keeper.
    pub keeper: u16,
    /// Epoch of the map that began the copy, or began it again. If the copy is promoted, this is the tenure of its keeper:
    /// [`Tenure::since`].
    pub tenure: Epoch,
    /// Whether it has everything that the owner has acknowledged. No other copy is promoted.
    pub is_complete: bool,
}

/// Which member owns each shard of a service, as of an epoch. Immutable; [`Draft`] makes the next one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Map {
    epoch: Epoch,
    members: Vec<MapMember>,
    shards: Vec<Tenure>,
    /// In the order of shards.
    moves: Vec<Move>,
    /// By shard.
    copies: Vec<Option<Copy>>,
    /// Names of drained members that are not there, the oldest first.
    drained: Vec<Arc<str>>,
}

impl Map {
    /// What stands for a map before there is one: epoch 0, no members, and nothing but holes.
    ///
    /// # Panics
    /// If the number of shards is not 1 to [`SHARD_COUNT`].
    pub fn none(shard_count: usize) -> Arc<Map> {
        assert!((1..=SHARD_COUNT).contains(&shard_count), "{shard_count} shards");
        let hole = Tenure {
            owner: None,
            since: Epoch::NONE,
        };
        Arc::new(Map {
            epoch: Epoch::NONE,
            members: Vec::new(),
            shards: vec![hole; shard_count],
            moves: Vec::new(),
            copies: vec![None; shard_count],
            drained: Vec::new(),
        })
    }

    /// Epoch of the map.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Members, by index.
    pub fn members(&self) -> &[MapMember] {
        &self.members
    }

    /// Number of shards.
    pub fn shard_count(&self) -> usize {
        self.shards.len()
    }

    /// All shards, in order.
    pub fn shards(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..self.shards.len() as u16).map(ShardId)
    }

    /// How a shard is owned.
    ///
    /// # Panics
    /// If the map has no such shard.
    #[inline]
    pub fn tenure(&self, shard: ShardId) -> Tenure {
        self.shards[shard.index()]
    }

    /// Owner of a shard, if it has one.
    pub fn owner(&self, shard: ShardId) -> Option<&Member> {
        let owner = self.shards.get(shard.index())?.owner?;
        Some(&self.members[usize::from(owner)].member)
    }

    /// Shards that are being handed over, in order.
    pub fn moves(&self) -> &[Move] {
        &self.moves
    }

    /// The move of a shard, if it is being handed over.
    pub fn moving(&self, shard: ShardId) -> Option<Move> {
        let found = self.moves.binary_search_by_key(&shard, |moving| moving.shard);
        found.ok().map(|index| self.moves[index])
    }

    /// The copy of a shard that another member keeps, if there is one.
    pub fn copy(&self, shard: ShardId) -> Option<Copy> {
        self.copies.get(shard.index()).copied().flatten()
    }

    /// Names of members that were drained when they left, and are so when they come back, the one that left first before the others.
    pub fn drained(&self) -> &[Arc<str>] {
        &self.drained
    }

    /// Index of a member.
    pub fn index_of(&self, id: &MemberId) -> Option<u16> {
        let found = self.members.iter().position(|listed| listed.member.is(id));
        found.map(|index| index as u16)
    }

    /// Number of shards that each member owns, by index.
    pub fn counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.members.len()];
        for owner in self.shards.iter().filter_map(|tenure| tenure.owner) {
            counts[usize::from(owner)] += 1;
        }
        counts
    }
}
