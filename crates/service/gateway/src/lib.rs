//! memcached's commands on the keys of any system: what the sessions of `memcached` ask for is executed by a
//! [`KvClient`](drover_kv::KvClient).
//!
//! To the [sessions](drover_memcached::Session) of a worker, all keys are another core's, and [`Errands`] is the
//! [router](drover_memcached::CoreRouter) to it. Each command is an errand: what is to be read is decided and asked for,
//! what is to be changed is decided and asked for under the condition that the item is as it was read, and the answer
//! fills the command's place among the replies. A command that loses its condition is decided again after a
//! wait, which grows, until its [deadline](GatewayOptions::patience).
//!
//! - [`Errands`] are the commands of a worker that are under way.
//! - [`Backend`] is the client, whatever its provider and system: [`OnContext`].
//! - [`refusals`] names what is refused.
//!
//! # What differs from a server of items
//!
//! - CAS numbers are the system's versions. A PUT does not tell its version: `ms` and `ma` with flag `c` read it back, and
//!   return 0, which no item has, if another value is there by then.
//! - An item's expiry can be set and kept, but not read. So `mg` with `t` and `ma` with `t` are refused.
//! - Items have no time of last access, and no marks: `me`, `mg` with `h`, `l`, `N` or `R`, `ms` and `md` with `I`, and `md`
//!   with `x` are refused. A CAS cannot be chosen: `E` is refused.
//! - `flush_all` is refused unless the system [offers](drover_kv::OperationOffers) it. One whose fate is unknown closes the connection; later
//!   commands of its connection wait for it.
//! - `watch`, dumps and `cache_memlimit` are refused: items belong to the system, and other gateways and
//!   native clients use them, too.
//! - A key of a `get` that cannot be read (the system does not answer) closes the connection: the other lines of the
//!   reply would make it a miss.
//! - An item with an expiry in the past is one that is deleted.
//!
//! # Cost
//!
//! A GET takes one operation of the system and no allocation. `append`, `prepend`, `incr`, `decr` and `ma` take a GET and a
//! PUT, or more if other clients change the item.
#![forbid(unsafe_code)]

mod backend;
mod command;
mod errand;
mod errands;
mod refusals;

pub use backend::{Backend, OnContext};
pub use errands::{Answer, Errands, Fill, GatewayOptions};
pub use refusals::refusals;
