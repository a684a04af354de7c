//! [`LinkHandler`]: what a core does with what arrives over its links.

use drover_net::{Output, PendingReply};

/// An incoming link, for as long as it lasts: no other one ever has the same number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Source(pub u64);

/// The end of a message that was written to its link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkReply<'a> {
    /// Its reply.
    Bytes(&'a [u8]),
    /// The link broke before the reply came; the message may have been executed.
    Lost {
        /// Name of the member that it was sent to.
        member: &'a str,
    },
}

/// What a core does with messages and replies that arrive over its links. It cannot send meanwhile.
///
/// Each message that [`Links::send`](crate::Links::send) accepted ends exactly once: in [`fill`](LinkHandler::fill), or in
/// [`unsent`](LinkHandler::unsent).
pub trait LinkHandler {
    /// What [`hint`](LinkHandler::hint) finds out for [`serve`](LinkHandler::serve).
    type Hint: Copy;
    /// The hint of a message that came alone.
    const NO_HINT: Self::Hint;

    /// Messages have been read, and will be served: a handler that needs the time reads its clock now.
    fn arrived(&mut self) {}

    /// Prefetches what a message needs that will be served soon.
    fn prefetch(&mut self, message: &[u8]) {
        let _ = message;
    }

    /// Called after `prefetch` for each message of a batch of two or more. Its result is passed to `serve`.
    fn hint(&mut self, message: &[u8]) -> Self::Hint {
        let _ = message;
        Self::NO_HINT
    }

    /// Answers a message: appends the reply, which may be empty, to `reply`.
    fn serve(&mut self, source: Source, message: &[u8], hint: Self::Hint, reply: &mut Output);

    /// Called once when a step has served messages, before any reply leaves: the time to publish what they have counted.
    fn served(&mut self) {}

    /// No further message comes from this source.
    fn source_closed(&mut self, source: Source) {
        let _ = source;
    }

    /// Handles the end of a message that was written.
    fn fill(&mut self, pending_reply: PendingReply, reply: LinkReply<'_>);

    /// Takes back a message that was never written as a whole, so that it has not been executed: its link could not be
    /// made, or broke before. Messages of one route come back in the order in which they were sent.
    fn unsent(&mut self, route: usize, pending_reply: PendingReply, message: &[u8]);
}
