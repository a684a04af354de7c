//! Item storage: one [`Partition`] holds the items of one share of the keys, owned by one core.
//!
//! It manages only its own bytes: the caller does hashing, routing, time and networks, and must not pass keys of
//! another partition. One thread calls it. With [`SharedReads`] other threads may read through a [`Reader`]; with
//! [`Exclusive`], the default, they cannot, and writes cost less.
//!
//! - [`Partition`] finds, stores and deletes items. [`Mode::Cache`] evicts items to make space ([`Eviction`] says which);
//!   [`Mode::Lru`] is a cache over a heap, strictly LRU in each bucket of the index; [`Mode::Store`] evicts nothing and returns
//!   [`PutOutcome::Full`].
//! - [`Key`] is a key and its hash; with empty `bytes` the hash is the key.
//! - [`ItemRef`] is an item found. It borrows the partition, so the item cannot be overwritten meanwhile.
//! - [`ExtraPut`] and [`Mark`] add the fields of memcached's commands: flags, CAS numbers, access times. An item stores
//!   only the fields that its content needs ([`item_bytes`]).
//! - [`StripedStore`] holds the items of all keys for several threads, behind locks, as memcached does.
//! - [`Extents`] allocates memory for records that peers READ.
//! - [`WarmFile`] keeps the memory of partitions in a file, so that a restarted server still has its items.
//!
//! A server works in three passes over a batch, so that memory accesses overlap: `prefetch_bucket` for all requests,
//! `prefetch_item` for all, then the operations. The passes share no state: the last one checks everything again.
//!
//! ```
//! use drover_base::HashSeed;
//! use drover_mem::NativeCpu;
//! use drover_store::{Key, Partition, PartitionOptions, PutOutcome};
//! let cpu = NativeCpu::new(1);
//! let seed = HashSeed::new(1, 2);
//! let mut partition = Partition::new(&PartitionOptions {
//!     log_bytes: 1 << 20,
//!     bucket_count: 1000,
//!     hash_seed: Some(seed),
//!     ..Default::default()
//! })?;
//! let key = Key { hash: seed.hash(b"user42"), bytes: b"user42" };
//! let now_s = 100; // seconds since the server started
//! assert!(matches!(partition.put(&cpu, key, b"value", 0, now_s), PutOutcome::Stored { .. }));
//! let item = partition.get(&cpu, key, now_s).expect("just stored");
//! let mut out = [0; 5];
//! item.copy_value(&mut out);
//! assert_eq!(&out, b"value");
//! # Ok::<(), drover_mem::AllocError>(())
//! ```
//!
//! An item cannot be kept across a write (a reply that still reads it while a later PUT updates it):
//!
//! ```compile_fail,E0499
//! # use drover_mem::NativeCpu;
//! # use drover_store::{Key, Partition};
//! fn reply_later(cpu: &NativeCpu, partition: &mut Partition, key: Key<'_>, out: &mut [u8]) {
//!     let item = partition.get(cpu, key, 0).expect("hit");
//!     partition.put(cpu, key, b"newer", 0, 0);
//!     item.copy_value(out);
//! }
//! ```
//!
//! # Cost
//!
//! A GET touches two places in memory, bucket and item, a PUT that updates in place the same two, a PUT of a new
//! key the bucket and the head of a log *(stated in `[HERD §4.1]`; `tests/it/cost.rs` counts the lines)*. A PUT into a full
//! cache also touches the items at the tail of a log and their buckets; `docs/eviction.md` has the bounds. Nothing
//! allocates, locks or reads a clock. Instructions per operation, for keys of 16 bytes and values of 32,
//! without the loop and the choice of the key (measured at commit 24ec7d6 by `examples/instructions.rs` under callgrind,
//! operations 10,000 to 20,000 of a run; they vary by a tenth with the compiler's choices). PUTs of new keys of the cache
//! also move an item of the small log to the main log, which is not full yet:
//!
//! | | cache | store |
//! |---|---|---|
//! | `prefetch_bucket` + `prefetch_item` | 39 | 49 |
//! | GET hit with its copy | 83 | 131 |
//! | GET hit with both prefetches, by its hint | 112 | 179 |
//! | GET miss | 32 | 145 |
//! | PUT of the same length | 133 | 211 |
//! | PUT of a new key | 1039 | 432 |
//! | DELETE and a PUT | 915 | 792 |
//!
//! Sources: `[MICA §4]` as `[HERD §4.1]` uses it; `[S3-FIFO]` for eviction.
#![forbid(unsafe_code)]

mod cache;
mod extents;
mod extras;
mod frozen;
mod heap;
mod heaped;
mod item;
mod options;
mod partition;
mod queue;
mod reader;
mod sharing;
mod stats;
mod striped;
mod warm;
mod watch;

pub use cache::{Mistake, Mistaken, Victims};
pub use drover_base::{Condition, KEY_BYTES_MAX};
pub use drover_index::BucketLines;
pub use extents::{Extent, Extents, ExtentsOptions};
pub use extras::{CopiedExtras, CopiedFields, ExtraOutcome, ExtraPut, Join, Mark, NewCas};
pub use frozen::{Doubt, Frozen};
pub use item::{EXTRAS_BYTES, ItemRef, Key, TERMS_BYTES, VALUE_BYTES_MAX, ValueRef, item_bytes};
pub use options::{Eviction, Mode, PartitionOptions};
pub use partition::{DeleteOutcome, Hint, Partition, PutOutcome};
pub use reader::{ItemCopy, ReadItem, ReadOutcome, Reader};
pub use sharing::{Exclusive, Shared, SharedReads, Sharing, Unannounced};
pub use stats::PartitionStats;
pub use striped::{FullyGuarded, LIST, Pin, STRIPE, StripedGuards, StripedLocks, StripedStore};
pub use warm::WarmFile;
pub use watch::Evicted;
