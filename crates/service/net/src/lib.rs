//! Sockets of one core: listeners, connections and their buffers. A connection speaks a [`Protocol`], which does no
//! I/O: it is given input and appends output.
//!
//! - [`Protocol`] is one connection's state of a protocol, [`Consumed`] the result of giving it input.
//! - [`Output`] holds replies to be written; a [`PendingReply`] marks the place of a reply that another core still
//!   owes.
//! - [`Sockets`] are all sockets of a core: step them, then flush; [`ConnTable`] is shared by the cores of a server.
//! - [`Listener`] accepts connections; a [`Layer`] may lie between a connection and its socket.
//! - [`Pool`] lends memory to connections while they need it: a connection that waits for its peer holds none.
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
pub use tls::tls_layer;
