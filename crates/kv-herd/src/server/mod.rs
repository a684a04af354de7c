//! The server: workers that own partitions and poll for requests, and a control thread that lets clients in.
//!
//! ```text
//!  client --WRITE (UC)--> its slots ..polled by.. worker of the partition --SEND (UD)--> client
//!     \------------- control channel ----------- acceptor --commands--> worker
//! ```
//! - [`Worker`] is one core: it sweeps over the slots, executes on its own partition, answers. Everything a
//!   request needs is private to its thread; the only shared words are the slots themselves and one counter
//!   that says whether the control thread wants something.
//! - [`Acceptor`] is the paper's *initialiser*: one UC queue pair per client, whatever the number of partitions.
//!   It assigns client ids, registers each client's slots, watches the control channels, and takes all back when
//!   one ends.
//! - [`Server`] runs both in threads. Tests and simulators run them by hand: [`Server::in_pieces`].
//!
//! **Where a GET costs what**: one line polled and its body's (1-2), bucket and item (2 lines, prefetched), the
//! reply's request to the fabric. No allocation, lock, system call or clock read.

mod acceptor;
mod batch;
mod bulk;
mod clients;
mod datagram;
mod error;
mod execute;
mod inbox;
mod intake;
mod options;
mod paper;
mod pipeline;
mod reply;
mod session;
mod stats;
mod sweep;
mod threads;
mod worker;

pub use acceptor::Acceptor;
pub use error::StartError;
pub use options::{Flaw, ServeMode, ServerOptions};
pub use stats::{Counters, ServerStats, WorkerStats};
pub use threads::Server;
pub use worker::Worker;
