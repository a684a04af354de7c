//! Sockets of one core: listeners, connections and their buffers. What is said on a connection is a [`Talk`]: a
//! protocol without I/O, which is shown what came and adds what goes.
//!
//! - [`Talk`] is one connection's side of a protocol, [`Advance`] what it did with what came.
//! - [`Output`] is what waits to be written; it may have holes, for replies that another core still owes.
//! - [`Sockets`] are all sockets of a core: step them, then flush; [`Lobby`] is what the cores of a server share.
//! - [`Listener`] is where connections arrive; [`Layer`] what may lie between them and their sockets.
//! - [`Pool`] lends memory to connections while they need some: one that waits for its peer holds none.
#![forbid(unsafe_code)]

mod connection;
mod counters;
mod layer;
mod listener;
mod lobby;
mod output;
mod poller;
mod pool;
mod slab;
mod sockets;
mod talk;
mod tls;

pub use counters::Counters;
pub use layer::Layer;
pub use listener::{Address, ListenError, Listener, Origin};
pub use lobby::{Arrival, Known, Lobby};
pub use output::{Hole, Output};
pub use poller::{Epoll, Event, Interest, Poller};
pub use pool::Pool;
pub use slab::Token;
pub use sockets::{SocketOptions, Sockets};
pub use talk::{Advance, Talk, Wants};
pub use tls::{ClientCertificates, TlsAcceptor, TlsCounters, TlsError, TlsOptions, TlsSession};
