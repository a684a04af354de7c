//! The runtime of protocols: the run loop of a core, timers, and tasks, with which a client operation reads like
//! pseudo-code.
//!
//! It contains no protocol and names no fabric: its code is generic over [`Provider`](drover_verbs::Provider) or does
//! not use verbs at all.
//!
//! - [`RunLoop`]: steps the actors of one core and sleeps when they are idle; [`Timers`] hold their deadlines.
//! - [`Waiting`]: how any thread waits, on a core of its own or one that it shares.
//! - [`TaskPool`] and [`TaskCx`]: asynchronous operations over verbs, on one core.
//! - [`SendQueue`], [`DatagramReceiver`]: a client's requests, kept to be posted again, and the RECVs for its replies;
//!   [`Imports`]: what it has imported of its server; [`Chunks`]: memory for its long values.
//! - [`Queues`]: a queue pair with a completion queue of its own, and what is staged for it; [`Port`]: memory of a server that
//!   one client alone reaches.
//! - [`Staging`]: memory for payloads, reused when completions prove that the device has read them.
//! - [`mailbox`], [`StopFlag`]: messages of other threads to a core; [`ring`]: continuous traffic between two cores.
//!
//! A thread sends a message to a core:
//! ```
//! let (mailer, mut mailbox) = drover_rt::mailbox::<u32>(4, drover_verbs::Waker::new(|| {}));
//! std::thread::spawn(move || mailer.send(7).is_ok()).join().expect("it runs");
//! assert_eq!(mailbox.recv(), Some(7));
//! ```
#![forbid(unsafe_code)]

mod chunks;
pub mod cores;
mod datagram_receiver;
mod error;
mod imports;
mod mailbox;
mod port;
mod queues;
mod ring;
mod rounds;
mod run_loop;
mod send_queue;
mod signal;
mod staging;
mod task;
mod timers;
mod waiting;
mod wake;

pub use chunks::{ChunkMap, Chunks, Direction};
pub use datagram_receiver::DatagramReceiver;
pub use error::ResourceError;
pub use imports::Imports;
pub use mailbox::{MailError, Mailbox, Mailer, mailbox, unbounded_mailbox};
pub use port::Port;
pub use queues::{Depths, Queues, WHICH};
pub use ring::{RingConsumer, RingFull, RingProducer, ring};
pub use rounds::Rounds;
pub use run_loop::{Idle, RunLoop, RunStats};
pub use send_queue::{SendQueue, SendQueueOptions, Signals};
pub use staging::Staging;
pub use task::{
    Acquire, BUFFER_CLASSES, Backoff, BufferClass, Choice, Completed, ConflictGuard, ConflictOptions,
    ConflictStats, CreditStats, Drain, Entry, Failure, Join, Joined, Lead, Message, PeerId, Permit, Permits,
    PoolFull, Posting, Recv, RecvOptions, RequestStats, SingleFlight, Sleep, StageError, SyncFuture,
    TASK_SWITCH, TaskCx, TaskError, TaskId, TaskOptions, TaskPool, TaskStats, Throttle, Ticket, Tuner,
    TunerActor, TunerOptions, WcError, WordChange, Yield,
};
pub use timers::Timers;
pub use waiting::Waiting;
pub use wake::{StopFlag, WakeFd};
