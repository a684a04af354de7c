//! [`Handover`]: how the items of one shard come to its next owner, as the next owner sees it.
//!
//! ```text
//! next owner                                  owner
//!   Copying   -- Page { cursor } -------->      serves; notes what changes from the first page on
//!             <- items, next cursor ------
//!   Barrier   -- Barrier ---------------->      freezes: serves the shard no more
//!             <- what has changed --------
//!   Received  -- transaction ----> registry     learns from the map that the shard is not its own, drops the items
//! ```
//! Requests are repeated until they are answered; replies that come again or late are recognised and dropped. If nothing comes for long, the move
//! is cancelled, by a transaction, too: a frozen shard is served again only once the map says so, and then the move cannot be
//! completed any more.

use crate::{Epoch, ShardId};
use drover_base::Ns;

/// Times of hand-overs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HandoverTimes {
    /// A request without a reply is repeated after this time.
    pub repeat_after: Ns,
    /// A move is cancelled after this time without a reply.
    pub give_up_after: Ns,
}

impl Default for HandoverTimes {
    fn default() -> HandoverTimes {
        HandoverTimes {
            repeat_after: Ns::from_ms(100),
            give_up_after: Ns::from_s(2),
        }
    }
}

/// What the next owner asks the owner for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    /// Items from a cursor on, which is the owner's; the first is 0.
    Page {
        /// The cursor.
        cursor: u64,
    },
    /// To freeze the shard, and to send what has changed since the first page was asked for.
    Barrier,
}

/// A request of a hand-over, to the owner of the shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HandoverRequest {
    /// The shard.
    pub shard: ShardId,
    /// [Tenure](crate::Move::tenure) of the next owner: a request of an earlier attempt is refused.
    pub tenure: Epoch,
    /// What is asked for.
    pub ask: Ask,
}

/// What the owner sends with the items.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HandoverReply {
    /// The request that is answered.
    pub to: HandoverRequest,
    /// After a page, the next cursor, if there is more.
    pub next: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Asking(Ask),
    Received,
    /// No reply for long.
    Stuck,
}

/// The hand-over of one shard, at its next owner. Without I/O.
#[derive(Debug)]
pub struct Handover {
    shard: ShardId,
    tenure: Epoch,
    stage: Stage,
    asked_at: Option<Ns>,
    /// When the last reply came that was new.
    heard_at: Ns,
}

impl Handover {
    /// Begins at `now`.
    pub fn new(shard: ShardId, tenure: Epoch, now: Ns) -> Handover {
        Handover {
            shard,
            tenure,
            stage: Stage::Asking(Ask::Page { cursor: 0 }),
            asked_at: None,
            heard_at: now,
        }
    }

    /// Tenure that the hand-over is for.
    pub fn tenure(&self) -> Epoch {
        self.tenure
    }

    /// What to ask the owner for at `now`, if anything.
    pub fn next(&mut self, now: Ns, times: &HandoverTimes) -> Option<HandoverRequest> {
        let Stage::Asking(ask) = self.stage else {
            return None;
        };
        if now.since(self.heard_at) >= times.give_up_after {
            self.stage = Stage::Stuck;
            return None;
        }
        if self
            .asked_at
            .is_some_and(|asked_at| now.since(asked_at) < times.repeat_after)
        {
            return None;
        }
        self.asked_at = Some(now);
        let (shard, tenure) = (self.shard, self.tenure);
        Some(HandoverRequest { shard, tenure, ask })
    }

    /// Takes a reply. Returns whether it is the one that is waited for, so that its items are to be stored.
    pub fn receive(&mut self, reply: &HandoverReply, now: Ns) -> bool {
        let is_awaited = reply.to.tenure == self.tenure && self.stage == Stage::Asking(reply.to.ask);
        if is_awaited {
            self.stage = match (reply.to.ask, reply.next) {
                (Ask::Page { .. }, Some(cursor)) => Stage::Asking(Ask::Page { cursor }),
                (Ask::Page { .. }, None) => Stage::Asking(Ask::Barrier),
                (Ask::Barrier, _) => Stage::Received,
            };
            self.asked_at = None;
            self.heard_at = now;
        }
        is_awaited
    }

    /// The owner is answering, though the reply is not complete yet: the hand-over is not stuck at `now`.
    pub fn goes_on(&mut self, now: Ns) {
        self.heard_at = self.heard_at.max(now);
    }

    /// What was copied is of no use: the move is to be cancelled, and begins again under another tenure.
    pub fn give_up(&mut self) {
        if self.stage != Stage::Received {
            self.stage = Stage::Stuck;
        }
    }

    /// Whether all items are here, and the owner serves no more.
    pub fn is_received(&self) -> bool {
        self.stage == Stage::Received
    }

    /// Whether the move is to be cancelled, because the owner does not answer.
    pub fn is_stuck(&self) -> bool {
        self.stage == Stage::Stuck
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: HandoverTimes = HandoverTimes {
        repeat_after: Ns::from_ms(10),
        give_up_after: Ns::from_ms(50),
    };

    fn reply(to: HandoverRequest, next: Option<u64>) -> HandoverReply {
        HandoverReply { to, next }
    }

    #[test]
    fn pages_then_the_barrier_then_all_is_there() {
        let mut handover = Handover::new(ShardId(3), Epoch(9), Ns::ZERO);
        let first = handover.next(Ns::ZERO, &TIMES).expect("a page");
        assert_eq!(first.ask, Ask::Page { cursor: 0 });
        assert_eq!(handover.next(Ns::from_ms(9), &TIMES), None);
        assert_eq!(handover.next(Ns::from_ms(10), &TIMES), Some(first), "again");
        assert!(handover.receive(&reply(first, Some(5)), Ns::from_ms(11)));
        assert!(
            !handover.receive(&reply(first, Some(5)), Ns::from_ms(11)),
            "a second time"
        );
        let second = handover.next(Ns::from_ms(11), &TIMES).expect("a page");
        assert_eq!(second.ask, Ask::Page { cursor: 5 });
        assert!(handover.receive(&reply(second, None), Ns::from_ms(12)));
        let barrier = handover.next(Ns::from_ms(12), &TIMES).expect("a request");
        assert_eq!(barrier.ask, Ask::Barrier);
        let of_another = HandoverRequest {
            tenure: Epoch(8),
            ..barrier
        };
        assert!(!handover.receive(&reply(of_another, None), Ns::from_ms(13)));
        assert!(!handover.is_received());
        assert!(handover.receive(&reply(barrier, None), Ns::from_ms(13)));
        assert!(handover.is_received() && !handover.is_stuck());
        assert_eq!(handover.next(Ns::from_s(9), &TIMES), None);
    }

    #[test]
    fn an_owner_that_does_not_answer_is_given_up() {
        let mut handover = Handover::new(ShardId(3), Epoch(9), Ns::ZERO);
        for ms in [0, 10, 20, 30, 40] {
            assert!(handover.next(Ns::from_ms(ms), &TIMES).is_some());
        }
        assert_eq!(handover.next(Ns::from_ms(50), &TIMES), None);
        assert!(handover.is_stuck());
    }

    #[test]
    fn a_long_copy_is_not_stuck_and_a_useless_one_is() {
        let mut handover = Handover::new(ShardId(3), Epoch(9), Ns::ZERO);
        for ms in [0, 40, 80, 120] {
            assert!(handover.next(Ns::from_ms(ms), &TIMES).is_some());
            handover.goes_on(Ns::from_ms(ms));
        }
        handover.give_up();
        assert!(handover.is_stuck());
        assert_eq!(handover.next(Ns::from_ms(121), &TIMES), None);
    }
}
