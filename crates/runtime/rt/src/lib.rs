//! The runtime of protocols: the control channel, the event loop of a server's control thread, the run loop of a core,
//! timers, and tasks, with which a client operation reads like pseudo-code.
//!
//! It contains no protocol and names no fabric: its code is generic over [`Provider`](drover_verbs::Provider) or does
//! not use verbs at all.
//!
//! - [`control`]: addresses, listeners, streams, frames with descriptors, heartbeats.
//! - [`acceptor`]: the event loop of a server's control thread.
//! - [`RunLoop`]: steps the actors of one core and sleeps when they are idle; [`Timers`] hold their deadlines.
//! - [`TaskPool`] and [`TaskCx`]: asynchronous operations over verbs, on one core.
//! - [`Link`]: a client's session over a control channel, re-established whenever it is lost.
//! - [`exchange`]: connects the two ends of a queue pair.
//! - [`mailbox`], [`StopFlag`]: messages of other threads to a core; [`ring`]: continuous traffic between two cores.
//!
//! Two ends of a connection, and a WRITE from one to the other:
//! ```
//! use drover_rt::exchange::ends;
//! use drover_verbs_suite::loopback::{Loopback, LoopbackDevice};
//! use drover_verbs::*;
//!
//! let (mut here, there) = ends::<Loopback>(&LoopbackDevice::new(), QpKind::Rc)?;
//! let memory = there.ctx.alloc(4096, drover_mem::PageWish::Small)?;
//! let mr = there.ctx.register(&memory, Access::REMOTE_WRITE)?;
//! let remote = here.ctx.import_region(&mr.export(&[])?)?;
//! let mut list = SendList::default();
//! let payload = list.inline(b"hello");
//! list.push(SendWr::write(remote.at(0), payload).signaled(WrId(1)));
//! here.qp.post_send(here.ctx.cpu(), &list)?;
//! # let mut bytes = [0; 5];
//! # memory.copy_out(0, &mut bytes);
//! # assert_eq!(&bytes, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod acceptor;
pub mod control;
pub mod cores;
pub mod exchange;
mod link;
mod mailbox;
mod ring;
mod run_loop;
mod signal;
mod task;
mod timers;
mod wake;

pub use link::{Handshake, Link, LinkOptions, Loss};
pub use mailbox::{MailError, Mailbox, Mailer, mailbox};
pub use ring::{RingConsumer, RingFull, RingProducer, ring};
pub use run_loop::{Idle, RunLoop, RunStats};
pub use task::{
    Completed, Failure, PeerId, PoolError, PoolFull, Sleep, SyncFuture, TaskCx, TaskId, TaskOptions,
    TaskPool, Ticket, WcError,
};
pub use timers::Timers;
pub use wake::{StopFlag, WakeFd};
