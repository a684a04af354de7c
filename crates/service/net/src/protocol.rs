//! [`Protocol`]: a protocol on a connection, without I/O.

use crate::Output;

/// Protocol state of one connection. It holds only what must outlast a step (an unfinished multiget, bytes still to be
/// skipped, the login); the connection owns the bytes themselves.
pub trait Protocol {
    /// Parts of the core that [`advance`](Protocol::advance) uses: the items, the route to other cores, counters, the
    /// time.
    type Executor<'d>;

    /// Serves as many requests as it can from `input`, which is all input read and not yet used, and appends their
    /// replies to `output`. It is called again when its [`need`](Consumed::need) may be met; after [`Need::Replies`]
    /// and [`Need::Route`] that can be too early. Implementations should not allocate, lock, call the system or read the clock.
    fn advance(&mut self, executor: &mut Self::Executor<'_>, input: &[u8], output: &mut Output) -> Consumed;
}

/// Result of [`Protocol::advance`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Consumed {
    /// Number of bytes used from the front of the input. The connection presents the rest again in the next call.
    pub used: usize,
    /// Condition for the next call.
    pub need: Need,
}

/// Condition that a [`Protocol`] waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// More input: the next call has at least `at_least` bytes. A connection keeps a long request in a block of 32 KiB,
    /// and in one of `at_least` bytes when that is full.
    Input {
        /// Length of the next call's input: the bytes not yet used plus those to come.
        at_least: usize,
    },
    /// Space in the output: it [is full](Output::is_full).
    OutputSpace,
    /// Replies of other cores: a pending one must be filled ([`Sockets::fill`](crate::Sockets::fill)).
    Replies,
    /// The way to another core is full: it must have space
    /// ([`Sockets::resume_routes`](crate::Sockets::resume_routes)).
    Route,
    /// A notification ([`Sockets::notify`](crate::Sockets::notify)) or further input, whichever comes first.
    Notification,
    /// The next second, as [`Sockets::step`](crate::Sockets::step) counts them. Whatever arrives meanwhile waits.
    Tick,
    /// Another turn with the same rest, after other connections: it has served as many requests as one turn may have
    /// (`-R`).
    Turn,
    /// Nothing more: the output is written, then the connection is closed.
    Close,
}
