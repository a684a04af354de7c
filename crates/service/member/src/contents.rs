//! [`Contents`]: what a member's cores hold of each shard, and so whether the shard may be served or received.
//!
//! ```text
//!            begin                discard
//!   Clean ----------> Held ------------------> Void -----> Sweeping -----> Clean
//!     |  start          ^ adopt                 ^  take_void         swept
//!     '-------> Arriving ----> Arrived ---------'
//!                  |   finished         forget  |
//!                  '--------> Dropped ----------'
//!                     forget        finished
//! ```
//! Void items are deleted before anything else happens to their shard: the shard is neither served nor received meanwhile.

use drover_cluster::ShardId;

/// What the cores hold of one shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Content {
    /// No items.
    #[default]
    Clean,
    /// The items of the member's tenure.
    Held,
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
    /// The shard is the member's, and begins as soon as it is clean.
    begins: bool,
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
        let it = &mut self.0[shard.index()];
        it.begins = true;
        it.begin_if_clean();
    }

    /// What has arrived of the shard is what the member serves.
    pub(crate) fn adopt(&mut self, shard: ShardId) {
        let it = &mut self.0[shard.index()];
        debug_assert_eq!(it.content, Content::Arrived, "{shard}");
        it.content = Content::Held;
    }

    /// What the member held is void.
    pub(crate) fn discard(&mut self, shard: ShardId) {
        let it = &mut self.0[shard.index()];
        it.begins = false;
        if it.content == Content::Held {
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
        it.begin_if_clean();
    }

    /// Whether a shard with void items is to begin.
    pub(crate) fn has_waiting(&self) -> bool {
        self.0.iter().any(|it| it.begins && it.content == Content::Void)
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
            it.begin_if_clean();
        }
    }
}

impl Shard {
    fn begin_if_clean(&mut self) {
        if self.begins && self.content == Content::Clean {
            *self = Shard {
                content: Content::Held,
                begins: false,
            };
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
}
