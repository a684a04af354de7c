//! The server: workers that own partitions and poll for requests, and a control thread that admits clients.
//!
//! ```text
//!  client --WRITE (UC)--> its slots ..polled by.. worker of the partition --SEND (UD)--> client
//!     \------------- control channel ----------- acceptor --commands--> worker
//! ```
//! - [`Worker`] runs on one core: it sweeps over the slots, executes requests on its own partition, and replies.
//!   Everything a request needs is private to its thread; the only shared words are the slots themselves and one
//!   counter that shows whether the control thread has sent a command.
//! - [`Acceptor`] is the *initialiser* of HERD's paper. It assigns client ids, makes the slots and the UC queue pair of
//!   each client (one, whatever the number of partitions), watches the control channels, and releases a client's
//!   resources when its channel ends.
//! - [`Server`] runs acceptor and workers in threads. Tests and simulators step them by hand: [`Server::in_pieces`].
//!
//! **Cost of a GET**: the line polled and the lines of its body (1-2), bucket and item (2 lines, prefetched), the
//! work request of the reply. No allocation, lock, system call or clock read.
//!
//! **Instructions** of a worker per request *(measured by us: `examples/worker_instructions.rs` under callgrind,
//! window 16 and so batches of 8, 16-byte keys, 32-byte values, shared memory; `cargo xtask instructions` checks
//! them)*: GET 679, PUT 639. Of a GET's, the store takes some 190, the fabric's post 140, copying the value into the
//! list 50; the rest is finding, checking and copying the request and writing the work request. In time: 84 ns at
//! best with a busy hyper-thread on the same core, everything in the first-level caches.

mod acceptor;
mod admission;
mod batch;
mod bulk;
mod bulk_memory;
mod clients;
mod colocated;
mod counters;
mod datagram;
mod execute;
mod extended;
mod held;
mod intake;
mod mail;
mod options;
mod paper;
mod pipeline;
mod reply;
mod served;
mod service;
mod session;
mod sessions;
mod setup;
mod stats;
mod supervise;
mod sweep;
mod variant;
mod worker;

pub use acceptor::Acceptor;
pub(crate) use counters::COUNTERS;
pub use options::{
    ClientLimits, ClockStart, IdentityOptions, ReplyOptions, RequestRules, ServeMode, ServerOptions,
};
pub use service::{Pieces, Server};
pub use stats::{Counters, IrregularCounts, OperationCounts, RefusalCounts, ReplyCounts};
pub use variant::{Mistake, ReadByAll, Standard, Variant, WithPaperFormat};
pub use worker::Worker;
