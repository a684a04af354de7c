//! The bytes of a [`Map`], as the registry keeps them. Little-endian.
//!
//! | field | bytes | |
//! |---|---|---|
//! | version | `u16` | of this format: 2, or 1 if there are neither copies nor names of drained members |
//! | epoch | `u64` | 1 to [`Epoch::MAX`] |
//! | members | count `u16`, then each: [`Advert`](crate::Advert), incarnation `u64`, [`Standing`](super::Standing) `u8` | names differ |
//! | shards | count `u16`, then each: index of the owner `u16` (65535: none), tenure `u64` | tenures are not after the epoch |
//! | moves | count `u16`, then each: shard `u16`, index of the next owner `u16`, tenure `u64` | in the order of shards |
//! | copies | count `u16`, then each: shard `u16`, index of the keeper `u16`, tenure `u64`, whether it is complete `u8` | in the order of shards; only in version 2 |
//! | drained | count `u16`, then each: name with a length of two bytes | no member has it; only in version 2 |
//!
//! Programs that know version 1 alone understand the maps of services without the last two.

use super::{Copy, MEMBERS_MAX, MOVES_MAX, Map, MapMember, Move, Tenure};
use crate::member::{ADDRESS_BYTES_MAX, ADDRESSES_MAX, NAME_BYTES_MAX};
use crate::{Epoch, SHARD_COUNT, ShardId};
use drover_control::{DecodeError, Field, Reader, ShortText, Writer};
use std::sync::Arc;

/// Version of the format. A member of an older version refuses the map, and serves what it knew for as long as its lease lasts.
const VERSION: u16 = 2;
/// Version of maps that end with moves.
const WITHOUT_COPIES: u16 = 1;
/// In place of an owner, where there is none.
const NO_OWNER: u16 = u16::MAX;

const MEMBER_BYTES_MAX: usize = 2 + NAME_BYTES_MAX + 4 + 1 + ADDRESSES_MAX * 2 + ADDRESS_BYTES_MAX + 8 + 1;
/// Most bytes of a map: far less than the 1.5 MiB that etcd takes in a request.
const MAP_BYTES_MAX: usize = 128 << 10;
const _: () = assert!(
    20 + MEMBERS_MAX * (MEMBER_BYTES_MAX + 2 + NAME_BYTES_MAX) + SHARD_COUNT * (10 + 13) + MOVES_MAX * 12
        <= MAP_BYTES_MAX,
    "the largest map is within its bounds"
);

/// Reasons why bytes are no map.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadMapBytes {
    /// They are of another version.
    #[error("the map has version {version}; this program knows {VERSION}")]
    Version {
        /// The version.
        version: u16,
    },
    /// They are malformed, or contradict themselves.
    #[error("the map is malformed: {0}")]
    Malformed(#[from] DecodeError),
}

impl Map {
    /// The bytes of the map: some 120 KB at the most, 10 for each shard and 13 for each copy.
    pub fn to_bytes(&self) -> Vec<u8> {
        let has_more = self.copies.iter().any(Option::is_some) || !self.drained.is_empty();
        let mut to = Writer::new();
        to.u16(if has_more { VERSION } else { WITHOUT_COPIES });
        self.encode(&mut to);
        if has_more {
            self.encode_copies(&mut to);
            to.u16(self.drained.len() as u16);
            for name in &self.drained {
                ShortText::<NAME_BYTES_MAX>::encode(name, &mut to);
            }
        }
        to.into_parts().0
    }

    /// The map that `bytes` say.
    ///
    /// # Errors
    /// [`BadMapBytes`] for any other bytes than those of a sound map.
    pub fn from_bytes(bytes: &[u8]) -> Result<Map, BadMapBytes> {
        let mut from = Reader::new(bytes, &[]);
        let version = from.u16()?;
        if !(WITHOUT_COPIES..=VERSION).contains(&version) {
            return Err(BadMapBytes::Version { version });
        }
        let mut map = Map::decode(&mut from)?;
        if version == VERSION {
            map.decode_copies(&mut from)?;
            map.drained = list(&mut from, "number of drained members", 0..=MEMBERS_MAX, |from| {
                let name = ShortText::<NAME_BYTES_MAX>::decode(from, "length of a drained member's name")?;
                Ok(name.into())
            })?;
        }
        from.finish()?;
        map.check()?;
        Ok(map)
    }

    /// What no field can be checked for alone.
    fn check(&self) -> Result<(), DecodeError> {
        let unsound = |field, value| Err(DecodeError::Value { field, value });
        let names = self.members.iter().map(|listed| listed.member.advert.name());
        let mut names: Vec<_> = names.collect();
        names.sort();
        let is_listed = |name: &&Arc<str>| names.binary_search(name).is_ok();
        if let Some(index) = self.drained.iter().position(|name| is_listed(&name)) {
            return unsound("a drained member that is there", index as u64);
        }
        if let Some(index) = names.windows(2).position(|pair| pair[0] == pair[1]) {
            return unsound("a name that two members have", index as u64);
        }
        let is_member = |index: u16| usize::from(index) < self.members.len();
        for tenure in &self.shards {
            match tenure.owner {
                Some(owner) if !is_member(owner) => return unsound("owner of a shard", owner.into()),
                _ if tenure.since > self.epoch => return unsound("tenure of a shard", tenure.since.0),
                _ => {}
            }
        }
        let mut after = None;
        for moving in &self.moves {
            let Some(now) = self.shards.get(moving.shard.index()) else {
                return unsound("shard that moves", moving.shard.0.into());
            };
            if after >= Some(moving.shard) {
                return unsound("order of shards that move", moving.shard.0.into());
            }
            if !is_member(moving.to) || now.owner.is_none_or(|owner| owner == moving.to) {
                return unsound("next owner of a shard", moving.to.into());
            }
            if moving.tenure > self.epoch || moving.tenure <= now.since {
                return unsound("tenure of a shard that moves", moving.tenure.0);
            }
            if self
                .copy(moving.shard)
                .is_some_and(|copy| copy.keeper == moving.to)
            {
                return unsound("next owner that keeps a copy", moving.to.into());
            }
            after = Some(moving.shard);
        }
        for (now, copy) in self.shards.iter().zip(&self.copies) {
            let Some(copy) = copy else { continue };
            if !is_member(copy.keeper) || now.owner.is_none_or(|owner| owner == copy.keeper) {
                return unsound("keeper of a copy", copy.keeper.into());
            }
            if copy.tenure > self.epoch || copy.tenure <= now.since {
                return unsound("tenure of a copy", copy.tenure.0);
            }
        }
        Ok(())
    }

    fn encode(&self, to: &mut Writer) {
        to.u64(self.epoch.0).u16(self.members.len() as u16);
        for member in &self.members {
            member.encode(to);
        }
        to.u16(self.shards.len() as u16);
        for tenure in &self.shards {
            to.u16(tenure.owner.unwrap_or(NO_OWNER)).u64(tenure.since.0);
        }
        to.u16(self.moves.len() as u16);
        for moving in &self.moves {
            to.u16(moving.shard.0).u16(moving.to).u64(moving.tenure.0);
        }
    }

    fn encode_copies(&self, to: &mut Writer) {
        let copies = self.shards().zip(&self.copies);
        let copies: Vec<_> = copies
            .filter_map(|(shard, copy)| Some((shard, (*copy)?)))
            .collect();
        to.u16(copies.len() as u16);
        for (shard, copy) in copies {
            to.u16(shard.0).u16(copy.keeper).u64(copy.tenure.0);
            to.bool(copy.is_complete);
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Map, DecodeError> {
        let epoch = Epoch(from.u64()?);
        if !(Epoch(1)..=Epoch::MAX).contains(&epoch) {
            let (field, value) = ("epoch of the map", epoch.0);
            return Err(DecodeError::Value { field, value });
        }
        let members = list(from, "number of members", 0..=MEMBERS_MAX, |from| {
            MapMember::decode(from, "member")
        })?;
        let shards = list(from, "number of shards", 1..=SHARD_COUNT, |from| {
            let owner = Some(from.u16()?).filter(|owner| *owner != NO_OWNER);
            let since = Epoch(from.u64()?);
            Ok(Tenure { owner, since })
        })?;
        let moves = list(from, "number of moves", 0..=MOVES_MAX, |from| {
            let (shard, to, tenure) = (ShardId(from.u16()?), from.u16()?, Epoch(from.u64()?));
            Ok(Move { shard, to, tenure })
        })?;
        Ok(Map {
            epoch,
            members,
            copies: vec![None; shards.len()],
            shards,
            moves,
            drained: Vec::new(),
        })
    }

    fn decode_copies(&mut self, from: &mut Reader<'_>) -> Result<(), DecodeError> {
        let copies = list(from, "number of copies", 0..=SHARD_COUNT, |from| {
            let shard = ShardId(from.u16()?);
            let (keeper, tenure) = (from.u16()?, Epoch(from.u64()?));
            let is_complete = from.bool("whether a copy is complete")?;
            let copy = Copy {
                keeper,
                tenure,
                is_complete,
            };
            Ok((shard, copy))
        })?;
        if !copies.is_sorted_by(|(a, _), (b, _)| a < b) {
            let (field, value) = ("order of copies", copies.len() as u64);
            return Err(DecodeError::Value { field, value });
        }
        for (shard, copy) in copies {
            let (field, value) = ("shard of a copy", shard.0.into());
            let place = self.copies.get_mut(shard.index());
            *place.ok_or(DecodeError::Value { field, value })? = Some(copy);
        }
        Ok(())
    }
}

/// A count (`u16`) and so many values. The count is checked before anything is read.
fn list<T>(
    from: &mut Reader<'_>,
    field: &'static str,
    counts: std::ops::RangeInclusive<usize>,
    mut one: impl FnMut(&mut Reader<'_>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let count = from.u16()?;
    if !counts.contains(&usize::from(count)) {
        let value = count.into();
        return Err(DecodeError::Value { field, value });
    }
    (0..count).map(|_| one(from)).collect()
}

/// For fuzzing: any bytes are refused, or say a map that comes back from its own bytes.
///
/// # Panics
/// If it does not.
pub fn fuzz_map(bytes: &[u8]) {
    if let Ok(map) = Map::from_bytes(bytes) {
        assert_eq!(Map::from_bytes(&map.to_bytes()), Ok(map.clone()));
        for shard in map.shards() {
            let _ = (map.owner(shard), map.moving(shard), map.counts());
        }
    }
}
