//! memcached's text and meta protocol over a partition of the store: parsing, execution and replies, without I/O.
#![forbid(unsafe_code)]

pub mod counters;
pub mod crossing;
mod desk;
mod detail;
mod dump;
mod elsewhere;
mod exec;
mod line;
pub mod parse;
pub mod request;
mod rings;
mod server;
mod session;
mod stats;

pub use counters::{Board, Counters};
pub use desk::{Core, Desk};
pub use detail::Detail;
pub use elsewhere::{Elsewhere, NoRoom, Nowhere};
pub use rings::{Inbound, Outbound, Receiver, Rings};
pub use server::{Connections, Host, NoHost, Server, Settings};
pub use session::Session;
