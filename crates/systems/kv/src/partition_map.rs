//! [`PartitionMap`]: which shard owns a key.
//!
//! A key's hash names its partition, and the map names the shard that owns the partition. Servers send clients their map;
//! a shard that is asked for a key of another one says so, with the epoch of its own map. Encoded as the epoch (`u64`),
//! the number of partitions (`u16`), and the owner of each (`u16`).

use drover_base::KeyHash;
use drover_control::{DecodeError, Field, Reader, Writer};

/// Most partitions of a service: as many as its shards need to move a few percent of the keys at a time. *(our choice)*
pub const PARTITIONS_MAX: usize = 4096;

/// Which shard owns each partition of a service, as of an epoch. A later map has a higher epoch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionMap {
    epoch: u64,
    owners: Box<[u16]>,
}

/// Why a map is not used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadMap {
    /// It has no partitions, or too many.
    #[error("it has {count} partitions, not 1 to {PARTITIONS_MAX}")]
    Partitions {
        /// Number of partitions.
        count: usize,
    },
    /// It has no epoch: epochs begin with 1.
    #[error("its epoch is 0")]
    NoEpoch,
    /// A partition is owned by a shard that the service does not have.
    #[error("partition {partition} belongs to shard {owner} of {shard_count}")]
    Owner {
        /// Index of the partition.
        partition: usize,
        /// Index of its owner.
        owner: u16,
        /// Number of shards.
        shard_count: usize,
    },
    /// It is not newer than the one in use.
    #[error("its epoch is {epoch}, after epoch {current}")]
    Older {
        /// The epoch.
        epoch: u64,
        /// Epoch of the map in use.
        current: u64,
    },
}

impl PartitionMap {
    /// The first map of a service, epoch 1: one partition per shard.
    ///
    /// # Panics
    /// If the number of shards is not 1 to [`PARTITIONS_MAX`].
    pub fn even(shard_count: usize) -> PartitionMap {
        let owners = (0..shard_count).map(|shard| shard as u16).collect();
        PartitionMap::new(1, owners).expect("1 to PARTITIONS_MAX shards")
    }

    /// A map whose partition `i` belongs to shard `owners[i]`.
    ///
    /// # Errors
    /// [`BadMap`]: no partitions, too many of them, or epoch 0.
    pub fn new(epoch: u64, owners: Vec<u16>) -> Result<PartitionMap, BadMap> {
        let count = owners.len();
        if count == 0 || count > PARTITIONS_MAX {
            return Err(BadMap::Partitions { count });
        }
        if epoch == 0 {
            return Err(BadMap::NoEpoch);
        }
        Ok(PartitionMap {
            epoch,
            owners: owners.into(),
        })
    }

    /// Index of the shard that owns the key with this hash.
    #[inline]
    pub fn owner(&self, hash: KeyHash) -> usize {
        usize::from(self.owners[hash.partition_index(self.owners.len())])
    }

    /// Epoch of the map, from 1.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Owners of the partitions, in their order.
    pub fn owners(&self) -> &[u16] {
        &self.owners
    }

    /// Checks the map of a service of `shard_count` shards that comes after `current`, if there is one.
    ///
    /// # Errors
    /// [`BadMap`]: an owner does not exist, or the epoch is not higher.
    pub fn check(&self, shard_count: usize, current: Option<&PartitionMap>) -> Result<(), BadMap> {
        let mut owners = self.owners.iter().enumerate();
        if let Some((partition, owner)) = owners.find(|(_, owner)| usize::from(**owner) >= shard_count) {
            return Err(BadMap::Owner {
                partition,
                owner: *owner,
                shard_count,
            });
        }
        match current.map(|current| current.epoch) {
            Some(current) if self.epoch <= current => Err(BadMap::Older {
                epoch: self.epoch,
                current,
            }),
            _ => Ok(()),
        }
    }
}

impl Field for PartitionMap {
    fn encode(&self, to: &mut Writer) {
        to.u64(self.epoch).u16(self.owners.len() as u16);
        for owner in &self.owners {
            to.u16(*owner);
        }
    }

    fn decode(from: &mut Reader<'_>, _: &'static str) -> Result<PartitionMap, DecodeError> {
        let (epoch, count) = (from.u64()?, from.u16()?);
        let unusable = |field, value| DecodeError::Value { field, value };
        // Before as many are read.
        if usize::from(count) > PARTITIONS_MAX {
            return Err(unusable("number of partitions", count.into()));
        }
        let owners = (0..count).map(|_| from.u16()).collect::<Result<_, _>>()?;
        PartitionMap::new(epoch, owners).map_err(|error| match error {
            BadMap::NoEpoch => unusable("epoch of the partition map", epoch),
            _ => unusable("number of partitions", count.into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_base::HashSeed;
    use drover_control::{Frame, Message};

    struct Update {
        map: PartitionMap,
    }

    drover_control::message!(20 => Update { map });

    fn decoded(body: Vec<u8>) -> Result<PartitionMap, DecodeError> {
        let (kind, fds) = (Update::KIND, Vec::new());
        Ok(Frame { kind, body, fds }.decode::<Update>()?.map)
    }

    fn encoded(map: &PartitionMap) -> Vec<u8> {
        let mut to = Writer::new();
        Field::encode(map, &mut to);
        to.finish().expect("a short body").0
    }

    fn map(epoch: u64, owners: &[u16]) -> PartitionMap {
        PartitionMap::new(epoch, owners.to_vec()).expect("a sound map")
    }

    #[test]
    fn the_first_map_gives_every_shard_its_share() {
        let hasher = HashSeed::new(1, 2).hasher();
        for shard_count in [1, 2, 3, 240] {
            let map = PartitionMap::even(shard_count);
            assert_eq!(map.check(shard_count, None), Ok(()));
            for key in 0..1000u32 {
                let hash = hasher.hash(&key.to_le_bytes());
                assert_eq!(map.owner(hash), hash.partition_index(shard_count));
            }
        }
        let finer = map(2, &[0, 0, 1, 0]);
        let owned = (0..1000u32).filter(|key| finer.owner(hasher.hash(&key.to_le_bytes())) == 1);
        assert!((200..300).contains(&owned.count()));
    }

    #[test]
    fn maps_come_back_as_they_were() {
        for map in [
            map(1, &[0]),
            map(u64::MAX, &[3, 1, 2]),
            map(7, &[9; PARTITIONS_MAX]),
        ] {
            assert_eq!(decoded(encoded(&map)), Ok(map));
        }
    }

    #[test]
    fn hostile_maps_are_refused() {
        let body = |epoch: u64, count: u16, owners: &[u16]| {
            let owners = owners.iter().flat_map(|owner| owner.to_le_bytes());
            let head = [&epoch.to_le_bytes()[..], &count.to_le_bytes()].concat();
            head.into_iter().chain(owners).collect::<Vec<u8>>()
        };
        assert_eq!(decoded(body(1, 2, &[1, 0])), Ok(map(1, &[1, 0])));
        for (bytes, text) in [
            (body(1, 0, &[]), "number of partitions cannot be 0"),
            (body(0, 1, &[0]), "epoch of the partition map cannot be 0"),
            (body(1, u16::MAX, &[0]), "number of partitions cannot be 65535"),
            (
                body(1, 3, &[0, 0]),
                "the message ends after 14 bytes, inside a field",
            ),
        ] {
            assert_eq!(decoded(bytes).expect_err("refused").to_string(), text);
        }
        let current = map(5, &[0, 1]);
        assert_eq!(map(6, &[1, 0]).check(2, Some(&current)), Ok(()));
        for (bad, text) in [
            (map(6, &[0, 2]), "partition 1 belongs to shard 2 of 2"),
            (map(5, &[1, 0]), "its epoch is 5, after epoch 5"),
            (map(4, &[0, 1]), "its epoch is 4, after epoch 5"),
        ] {
            assert_eq!(
                bad.check(2, Some(&current)).expect_err("refused").to_string(),
                text
            );
        }
    }
}
