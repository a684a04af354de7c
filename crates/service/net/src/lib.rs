//! Sockets of one core: listeners, connections and their buffers. What is said on a connection is a [`Protocol`]: a
//! protocol without I/O, which is shown what came and adds what goes.
//!
//! - [`Protocol`] is one connection's side of a protocol, [`Consumed`] what it did with what came.
//! - [`Output`] is what waits to be written; it may have pending replies, for replies that another core still owes.
//! - [`Sockets`] are all sockets of a core: step them, then flush; [`ConnTable`] is what the cores of a server share.
//! - [`Listener`] is where connections arrive; [`Layer`] what may lie between them and their sockets.
//! - [`Pool`] lends memory to connections while they need some: one that waits for its peer holds none.
#![forbid(unsafe_code)]

mod conn_table;
mod connection;
mod counters;
mod layer;
mod listener;
mod output;
mod poller;
mod pool;
mod protocol;
mod slab;
mod sockets;
mod tls;

pub use conn_table::{Arrival, ConnTable, Known};
pub use counters::Counters;
pub use layer::Layer;
pub use listener::{Address, ListenError, Listener, Origin};
pub use output::{Output, PendingReply};
pub use poller::{Epoll, Event, Interest, Poller};
pub use pool::Pool;
pub use protocol::{Consumed, Need, Protocol};
pub use slab::Token;
pub use sockets::{SocketOptions, Sockets};
pub use tls::{ClientCertificates, TlsAcceptor, TlsCounters, TlsError, TlsOptions, TlsSession};
