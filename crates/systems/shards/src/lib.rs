//! A service of equal shards at one address: a thread and a core per shard, and a control thread that accepts clients.
//!
//! ```text
//! client --SelectShard{shard}--> reception (control thread, all listeners) --channel, by mail--> shard (thread, core)
//! client ==READs, messages=====================================================> shard's memory, its queue pairs
//! ```
//! The crate depends on no system: [`start`] runs any type that implements [`Shard`](drover_kv::Shard).
#![forbid(unsafe_code)]

mod answers;
mod reception;
mod thread_group;
mod threads;

pub use answers::{Answers, Reply, Silent};
pub use thread_group::{Hello, Starting, ThreadGroup, wait_for_all};
pub use threads::start;
