//! What runs protocols: the control channel, the event loop of a server's control thread, the run loop of a
//! core, timers, and the tasks that let a client operation read like its pseudo-code.
//!
//! It is not a protocol and names no fabric: everything here is generic over
//! [`Provider`](drover_verbs::Provider) or knows no verbs at all.
//!
//! - [`control`]: addresses, listeners, streams, frames with descriptors, heartbeats.
//! - [`acceptor`]: the event loop of a server's control thread.
//! - [`RunLoop`]: steps the actors of one core, sleeps when they are idle; [`Timers`] for their deadlines.
//! - [`TaskPool`] and [`TaskCx`]: asynchronous operations over verbs, on one core.
//! - [`exchange`]: connects the two ends of a queue pair.
//! - [`mailbox`], [`StopFlag`]: how other threads speak to a core.
#![forbid(unsafe_code)]

pub mod acceptor;
pub mod control;
pub mod cores;
pub mod exchange;
mod mailbox;
mod run_loop;
mod signal;
mod task;
mod timers;
mod wake;

pub use mailbox::{MailError, Mailbox, Mailer, mailbox};
pub use run_loop::{Idle, RunLoop, RunStats};
pub use task::{
    Completed, Failure, Peer, PoolError, PoolFull, Sleep, SyncFuture, TaskCx, TaskId, TaskOptions, TaskPool,
    Ticket, WcError,
};
pub use timers::Timers;
pub use wake::{StopFlag, WakeFd};
