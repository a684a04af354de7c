//! [`Record`]: the description stored next to a memory file while the file is not in use.
//!
//! | word | field |
//! |---|---|
//! | 0 | [`MAGIC`] |
//! | 1 | [`FORMAT`]: changes whenever items, index or this table change |
//! | 2 | number of partitions |
//! | 3 | 0 = FIFO cache, 1 = store mode, 2 = S3-FIFO cache, 3 = LRU cache |
//! | 4, 5 | log bytes and buckets of each partition |
//! | 6 | bytes of the file per partition |
//! | 7 | bytes of the longest value |
//! | 8 | hash of keys: 0 = XXH3, 1 = AES |
//! | 9, 10 | hash seed |
//! | 11 | start of counting seconds, in seconds since 1970 |
//! | 12 | time of writing, in seconds since 1970 |
//! | 13 + 19 i | partition i: of the main log tail, bytes in use, bytes of items and end; of the small log the first three; the three numbers of the index's spread, and the wanted number of buckets; version, reach, first free spare bucket, items, clock of the ghosts, second to clear it in (2^64 - 1: never), digests of index and items |
//! | last | digest of all words before it |
//!
//! Words of 8 bytes, little-endian.

use crate::frozen::{Digest, Doubt, Frozen};
use crate::{Eviction, Mode, PartitionOptions};
use drover_base::{HashKind, HashSeed};

pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"drovwarm");
pub(crate) const FORMAT: u64 = 7;

/// Words before the first partition.
const HEAD_WORDS: usize = 13;

/// Settings of a file, existing or wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    pub(crate) partitions: u64,
    pub(crate) mode: u64,
    pub(crate) log_bytes: u64,
    pub(crate) bucket_count: u64,
    pub(crate) part_bytes: u64,
    pub(crate) value_bytes_max: u64,
}

impl Shape {
    pub(crate) fn new(options: &PartitionOptions, partitions: usize, part_bytes: usize) -> Shape {
        Shape {
            partitions: partitions as u64,
            mode: match options.mode {
                Mode::Cache {
                    eviction: Eviction::Fifo,
                } => 0,
                Mode::Store => 1,
                Mode::Lru => 3,
                Mode::Cache {
                    eviction: Eviction::S3Fifo,
                } => 2,
            },
            log_bytes: options.log_bytes as u64,
            bucket_count: options.bucket_count as u64,
            part_bytes: part_bytes as u64,
            value_bytes_max: options.value_bytes_max as u64,
        }
    }

    /// Checks whether a file of this shape can be used as `wanted`.
    pub(crate) fn check(&self, wanted: &Shape) -> Result<(), Doubt> {
        let fields = |shape: &Shape| {
            [
                ("the number of partitions", shape.partitions),
                (
                    "the mode (0 FIFO cache, 1 store, 2 S3-FIFO cache, 3 LRU cache)",
                    shape.mode,
                ),
                ("the memory for items", shape.log_bytes),
                ("the number of buckets", shape.bucket_count),
                ("the length of a partition", shape.part_bytes),
                ("the longest value", shape.value_bytes_max),
            ]
        };
        for ((what, was), (_, is)) in fields(self).into_iter().zip(fields(wanted)) {
            if was != is {
                return Err(Doubt::Differs { what, was, is });
            }
        }
        Ok(())
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    pub(crate) shape: Shape,
    pub(crate) seed: HashSeed,
    pub(crate) start_unix_s: u64,
    pub(crate) stop_unix_s: u64,
    pub(crate) frozen: Vec<Frozen>,
}

impl Record {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let (k0, k1) = self.seed.halves();
        let shape = &self.shape;
        let mut words = vec![
            MAGIC,
            FORMAT,
            shape.partitions,
            shape.mode,
            shape.log_bytes,
            shape.bucket_count,
            shape.part_bytes,
            shape.value_bytes_max,
            self.seed.kind().number().into(),
            k0,
            k1,
            self.start_unix_s,
            self.stop_unix_s,
        ];
        words.extend(self.frozen.iter().flat_map(|frozen| frozen.to_words()));
        words.push(digest(&words));
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// Decodes and checks `bytes`, which may be arbitrary.
    ///
    /// # Errors
    /// [`Doubt`] with the first fault found.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Record, Doubt> {
        let (chunks, rest) = bytes.as_chunks::<8>();
        let words: Vec<u64> = chunks.iter().map(|chunk| u64::from_le_bytes(*chunk)).collect();
        let Some((last, words)) = words.split_last().filter(|_| rest.is_empty()) else {
            return Err(Doubt::Record("cut off"));
        };
        let Some((head, parts)) = words.split_first_chunk::<HEAD_WORDS>() else {
            return Err(Doubt::Record("cut off"));
        };
        let [
            magic,
            format,
            partitions,
            mode,
            log_bytes,
            bucket_count,
            part_bytes,
            value_bytes_max,
            hash,
            k0,
            k1,
            start,
            stop,
        ] = *head;
        if magic != MAGIC {
            return Err(Doubt::Record("no description of a memory file"));
        }
        if format != FORMAT {
            return Err(Doubt::Record("in the format of another version"));
        }
        if digest(words) != *last {
            return Err(Doubt::Record("damaged: its checksum is wrong"));
        }
        let (parts, rest) = parts.as_chunks::<{ Frozen::WORDS }>();
        if parts.len() as u64 != partitions || !rest.is_empty() || mode > 3 || stop < start {
            return Err(Doubt::Record("inconsistent"));
        }
        let hash = HashKind::from_number(hash).ok_or(Doubt::Record("inconsistent"))?;
        Ok(Record {
            shape: Shape {
                partitions,
                mode,
                log_bytes,
                bucket_count,
                part_bytes,
                value_bytes_max,
            },
            seed: HashSeed::of(hash, k0, k1),
            start_unix_s: start,
            stop_unix_s: stop,
            frozen: parts.iter().map(|words| Frozen::from_words(*words)).collect(),
        })
    }
}

fn digest(words: &[u64]) -> u64 {
    let mut digest = Digest::NEW;
    words.iter().for_each(|word| digest.add(*word));
    digest.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(partitions: u64) -> Record {
        Record {
            shape: Shape {
                partitions,
                mode: 1,
                log_bytes: 1 << 20,
                bucket_count: 64,
                part_bytes: 2 << 20,
                value_bytes_max: 1 << 20,
            },
            seed: HashSeed::of(HashKind::Aes, 3, 4),
            start_unix_s: 100,
            stop_unix_s: 200,
            frozen: (0..partitions)
                .map(|i| {
                    let never = [u64::MAX, 7][i as usize % 2];
                    Frozen::from_words([
                        8 * i,
                        i,
                        6,
                        9,
                        64,
                        1,
                        7,
                        2,
                        3,
                        4,
                        5,
                        i,
                        3,
                        4,
                        5,
                        7,
                        never,
                        !i,
                        i << 32,
                    ])
                })
                .collect(),
        }
    }

    #[test]
    fn a_record_comes_back() {
        for partitions in [0, 1, 5] {
            let record = record(partitions);
            assert_eq!(Record::from_bytes(&record.to_bytes()), Ok(record));
        }
    }

    #[test]
    fn every_cut_and_every_flipped_bit_is_noticed() {
        let bytes = record(2).to_bytes();
        for len in 0..bytes.len() {
            assert!(Record::from_bytes(&bytes[..len]).is_err(), "{len} bytes");
        }
        for at in 0..bytes.len() * 8 {
            let mut other = bytes.clone();
            other[at / 8] ^= 1 << (at % 8);
            assert!(Record::from_bytes(&other).is_err(), "bit {at}");
        }
        let longer = [bytes.as_slice(), &[0; 8]].concat();
        assert!(Record::from_bytes(&longer).is_err());
    }

    #[test]
    fn what_is_wrong_is_said() {
        type Change = fn(&mut Vec<u64>);
        let said = |change: Change| {
            let bytes = record(1).to_bytes();
            let mut words: Vec<u64> = bytes
                .as_chunks::<8>()
                .0
                .iter()
                .map(|w| u64::from_le_bytes(*w))
                .collect();
            words.pop();
            change(&mut words);
            words.push(digest(&words));
            let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
            Record::from_bytes(&bytes).map_err(|doubt| doubt.to_string())
        };
        assert!(said(|_| ()).is_ok());
        let damaged: [(Change, &str); 7] = [
            (
                |w| w[0] += 1,
                "its description is no description of a memory file",
            ),
            (
                |w| w[1] += 1,
                "its description is in the format of another version",
            ),
            (|w| w[2] += 1, "its description is inconsistent"),
            (|w| w[3] = 4, "its description is inconsistent"),
            (|w| w[8] = 2, "its description is inconsistent"),
            (|w| w[12] = 0, "its description is inconsistent"),
            (|w| w.push(0), "its description is inconsistent"),
        ];
        for (change, want) in damaged {
            assert_eq!(said(change), Err(want.to_owned()));
        }
    }

    #[test]
    fn a_file_of_another_shape_is_not_used() {
        let was = record(2).shape;
        assert_eq!(was.check(&was), Ok(()));
        let others: [fn(&mut Shape); 6] = [
            |s| s.partitions += 1,
            |s| s.mode = 2,
            |s| s.log_bytes *= 2,
            |s| s.bucket_count *= 2,
            |s| s.part_bytes *= 2,
            |s| s.value_bytes_max -= 1,
        ];
        for change in others {
            let mut wanted = was;
            change(&mut wanted);
            assert!(
                matches!(was.check(&wanted), Err(Doubt::Differs { .. })),
                "{wanted:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn anything_is_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(Record::from_bytes(&bytes).is_err());
        }
    }
}
