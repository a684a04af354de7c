//! memcached's text and meta protocol over a partition of the store: parsing, execution and replies, without I/O.
#![forbid(unsafe_code)]

pub mod counters;
pub mod crossing;
mod desk;
mod elsewhere;
mod server;
mod session;

pub use counters::{Board, Counters};
pub use desk::{Core, Desk};
pub use elsewhere::{Elsewhere, NoRoom, Nowhere};
pub use server::{Connections, Host, NoHost, Server, Settings};
pub use session::Session;
