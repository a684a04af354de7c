//! A service of equal shards at one address: a thread and a core for each shard, and a thread that lets clients in.
//!
//! ```text
//! client --SelectShard{shard}--> reception (a thread, all listeners) --the channel, by mail--> shard (a thread, a core)
//! client ==READs, messages=====================================================> shard's memory, its queue pairs
//! ```
//! It knows no system: [`start`] takes whatever implements [`Shard`](drover_kv::Shard).
#![forbid(unsafe_code)]

mod crew;
mod reception;
mod threads;

pub use crew::{Crew, Hello, Starting, wait_for_all};
pub use threads::start;
