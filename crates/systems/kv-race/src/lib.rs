//! RACE: an extendible hash table in the memory of nodes whose processors do nothing. Clients look up, insert, update and
//! delete by READ, WRITE and CAS alone, and split the table by themselves. Smart-HT is the same client over tasks of
//! other options.
//!
//! | operation | verbs | round trips |
//! |---|---|---|
//! | lookup | 2 READs of a pair of buckets; 1 READ of a block | 2 |
//! | lookup of a key that does not exist | 2 READs of a pair of buckets, twice where a READ may be torn | 1 or 2 |
//! | update | WRITE of a block, 2 READs; 1 READ of a block; CAS | 3 |
//! | insert, and insert if absent | WRITE of a block, 2 READs; CAS, 2 READs; CAS | 3 |
//! | delete | 2 READs; 1 READ of a block; CAS | 3 |
//! | read, modify, write | 2 READs; 1 READ of a block; WRITE of a block, CAS | 3 |
//!
//! Each further block whose key has the same fingerprint costs a READ in the same list. The published insert takes a CAS
//! less, and is not linearizable ([why](../../../../docs/decisions/0034-splits-that-freeze.md)).
//!
//! The memory nodes are [`memnode`](drover_memnode)'s, which also provides leases, epochs and allocation. A service of
//! [`RaceSystem`] is some of them that are one pool, with an empty table in each ([`RaceNode`]); a [`RaceClient`] is a process of the
//! pool.
//!
//! An item is one block of at most 16,320 bytes; what does not fit of a value, up to 1 MiB, is in pieces linked
//! behind it, which cost a WRITE each to write, a READ each to read, and a READ of a header each to free
//! ([why](../../../../docs/decisions/0039-long-values-expiry-and-flushes.md)).
//!
//! - [`Race`] is a thread's handle to the tables of a pool; its operations are for tasks.
//! - [`Race::attend`] is for a task of each thread: expired items are removed, flushes of others become known.
//! - It is also a [`Repair`](drover_memnode::recovery::Repair): it finishes the splits of clients that died.
//! - [`load`] writes a whole table at a node, without requests.
//! - [`RaceOps`] are the operations of `kv` over it: what a client with sessions executes.
//! - [`TableHeader`] says how a table is made; [`RaceOptions`] what a client chooses.
//!
//! Source: `[RACE]`, `[SMART §5.2]`; [docs/race-tests.md](../../../../docs/race-tests.md) lists what the tests cover.
#![forbid(unsafe_code)]

mod client;
mod costs;
mod error;
pub mod layout;
mod load;
mod mistake;
mod ops;
mod options;
mod race;
mod server;
mod system;

pub use client::RaceClient;
pub use costs::BUDGET;
pub use drover_memnode::PoolKind;
pub use error::RaceError;
pub use layout::TableHeader;
pub use load::load;
pub use mistake::Mistake;
pub use ops::{RaceOps, execute_in};
pub use options::RaceOptions;
pub use race::{Found, ItemMeta, Race, RaceStats, Updated};
pub use server::{RaceNode, RaceNodeOptions};
pub use system::RaceSystem;

/// The kind of the pools that hold such tables.
pub const POOL_KIND: PoolKind = PoolKind::new("race");
