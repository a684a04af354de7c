//! [`Talk`]: a protocol on a connection, without I/O.

use crate::Output;

/// One connection's side of a protocol. It holds only what must outlast a step (an unfinished multiget, bytes still to
/// be skipped, who is logged in); the bytes themselves belong to the connection.
pub trait Talk {
    /// What a step needs of its core: the items, the way to other cores, counters, the time.
    type Desk<'d>;

    /// Takes as many requests as it can from `input`, which is all that came and was not used yet, and adds their
    /// replies to `output`. Called again when what it [`wants`](Advance::wants) is there. Cost: no allocation, lock,
    /// system call or clock read.
    fn advance(&mut self, desk: &mut Self::Desk<'_>, input: &[u8], output: &mut Output) -> Advance;
}

/// What became of a call of [`Talk::advance`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Advance {
    /// Bytes of the input that are done with.
    pub used: usize,
    /// What must be there before it makes sense to go on.
    pub wants: Wants,
}

/// What a [`Talk`] waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wants {
    /// More input: with the unused rest at least so many bytes in all. A number beyond the rest by more than one says
    /// that a long value is on its way, so that room is made once.
    Input {
        /// Unused rest and what is to come.
        at_least: usize,
    },
    /// Room in the output: it [is full](Output::is_full).
    Room,
    /// A reply of another core: a hole must be filled, or the way to that core have room.
    Others,
    /// To be told ([`Sockets::news`](crate::Sockets::news)); what comes in meanwhile is shown to it, too.
    News,
    /// Its turn again, with the same rest, when others had theirs: it has served as many requests as one turn may have
    /// (`-R`).
    Turn,
    /// Nothing more: what is in the output is written, then the connection ends.
    Close,
}
