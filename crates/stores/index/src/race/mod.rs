//! The extendible hash table of RACE, which clients change by READ, WRITE and CAS alone: bytes and decisions.
//!
//! ```text
//! directory (one per shard)                        group = 192 B
//!   global depth, bit 63 = doubling in progress      +0    main bucket 2i
//!   entries, 8 B each:                               +64   overflow bucket, shared by both mains
//!      lock 8 | local depth 8 | subtable 48          +128  main bucket 2i + 1
//! subtable = groups                                bucket = 64 B: header 8 B, 7 slots of 8 B
//! ```
//! A key belongs to one subtable, and there to two main buckets of two different groups. A READ of 128 bytes fetches a
//! main bucket with the overflow bucket of its group, a *pair*. So a key has 28 candidate slots, and two READs
//! in one list fetch them.
//!
//! - [`Slot`], [`Header`], [`Bucket`], [`Entry`] and [`GlobalDepth`] are the words; [`Candidates`] and [`Directory`]
//!   parse what READs fetched. All bytes are untrusted: whatever they are, parsing neither panics nor leaves bounds.
//! - [`Location`] cuts the hash of a key into directory bits, buckets and fingerprint; [`Shape`] says where buckets are.
//! - [`Candidates`] answer what both pairs say about a key: whether the client looked in the right subtable, which
//!   slots to examine, which slot to insert into.
//! - [`split`] divides a subtable in two while clients use it.
//!
//! **Inserting.** A client may look for a key, find nothing, and add it while another client does the same. So a new
//! entry is first *tentative*: readers ignore it. The client then READs both pairs again, behind its CAS. Only if the
//! headers still say that this is the key's subtable, and no other entry has the key, a second CAS confirms it. Two
//! clients cannot both confirm: the one whose READs came later has seen the other's entry, and has removed it or given
//! up its own. So a key has at most one confirmed entry, ever.
//!
//! Source: `[RACE]` as `[SMART]`'s public code has it. The layout of groups, buckets, slots and entries is theirs;
//! disjoint bits of one hash, the flags, tentative entries and frozen ones are our choice
//! ([why](../../../../../../docs/decisions/0034-splits-that-freeze.md)).

mod bucket;
mod candidates;
mod directory;
mod header;
mod location;
mod slot;
pub mod split;

pub use bucket::{Bucket, SLOTS};
pub use candidates::{Candidates, Choice, Settled, Verdict, settle};
pub use directory::{BadDirectory, Directory, ENTRIES_OFFSET, Entry, GlobalDepth, directory_bytes};
pub use header::{BadHeader, Fit, Header};
pub use location::{Location, Shape, SlotId};
pub use slot::{BLOCK_UNIT, BlockRef, Slot, SlotKind, UNITS_MAX};

/// Bytes of a bucket.
pub const BUCKET_BYTES: usize = crate::BUCKET_BYTES;

/// Buckets of a group: two mains around the overflow bucket that they share.
pub const GROUP_BUCKETS: usize = 3;

/// Bytes of a pair of buckets, which one READ fetches.
pub const PAIR_BYTES: usize = 2 * BUCKET_BYTES;

/// Most bits of a key's hash that choose its subtable. *(our choice)*
pub const DEPTH_MAX: u8 = 16;
