//! [`CopyNews`]: what the owner of shards knows of their copies, until a map says so.

use crate::{Draft, Epoch, Map, ShardId};
use std::collections::BTreeMap;

/// What has become of a copy, in the order in which the later word holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Fate {
    Filled,
    Failed,
}

/// Copies by shard, with the tenure that is meant.
#[derive(Default)]
pub(crate) struct CopyNews(BTreeMap<ShardId, (Epoch, Fate)>);

impl CopyNews {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A copy that has failed meanwhile stays failed: it begins again under another tenure.
    pub(crate) fn filled(&mut self, copies: &[(ShardId, Epoch)]) {
        self.note(copies, Fate::Filled);
    }

    pub(crate) fn failed(&mut self, copies: &[(ShardId, Epoch)]) {
        self.note(copies, Fate::Failed);
    }

    /// News of an earlier tenure is old.
    fn note(&mut self, copies: &[(ShardId, Epoch)], fate: Fate) {
        for (shard, tenure) in copies {
            let news = self.0.entry(*shard).or_insert((*tenure, fate));
            *news = (*news).max((*tenure, fate));
        }
    }

    /// Forgets what this map says, and what is of tenures that it does not have.
    pub(crate) fn follow(&mut self, map: &Map) {
        self.0.retain(|shard, (tenure, fate)| {
            let copy = map.copy(*shard).filter(|copy| copy.tenure == *tenure);
            copy.is_some_and(|copy| *fate == Fate::Failed || !copy.is_complete)
        });
    }

    pub(crate) fn apply(&self, draft: &mut Draft) {
        for (shard, (tenure, fate)) in &self.0 {
            match fate {
                Fate::Filled => draft.complete_copy(*shard, *tenure),
                Fate::Failed => draft.restart_copy(*shard, *tenure),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Advert, Copy, Member, Standing};

    const SHARD: ShardId = ShardId(0);

    fn changed(map: &Map, change: impl FnOnce(&mut Draft)) -> Option<Map> {
        let mut draft = Draft::after(map);
        change(&mut draft);
        draft.finish()
    }

    /// A map with a copy of the only shard, which has just begun.
    fn begun() -> (Map, Epoch) {
        let member = |name: &str| Member {
            advert: Advert::new(name, 1, vec![format!("shm:{name}")]).expect("a sound advert"),
            incarnation: 1,
        };
        let owned = changed(&Map::none(1), |draft| {
            draft.add(member("a"), Standing::Settled);
            draft.add(member("b"), Standing::Settled);
            draft.assign(SHARD, 0);
        });
        let map = changed(&owned.expect("a change"), |draft| {
            assert!(draft.begin_copy(SHARD, 1));
        });
        let map = map.expect("a change");
        let tenure = map.epoch();
        (map, tenure)
    }

    fn copy_after(map: &Map, news: &CopyNews) -> Option<Copy> {
        changed(map, |draft| news.apply(draft))?.copy(SHARD)
    }

    #[test]
    fn a_filled_copy_is_completed_and_then_forgotten() {
        let ((map, tenure), mut news) = (begun(), CopyNews::default());
        assert!(news.is_empty());
        news.filled(&[(SHARD, tenure)]);
        news.follow(&map);
        assert!(!news.is_empty(), "the map does not say so yet");
        let complete = changed(&map, |draft| news.apply(draft)).expect("a change");
        assert!(complete.copy(SHARD).is_some_and(|copy| copy.is_complete));
        news.follow(&complete);
        assert!(news.is_empty());
    }

    #[test]
    fn a_copy_that_has_failed_begins_again_whatever_else_was_heard_of_it() {
        let ((map, tenure), mut news) = (begun(), CopyNews::default());
        news.failed(&[(SHARD, tenure)]);
        news.filled(&[(SHARD, tenure)]);
        let copy = copy_after(&map, &news).expect("a copy");
        assert!(copy.tenure > tenure && !copy.is_complete);
        let complete = changed(&map, |draft| draft.complete_copy(SHARD, tenure)).expect("a change");
        news.follow(&complete);
        assert!(!news.is_empty(), "a complete copy may fail, too");
        let again = changed(&complete, |draft| news.apply(draft)).expect("a change");
        news.follow(&again);
        assert!(news.is_empty());
    }

    #[test]
    fn news_of_an_earlier_copy_changes_nothing() {
        let ((map, tenure), mut news) = (begun(), CopyNews::default());
        let again = changed(&map, |draft| draft.restart_copy(SHARD, tenure)).expect("a change");
        for late in [CopyNews::filled, CopyNews::failed] {
            late(&mut news, &[(SHARD, tenure)]);
            assert_eq!(copy_after(&again, &news), None);
        }
        news.filled(&[(SHARD, again.epoch())]);
        news.failed(&[(SHARD, tenure)]);
        assert!(copy_after(&again, &news).is_some_and(|copy| copy.is_complete));
        news.follow(&map);
        assert!(news.is_empty(), "that map has no such copy");
    }
}
