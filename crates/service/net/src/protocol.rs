//! [`Protocol`]: a protocol on a connection, without I/O.

use crate::Output;

/// One connection's side of a protocol. It holds only what must outlast a step (an unfinished multiget, bytes still to
/// be skipped, who is logged in); the bytes themselves belong to the connection.
pub trait Protocol {
    /// What a step needs of its core: the items, the way to other cores, counters, the time.
    type Executor<'d>;

    /// Takes as many requests as it can from `input`, which is all that came and was not used yet, and adds their
    /// replies to `output`. Called again when what it [`need`](Consumed::need) is there. Cost: no allocation, lock,
    /// system call or clock read.
    fn advance(&mut self, executor: &mut Self::Executor<'_>, input: &[u8], output: &mut Output) -> Consumed;
}

/// What became of a call of [`Protocol::advance`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Consumed {
    /// Bytes of the input that are done with.
    pub used: usize,
    /// What must be there before it makes sense to go on.
    pub need: Need,
}

/// What a [`Protocol`] waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// More input: with the unused rest at least so many bytes in all. A number beyond the rest by more than one says
    /// that a long value is on its way, so that space is made once.
    Input {
        /// Unused rest and what is to come.
        at_least: usize,
    },
    /// Space in the output: it [is full](Output::is_full).
    OutputSpace,
    /// A reply of another core: a pending reply must be filled, or the way to that core have space.
    Others,
    /// To be told ([`Sockets::news`](crate::Sockets::news)); what comes in meanwhile is shown to it, too.
    Notification,
    /// Its turn again, with the same rest, when others had theirs: it has served as many requests as one turn may have
    /// (`-R`).
    Turn,
    /// Nothing more: what is in the output is written, then the connection ends.
    Close,
}
