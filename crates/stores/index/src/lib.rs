//! Index structures as bytes and decisions: the candidate slots of a key, and the slot to replace.
//!
//! It holds no items and does not use verbs: the owner of the items asks for candidates by tag, checks the items, and
//! stores the slot that it chose. Memory is a [`drover_mem::LineTable`], so a table can be in huge pages, next to the
//! items, and be read by another thread.
//!
//! - [`Slot`] is one 64-bit entry: an item's tag, offset and number of uses; or a ghost, which is the tag of an evicted
//!   item and a time; 0 = empty.
//! - [`CacheTable`] is the lossy table of 8-slot buckets.
//! - [`LruTable`] is the table of 8-slot buckets in the order of their entries' last use.
//! - [`StoreTable`] is the lossless table of 7-slot buckets with chains of spare ones.
//! - [`Seqlock`] lets other threads read the data of one writer.
//! - [`cuckoo`] and [`hopscotch`] are tables that peers READ: every piece that a reader fetches proves that it is
//!   whole.
//! - [`race`] is a table that peers READ and change, without an owner.
//!
//! ```
//! use drover_index::{CacheTable, Slot};
//! use drover_base::HashSeed;
//! use drover_mem::PageWish;
//! let table = CacheTable::private(1000, PageWish::Small)?;
//! let hash = HashSeed::new(1, 2).hash(b"user42");
//! let bucket = table.bucket(hash);
//! bucket.set(3, Slot::new(hash.tag(), 4096));
//! assert_eq!(bucket.matches(hash.tag()).collect::<Vec<_>>(), [3]);
//! assert_eq!(bucket.slot(3).offset(), 4096);
//! # Ok::<(), drover_mem::AllocError>(())
//! ```
//!
//! Source: `[MICA §4.3]` as `[HERD §4.1]` uses it, `[Pilaf]`, `[FaRM]` and `[RACE]` for the tables that peers READ; each module
//! states its differences from the public code.
#![forbid(unsafe_code)]

mod bucket_lines;
mod cache_table;
pub mod cuckoo;
pub mod hopscotch;
mod lru_table;
pub mod race;
mod seqlock;
mod slot;
mod store_table;
mod table_header;
mod table_memory;

pub use bucket_lines::BucketLines;
pub use cache_table::{CacheBucket, CacheTable, Moved, SlotRef};
pub use lru_table::{LruBucket, LruTable};
pub use seqlock::{Seqlock, Ticket};
pub use slot::{Slot, SlotMask};
pub use store_table::{SlotPosition, StoreBucket, StoreTable};
pub use table_memory::TableMemory;

/// Number of slots in a bucket of a [`CacheTable`] or an [`LruTable`].
pub const CACHE_SLOTS: usize = 8;

/// Number of slots in a bucket of a [`StoreTable`].
pub const STORE_SLOTS: usize = 7;

/// Bytes of a bucket of each of these tables: one cache line.
pub const BUCKET_BYTES: usize = drover_mem::LINE_BYTES;

const _: () = assert!(CACHE_SLOTS * size_of::<u64>() == BUCKET_BYTES);
const _: () = assert!((STORE_SLOTS + 1) * size_of::<u64>() == BUCKET_BYTES);
