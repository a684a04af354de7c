//! Memory nodes, and the compute side of them: memory that compute processes READ, WRITE and CAS, while the node's
//! processor has next to nothing to do.
//!
//! ```text
//! compute process                                        memory node
//!   Pool     nodes, memory, who we are                     Node      lets processes in, watches leases, shuts out
//!   Lease    an actor: renews, learns epochs   --WRITE-->  lines of the client table
//!   Nodes    of a thread: queue pairs, pins    --READ,     header, roots, chunk table
//!   Arena    of a thread: blocks by size         CAS-->    chunks of 16 KiB
//! ```
//! It holds no structure: tables and trees over this memory are crates of their own. It does not replicate, and does not
//! protect a pool's processes from each other: the unit of isolation is the pool
//! ([decision 0033](https://github.com/drover-kv/drover/blob/main/docs/decisions/0033-a-pool-trusts-its-processes.md)).
//!
//! - [`node::Node`] is the node's side. [`Pool::open`] (or [`Opening`], which never waits) is how a process enters a pool,
//!   [`Pool::join`] how a thread does.
//!   A [`Keeper`] does that on a thread of its own, and enters again when a node was lost and is back.
//!   [`Inquiry`] is for operators: what nodes show ([`NodeStatus`]), making a pool of them, shutting a client out.
//!   [`recovery`] repairs what a client that was shut out has left.
//! - [`Nodes`] checks pointers before anything is posted, and [pins](Nodes::pin) epochs; [`Arena`] allocates and frees.
//! - [`block`] is the format of an item, [`locks::Lock`] that of a lock; [`Addr`] is a pointer.
//!
//! A pointer and a block:
//! ```
//! use drover_memnode::{Addr, block::{BlockMeta, decode_block, encode_block}};
//! let addr = Addr::new(2, 1 << 20);
//! assert_eq!(addr.to_string(), "2:0:0x100000");
//! let mut bytes = [0; 64];
//! encode_block(&mut bytes, &BlockMeta { version: 7, ..BlockMeta::default() }, b"fox", b"red", Addr::NULL);
//! let block = decode_block(&bytes)?;
//! assert_eq!((block.key, block.part, block.meta.version), (&b"fox"[..], &b"red"[..], 7));
//! # Ok::<(), drover_memnode::block::BlockError>(())
//! ```
//!
//! Sources: `[SMART]` for chunks, roots and size classes; leases, fencing, epochs, reserve and recovery are *our choice*.
#![forbid(unsafe_code)]

mod activity;
mod addr;
mod arena;
pub mod block;
pub mod chunks;
mod classes;
mod client;
mod clients;
mod clock;
mod control;
mod epochs;
pub mod header;
mod keeper;
mod lease;
pub mod locks;
pub mod node;
mod nodes;
mod pool;
pub mod recovery;
mod status;
mod sweeps;
mod times;

pub use activity::{Activity, Counted};
pub use addr::{Addr, NODES_MAX};
pub use arena::{Arena, ArenaStats};
pub use chunks::{Fill, Need};
pub use classes::{BLOCK_BYTES_MIN, CLASS_COUNT, Class};
pub use client::ClientId;
pub use clients::{ClientInfo, ClientLine, ClientState};
pub use control::Verdict;
pub use header::{PoolKind, PoolMembership};
pub use keeper::Keeper;
pub use lease::Lease;
pub use nodes::{Connection, EpochPin, Joining, Located, Nodes};
pub use pool::{
    BadRun, Inquiry, MemoryError, Opened, Opening, Order, Pool, PoolError, PoolNode, PoolOptions,
    check_places,
};
pub use status::NodeStatus;
pub use times::LeaseTimes;
