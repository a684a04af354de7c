//! [`Header`]: what stands in the first chunk of a node, and where the tables behind it are.
//!
//! ```text
//! chunk 0   header and roots          chunk 1..   client table, a line per client
//!                                     then        chunk table, a word per chunk
//!                                     then        data
//! ```
//!
//! | offset | size | field | written by | meaning |
//! |---|---|---|---|---|
//! | 0 | 8 | magic | node | `DRVRPOOL` |
//! | 8 | 8 | version | node | of this layout |
//! | 16 | 8 | pool | node | random name of the pool; 0: the node belongs to none yet |
//! | 24 | 8 | place | node | index of the node in the pool (lower half), number of nodes (upper half) |
//! | 32 | 8 | kind | node | what the pool holds, such as `race`, padded with zeros |
//! | 40 | 8 | incarnation | node | random, another one after each start |
//! | 48 | 8 | capacity | node | bytes of the region |
//! | 56 | 8 | tables | node | lines of the client table (lower half) |
//! | 64 | 8 | epoch | node | raised whenever a client was fenced |
//! | 72 | 8 | reclaim | node | epoch of reclamation; see `epochs` |
//! | 80 | 8 | clock | node | seconds since the pool was made, from 1 |
//! | 88 | 8 | clients | node | live clients |
//! | 96 | 8 | sweep | the client that repairs | odd while chunks of dead clients are swept; see `recovery` |
//! | 128 | 8 | bump | FAA | chunks taken for the first time |
//! | 136 | 8 | stack | CAS | returned chunks |
//! | 192 | 8 | versions | FAA | ranges of versions handed out |
//! | 256 | 8 | recovery | CAS | lock of the client that repairs |
//! | 512 | 2048 | roots | CAS | 256 words of the structures |
//!
//! All words are little-endian. No word is written by the node's processor and also changed by CAS or FAA: atomics of a
//! card are atomic only among themselves.

use crate::addr::NODES_MAX;
use crate::chunks::{CHUNK_BYTES, CHUNKS_MAX, ChunkStack, ENTRY_BYTES, Supply};

/// `DRVRPOOL`.
pub const MAGIC: u64 = u64::from_le_bytes(*b"DRVRPOOL");
/// Version of the layout of header and tables.
pub const LAYOUT_VERSION: u64 = 1;
/// Number of roots.
pub const ROOT_COUNT: usize = 256;
/// Bytes of the header that are in use.
pub const HEADER_BYTES: usize = ROOTS_AT + ROOT_COUNT * 8;

/// Bytes of a line of the client table.
pub const CLIENT_BYTES: usize = 64;
/// Most clients of a node.
pub const CLIENTS_MAX: usize = 4096;

pub(crate) const EPOCH_AT: usize = 64;
pub(crate) const RECLAIM_AT: usize = 72;
pub(crate) const CLOCK_AT: usize = 80;
pub(crate) const LIVE_AT: usize = 88;
pub(crate) const SWEEP_AT: usize = 96;
pub(crate) const BUMP_AT: usize = 128;
pub(crate) const STACK_AT: usize = 136;
pub(crate) const VERSIONS_AT: usize = 192;
pub(crate) const RECOVERY_AT: usize = 256;
pub(crate) const ROOTS_AT: usize = 512;

/// What a pool holds, as a short name; by default the empty one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PoolKind(pub [u8; 8]);

impl PoolKind {
    /// The kind of this name.
    ///
    /// # Panics
    /// If the name has more than 8 bytes.
    pub const fn new(name: &str) -> PoolKind {
        let (from, mut to) = (name.as_bytes(), [0; 8]);
        assert!(from.len() <= to.len());
        let mut index = 0;
        while index < from.len() {
            to[index] = from[index];
            index += 1;
        }
        PoolKind(to)
    }
}

impl std::fmt::Display for PoolKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.0.iter().take_while(|&&byte| byte != 0);
        name.copied()
            .try_for_each(|byte| write!(f, "{}", char::from(byte).escape_default()))
    }
}

impl std::fmt::Debug for PoolKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Which node of which pool a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolMembership {
    /// Random name of the pool, not 0.
    pub pool: u64,
    /// Index of the node, from 0.
    pub index: u32,
    /// Number of nodes of the pool.
    pub count: u32,
    /// What the pool holds.
    pub kind: PoolKind,
}

impl PoolMembership {
    /// Whether there can be such a node.
    pub fn is_consistent(&self) -> bool {
        self.pool != 0 && self.index < self.count && self.count as usize <= NODES_MAX
    }
}

/// Sizes and positions of a node's tables, which follow from two numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Bytes of the region, whole chunks.
    pub capacity: u64,
    /// Lines of the client table.
    pub client_count: u32,
}

impl Geometry {
    /// The geometry of a node of `capacity` bytes, rounded down to whole chunks; `None` if these leave no chunk for
    /// data, are too many, or there are too few or too many clients.
    pub fn new(capacity: u64, client_count: u32) -> Option<Geometry> {
        let capacity = capacity / CHUNK_BYTES as u64 * CHUNK_BYTES as u64;
        let geometry = Geometry {
            capacity,
            client_count,
        };
        let fits = capacity / CHUNK_BYTES as u64 <= CHUNKS_MAX as u64
            && (1..=CLIENTS_MAX as u32).contains(&client_count)
            && geometry.first_data_chunk() < geometry.chunk_count();
        fits.then_some(geometry)
    }

    /// Chunks of the node.
    pub fn chunk_count(&self) -> u32 {
        (self.capacity / CHUNK_BYTES as u64).min(CHUNKS_MAX as u64) as u32
    }

    /// Offset of the line of client `id`, which counts from 1.
    pub fn client_line(&self, id: u16) -> usize {
        CHUNK_BYTES + usize::from(id).saturating_sub(1) * CLIENT_BYTES
    }

    /// Offset of the chunk table.
    pub fn chunk_table(&self) -> usize {
        let clients = (self.client_count as usize * CLIENT_BYTES).next_multiple_of(CHUNK_BYTES);
        CHUNK_BYTES + clients
    }

    /// Offset of the entry of `chunk`.
    pub fn chunk_entry(&self, chunk: u32) -> usize {
        self.chunk_table() + chunk as usize * ENTRY_BYTES
    }

    /// Index of the first chunk for data.
    pub fn first_data_chunk(&self) -> u32 {
        let table = (self.chunk_count() as usize * ENTRY_BYTES).next_multiple_of(CHUNK_BYTES);
        ((self.chunk_table() + table) / CHUNK_BYTES) as u32
    }
}

/// Offset of root `index`.
///
/// # Panics
/// If there is no such root.
pub fn root_offset(index: usize) -> usize {
    assert!(index < ROOT_COUNT, "root {index}");
    ROOTS_AT + index * 8
}

/// Why the first chunk of a region is not a header that this version can use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// Fewer bytes than a header has.
    #[error("a header of {bytes} bytes")]
    Short {
        /// Bytes there are.
        bytes: usize,
    },
    /// The first bytes are something else.
    #[error("no memory node: its memory does not begin with a header")]
    Magic,
    /// The layout is of another version.
    #[error("layout of version {found}; this program knows version {LAYOUT_VERSION}")]
    Version {
        /// Version of the layout.
        found: u64,
    },
    /// The numbers contradict each other.
    #[error("contradictory header: {what}")]
    Nonsense {
        /// The numbers that do.
        what: &'static str,
    },
}

/// A copy of a node's header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// The node's place; `None`: it belongs to no pool yet.
    pub place: Option<PoolMembership>,
    /// Another number after each start of the node.
    pub incarnation: u64,
    /// Sizes and positions.
    pub geometry: Geometry,
    /// Raised whenever a client was fenced.
    pub epoch: u64,
    /// Epoch of reclamation.
    pub reclaim: u64,
    /// Seconds of the pool's clock at this node.
    pub clock_s: u64,
    /// Live clients.
    pub clients: u64,
    /// Odd while chunks of dead clients are swept.
    pub sweep: u64,
    /// Free chunks.
    pub supply: Supply,
    /// Roots of the structures.
    pub roots: [u64; ROOT_COUNT],
}

impl Header {
    /// Reads a header from a copy of the first [`HEADER_BYTES`] of a region of `region_bytes`. The bytes may be
    /// anything.
    ///
    /// # Errors
    /// [`HeaderError`] if this is no header, or one that contradicts itself.
    pub fn decode(bytes: &[u8], region_bytes: u64) -> Result<Header, HeaderError> {
        if bytes.len() < HEADER_BYTES {
            return Err(HeaderError::Short { bytes: bytes.len() });
        }
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        if word(0) != MAGIC {
            return Err(HeaderError::Magic);
        }
        if word(8) != LAYOUT_VERSION {
            return Err(HeaderError::Version { found: word(8) });
        }
        let nonsense = |what| HeaderError::Nonsense { what };
        let (index, count) = (word(24) as u32, (word(24) >> 32) as u32);
        let place = (word(16) != 0).then(|| PoolMembership {
            pool: word(16),
            index,
            count,
            kind: PoolKind(word(32).to_le_bytes()),
        });
        if place.is_some_and(|place| !place.is_consistent()) {
            return Err(nonsense("place in the pool"));
        }
        let geometry = Geometry::new(word(48), word(56) as u32);
        let geometry = geometry.filter(|found| found.capacity == word(48) && word(48) <= region_bytes);
        let geometry = geometry.ok_or(nonsense("capacity or number of clients"))?;
        let supply = Supply {
            chunk_count: geometry.chunk_count(),
            bump: word(BUMP_AT),
            stack: ChunkStack::decode(word(STACK_AT)),
        };
        if supply.bump < u64::from(geometry.first_data_chunk()) {
            return Err(nonsense("chunks in use"));
        }
        Ok(Header {
            place,
            incarnation: word(40),
            geometry,
            epoch: word(EPOCH_AT),
            reclaim: word(RECLAIM_AT),
            clock_s: word(CLOCK_AT),
            clients: word(LIVE_AT),
            sweep: word(SWEEP_AT),
            supply,
            roots: std::array::from_fn(|root| word(root_offset(root))),
        })
    }

    /// The bytes of the header.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let mut put = |at: usize, word: u64| bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        put(0, MAGIC);
        put(8, LAYOUT_VERSION);
        if let Some(place) = self.place {
            put(16, place.pool);
            put(24, u64::from(place.count) << 32 | u64::from(place.index));
            put(32, u64::from_le_bytes(place.kind.0));
        }
        put(40, self.incarnation);
        put(48, self.geometry.capacity);
        put(56, u64::from(self.geometry.client_count));
        put(EPOCH_AT, self.epoch);
        put(RECLAIM_AT, self.reclaim);
        put(CLOCK_AT, self.clock_s);
        put(LIVE_AT, self.clients);
        put(SWEEP_AT, self.sweep);
        put(BUMP_AT, self.supply.bump);
        put(STACK_AT, self.supply.stack.encode());
        for (root, &word) in self.roots.iter().enumerate() {
            put(root_offset(root), word);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(capacity: u64, clients: u32) -> Option<Header> {
        let geometry = Geometry::new(capacity, clients)?;
        let place = PoolMembership {
            pool: 7,
            index: 1,
            count: 3,
            kind: PoolKind::new("race"),
        };
        Some(Header {
            place: Some(place),
            incarnation: 9,
            geometry,
            epoch: 1,
            reclaim: 2,
            clock_s: 3,
            clients: 4,
            sweep: 5,
            supply: Supply {
                chunk_count: geometry.chunk_count(),
                bump: u64::from(geometry.first_data_chunk()),
                stack: ChunkStack::default(),
            },
            roots: std::array::from_fn(|root| root as u64),
        })
    }

    proptest! {
        #[test]
        fn headers_come_back(chunks in 0u64..1 << 25, clients in 0u32..5000) {
            let Some(header) = header(chunks * CHUNK_BYTES as u64 + 100, clients) else { return Ok(()) };
            let geometry = header.geometry;
            prop_assert!(geometry.client_line(clients as u16) + CLIENT_BYTES <= geometry.chunk_table());
            let table_end = geometry.chunk_entry(geometry.chunk_count());
            prop_assert!(table_end <= geometry.first_data_chunk() as usize * CHUNK_BYTES);
            prop_assert_eq!(Header::decode(&header.encode(), geometry.capacity), Ok(header));
        }

        #[test]
        fn no_bytes_panic(mut bytes: Vec<u8>, known in any::<bool>(), from in 16usize..512, words: [u64; 4]) {
            bytes.resize(bytes.len().max(HEADER_BYTES), 0);
            if known {
                bytes[..HEADER_BYTES].copy_from_slice(&header(1 << 24, 8).expect("a header").encode());
                let from = from / 8 * 8;
                let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                bytes[from..from + 32].copy_from_slice(&words);
            }
            if let Ok(header) = Header::decode(&bytes, 1 << 24) {
                prop_assert!(header.geometry.capacity <= 1 << 24);
                prop_assert!(header.place.is_none_or(|place| place.index < place.count));
            }
        }
    }

    #[test]
    fn a_kind_is_printed_whatever_it_is() {
        assert_eq!(PoolKind::new("race").to_string(), "race");
        assert_eq!(PoolKind(*b"\n\xff\0\0\0\0\0x").to_string(), "\\n\\u{ff}");
    }
}
