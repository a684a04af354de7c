//! [`Contents`]: what a member's cores hold of each shard, and so whether the shard may be served, received or kept for another member.
//!
//! ```text
//!          begin                    discard
//!   Clean --------> Held ------------------------> Void -----> Sweeping -----> Clean
//!     | keep         ^ adopt         discard        ^  take_void         swept
//!     |------> Kept -+------------------------------|
//!     | start        | adopt                        |
//!     '------> Arriving ----> Arrived --------------'
//!                  |   finished         forget      |
//!                  '--------> Dropped --------------'
//!                     forget        finished
//! ```
//! Void items are deleted before anything else happens to their shard: the shard is neither served, nor received, nor kept meanwhile.

use drover_cluster::ShardId;

/// What the cores hold of one shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Content {
    /// No items.
    #[default]
    Clean,
    /// The items of the member's tenure.
    Held,
    /// A copy of another member's items.
    Kept,
    /// A hand-over is storing items.
    Arriving,
    /// A hand-over has ended; whether its items count is for the map to say.
    Arrived,
    /// The items are void, and a hand-over may still be storing some.
    Dropped,
    /// The items are void.
    Void,
    /// The items are void and being deleted.
    Sweeping,
}

#[derive(Clone, Copy, Default)]
struct Shard {
    content: Content,
    /// What the shard becomes as soon as it is clean: [`Content::Held`] or [`Content::Kept`].
    next: Option<Content>,
}

/// Where adopted items came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Adopted {
    /// A hand-over.
    Received,
    /// A copy that this member kept.
    Promoted,
}

/// What the cores hold, by shard.
pub(crate) struct Contents(Vec<Shard>);

impl Contents {
    /// Nothing, as when the process starts.
    pub(crate) fn new(shard_count: usize) -> Contents {
        Contents(vec![Shard::default(); shard_count])
    }

    /// Whether a shard's items are those of the member's tenure, so that it may be served.
    pub(crate) fn is_held(&self, shard: ShardId) -> bool {
        self.0[shard.index()].content == Content::Held
    }

    /// Whether the shard has room for a copy that another member sends: nothing void is in the way.
    pub(crate) fn is_kept(&self, shard: ShardId) -> bool {
        self.0[shard.index()].content == Content::Kept
    }

    /// Whether a hand-over of the shard could start.
    pub(crate) fn is_clean(&self, shard: ShardId) -> bool {
        self.0[shard.index()].content == Content::Clean
    }

    /// Whether a hand-over of the shard is under way.
    pub(crate) fn is_arriving(&self, shard: ShardId) -> bool {
        self.0[shard.index()].content == Content::Arriving
    }

    /// Whether items of the shard are to be deleted.
    pub(crate) fn is_void(&self, shard: ShardId) -> bool {
        let content = self.0[shard.index()].content;
        matches!(content, Content::Dropped | Content::Void | Content::Sweeping)
    }

    /// The shard begins without items.
    pub(crate) fn begin(&mut self, shard: ShardId) {
        self.0[shard.index()].becomes(Content::Held);
    }

    /// The member keeps a copy of the shard, which begins without items.
    pub(crate) fn keep(&mut self, shard: ShardId) {
        self.0[shard.index()].becomes(Content::Kept);
    }

    /// What has arrived of the shard, or the copy that the member keeps, is what it serves.
    pub(crate) fn adopt(&mut self, shard: ShardId) -> Adopted {
        let it = &mut self.0[shard.index()];
        if it.content == Content::Arrived {
            it.content = Content::Held;
            return Adopted::Received;
        }
        // The copy of a shard without items is complete before anything was stored, even before the void items here are deleted.
        let is_kept = it.content == Content::Kept || it.next == Some(Content::Kept);
        debug_assert!(is_kept, "{shard}: {:?}", it.content);
        match it.content {
            Content::Kept => it.content = Content::Held,
            _ => it.becomes(Content::Held),
        }
        Adopted::Promoted
    }

    /// What the member held or kept is void.
    pub(crate) fn discard(&mut self, shard: ShardId) {
        let it = &mut self.0[shard.index()];
        it.next = None;
        if matches!(it.content, Content::Held | Content::Kept) {
            it.content = Content::Void;
        }
    }

    /// What has arrived is void.
    pub(crate) fn forget(&mut self, shard: ShardId) {
        let it = &mut self.0[shard.index()];
        it.content = match it.content {
            Content::Arriving => Content::Dropped,
            Content::Arrived => Content::Void,
            other => other,
        };
    }

    /// A hand-over starts to store items; only of a clean shard.
    pub(crate) fn start(&mut self, shard: ShardId) {
        debug_assert!(self.is_clean(shard), "{shard}");
        self.0[shard.index()].content = Content::Arriving;
    }

    /// The hand-over stores nothing any more. `stored`: whether it may have stored anything.
    pub(crate) fn finished(&mut self, shard: ShardId, stored: bool) {
        let it = &mut self.0[shard.index()];
        it.content = match (it.content, stored) {
            (Content::Arriving | Content::Dropped, false) => Content::Clean,
            (Content::Arriving, true) => Content::Arrived,
            (Content::Dropped, true) => Content::Void,
            (other, _) => other,
        };
        it.go_on_if_clean();
    }

    /// Whether a shard with void items is to begin, or to be kept.
    pub(crate) fn has_waiting(&self) -> bool {
        let waits = |it: &Shard| it.next.is_some() && it.content == Content::Void;
        self.0.iter().any(waits)
    }

    /// Takes all shards with void items, to delete them.
    pub(crate) fn take_void(&mut self) -> Vec<ShardId> {
        let mut taken = Vec::new();
        for (it, shard) in self.0.iter_mut().zip((0..).map(ShardId)) {
            if it.content == Content::Void {
                it.content = Content::Sweeping;
                taken.push(shard);
            }
        }
        taken
    }

    /// The items of these shards are deleted, or not, if the cores did not answer.
    pub(crate) fn swept(&mut self, shards: &[ShardId], is_done: bool) {
        for shard in shards {
            let it = &mut self.0[shard.index()];
            it.content = if is_done { Content::Clean } else { Content::Void };
            it.go_on_if_clean();
        }
    }
}

impl Shard {
    fn becomes(&mut self, next: Content) {
        self.next = Some(next);
        self.go_on_if_clean();
    }

    fn go_on_if_clean(&mut self) {
        if self.content == Content::Clean {
            self.content = self.next.take().unwrap_or(Content::Clean);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARD: ShardId = ShardId(1);

    #[test]
    fn a_shard_begins_only_when_its_void_items_are_deleted() {
        let mut contents = Contents::new(2);
        contents.begin(SHARD);
        assert!(contents.is_held(SHARD));
        contents.discard(SHARD);
        contents.begin(SHARD);
        assert!(!contents.is_held(SHARD) && !contents.is_clean(SHARD));
        assert_eq!(contents.take_void(), [SHARD]);
        contents.swept(&[SHARD], false);
        assert!(!contents.is_held(SHARD));
        assert_eq!(contents.take_void(), [SHARD]);
        contents.swept(&[SHARD], true);
        assert!(contents.is_held(SHARD));
    }

    #[test]
    fn a_hand_over_that_is_forgotten_leaves_void_items_when_it_has_ended() {
        let mut contents = Contents::new(2);
        contents.start(SHARD);
        contents.begin(SHARD);
        contents.forget(SHARD);
        assert_eq!(contents.take_void(), [], "the hand-over may still store");
        contents.finished(SHARD, true);
        assert_eq!(contents.take_void(), [SHARD]);
        contents.swept(&[SHARD], true);
        assert!(contents.is_held(SHARD), "the shard has begun meanwhile");
    }

    #[test]
    fn what_has_arrived_is_adopted_or_void() {
        let mut contents = Contents::new(2);
        contents.start(SHARD);
        contents.finished(SHARD, true);
        contents.adopt(SHARD);
        assert!(contents.is_held(SHARD));
        contents.discard(SHARD);
        contents.swept(&[SHARD], true);
        contents.start(SHARD);
        contents.finished(SHARD, false);
        assert!(contents.is_clean(SHARD), "nothing came");
    }

    #[test]
    fn a_copy_is_kept_only_when_void_items_are_deleted_and_may_be_promoted() {
        let mut contents = Contents::new(2);
        contents.begin(SHARD);
        contents.discard(SHARD);
        contents.keep(SHARD);
        assert!(contents.has_waiting() && !contents.is_kept(SHARD));
        assert_eq!(contents.take_void(), [SHARD]);
        contents.swept(&[SHARD], true);
        assert!(contents.is_kept(SHARD) && !contents.is_held(SHARD) && !contents.is_clean(SHARD));
        assert_eq!(contents.adopt(SHARD), Adopted::Promoted);
        assert!(contents.is_held(SHARD));
        contents.discard(SHARD);
        assert!(contents.is_void(SHARD));
    }

    #[test]
    fn an_empty_copy_that_is_promoted_while_void_items_are_there_waits_for_their_end() {
        let mut contents = Contents::new(2);
        contents.keep(SHARD);
        contents.discard(SHARD);
        contents.keep(SHARD);
        assert_eq!(contents.take_void(), [SHARD]);
        assert_eq!(contents.adopt(SHARD), Adopted::Promoted);
        assert!(!contents.is_held(SHARD));
        contents.swept(&[SHARD], true);
        assert!(contents.is_held(SHARD));
    }

    #[test]
    fn a_copy_that_ends_before_it_began_is_none() {
        let mut contents = Contents::new(2);
        contents.keep(SHARD);
        contents.discard(SHARD);
        contents.keep(SHARD);
        contents.discard(SHARD);
        contents.take_void();
        contents.swept(&[SHARD], true);
        assert!(contents.is_clean(SHARD));
    }
}
