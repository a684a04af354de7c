//! [`Channel`]: the way from this core to one core of a keeper.
//!
//! ```text
//! pending --build--> sent --taken-----> (gone)
//!    ^                |---lost, unsent-> pending, after a pause
//!    |                '---refused-----> refused: the keeper does not keep these shards, or not yet
//!    '---- after a pause ------------------'
//! ```

use super::changes::{Changes, compact};
use super::message::CopyReply;
use crate::handover::{Entry, ShardSet};
use drover_base::Ns;
use drover_cluster::ShardId;

/// Pauses after something was not taken: the first, and the longest.
const PAUSE_MIN: Ns = Ns::from_ms(1);
const PAUSE_MAX: Ns = Ns::from_ms(16);

/// What one core of a keeper does not have yet.
#[derive(Debug)]
pub(super) struct Channel {
    /// The keeper's number.
    pub(super) peer: u16,
    /// Waits to be sent.
    pub(super) pending: Changes,
    /// In the message under way.
    pub(super) sent: Changes,
    /// Number of that message.
    under_way: Option<u64>,
    /// Not taken by the keeper; newer changes of its shards wait behind it.
    refused: Changes,
    refused_shards: Vec<ShardId>,
    /// When what was refused is sent again,
    retry_at: Ns,
    /// and what comes after a message that was lost.
    resume_at: Ns,
    pause: Ns,
    /// Bytes of free names in `pending` from which on they are made unique again.
    pub(super) compact_at: usize,
    /// Whether it is among the [busy](super::channels::Channels::busy) ones.
    pub(super) is_listed: bool,
    old: Old,
}

/// What was known when a [drain](Channel::begin_drain) began and has not been taken, or a little more.
#[derive(Clone, Copy, Default, Debug)]
struct Old {
    /// Bytes at the beginning of the lists of pending names,
    gated: usize,
    free: usize,
    /// some of the flushed shards,
    is_flush: bool,
    /// and some of the message under way.
    is_sent: bool,
}

impl Channel {
    pub(super) fn new(peer: u16) -> Channel {
        Channel {
            peer,
            pending: Changes::default(),
            sent: Changes::default(),
            under_way: None,
            refused: Changes::default(),
            refused_shards: Vec::new(),
            retry_at: Ns::MAX,
            resume_at: Ns::ZERO,
            pause: PAUSE_MIN,
            compact_at: 0,
            is_listed: false,
            old: Old::default(),
        }
    }

    pub(super) fn all(&self) -> [&Changes; 3] {
        [&self.pending, &self.sent, &self.refused]
    }

    pub(super) fn all_mut(&mut self) -> [&mut Changes; 3] {
        [&mut self.pending, &mut self.sent, &mut self.refused]
    }

    /// Whether the keeper has everything, as far as this core knows.
    pub(super) fn is_idle(&self) -> bool {
        self.under_way.is_none() && !self.has_any()
    }

    /// Whether there is anything that the keeper does not have.
    pub(super) fn has_any(&self) -> bool {
        self.all().iter().any(|changes| !changes.is_empty())
    }

    /// Whether keys that hold the core have not been taken yet.
    pub(super) fn has_gated(&self) -> bool {
        self.all().iter().any(|changes| !changes.gated.is_empty())
    }

    /// Puts newer changes of refused shards behind what was refused of them.
    pub(super) fn set_aside(&mut self, shard_of: impl Fn(&Entry<'_>) -> ShardId) {
        if !self.refused_shards.is_empty() {
            self.pending
                .move_shards(&self.refused_shards, shard_of, &mut self.refused);
        }
    }

    /// Whether a message may be made now.
    pub(super) fn may_send(&mut self, now: Ns) -> bool {
        if now >= self.retry_at {
            self.pending.append(&mut self.refused);
            self.refused_shards.clear();
            self.retry_at = Ns::MAX;
            self.all_is_old();
        }
        self.under_way.is_none() && now >= self.resume_at && !self.pending.is_empty()
    }

    /// When a message is to be made, if none is under way.
    pub(super) fn due_at(&self) -> Ns {
        let resume_at = match self.under_way.is_some() || self.pending.is_empty() {
            true => Ns::MAX,
            false => self.resume_at,
        };
        resume_at.min(self.retry_at)
    }

    /// From now on [`is_drained`](Channel::is_drained) asks for what is known now.
    pub(super) fn begin_drain(&mut self) {
        self.all_is_old();
        self.old.is_sent = !self.sent.is_empty();
    }

    /// All that is pending counts as old: what is was put back among it.
    fn all_is_old(&mut self) {
        self.old.gated = self.pending.gated.len();
        self.old.free = self.pending.free.len();
        self.old.is_flush = !self.pending.flushed.is_empty();
    }

    /// Whether everything of `shards` has been taken that was known when the drain began.
    pub(super) fn is_drained(&self, shards: &ShardSet) -> bool {
        let Old { gated, free, .. } = self.old;
        let is_behind = self.old.is_sent || self.old.is_flush || gated > 0 || free > 0;
        !is_behind && !self.refused.has_any(shards)
    }

    /// Pending changes were dropped, or moved between the lists: if any of them were old, all that are left are.
    pub(super) fn pending_changed(&mut self) {
        if self.old.is_flush || self.old.gated > 0 || self.old.free > 0 {
            self.all_is_old();
        }
    }

    /// A message has taken the flushed shards and so many bytes of the lists of pending names.
    pub(super) fn taken_from_pending(&mut self, gated: usize, free: usize) {
        let Old { is_flush, .. } = self.old;
        self.old.is_sent |= is_flush || self.old.gated > 0 || self.old.free > 0;
        // What nobody is to have any more is taken from pending and not sent: no reply will end it.
        self.old.is_sent &= !self.sent.is_empty();
        self.old.is_flush = false;
        self.old.gated = self.old.gated.saturating_sub(gated);
        self.old.free = self.old.free.saturating_sub(free);
    }

    /// Leaves each free name once; the order is another one then.
    pub(super) fn compact(&mut self) {
        compact(&mut self.pending.free);
        self.compact_at = 2 * self.pending.free.len();
        if self.old.free > 0 {
            self.old.free = self.pending.free.len();
        }
    }

    /// The message with this number, about what is [sent](Channel::sent), is under way.
    pub(super) fn begun(&mut self, number: u64) {
        self.under_way = Some(number);
    }

    /// What was to be sent comes back, and is sent again after a pause.
    pub(super) fn put_back(&mut self, now: Ns) {
        self.under_way = None;
        self.pending.append(&mut self.sent);
        if std::mem::take(&mut self.old.is_sent) {
            self.all_is_old();
        }
        self.resume_at = now + self.next_pause();
    }

    /// Takes the end of a message; `None`: it was lost, or never sent. Does nothing if it is not the message under way.
    pub(super) fn ended(
        &mut self,
        number: u64,
        reply: Option<CopyReply>,
        shard_of: impl Fn(&Entry<'_>) -> ShardId,
        now: Ns,
    ) {
        if self.under_way != Some(number) {
            return;
        }
        let Some(CopyReply::Taken { refused }) = reply else {
            return self.put_back(now);
        };
        self.under_way = None;
        self.old.is_sent = false;
        if refused.is_empty() {
            self.pause = PAUSE_MIN;
        } else {
            self.sent.move_shards(&refused, shard_of, &mut self.refused);
            self.refused_shards.extend(refused);
            self.retry_at = now + self.next_pause();
        }
        self.sent.clear();
    }

    fn next_pause(&mut self) -> Ns {
        let pause = self.pause;
        self.pause = Ns(pause.0 * 2).min(PAUSE_MAX);
        pause
    }
}
