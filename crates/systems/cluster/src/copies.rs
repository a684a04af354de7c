//! [`CopyNews`]: what the owner of shards knows of their copies, until a map says so.

use crate::{Draft, Epoch, Map, ShardId};
use std::collections::BTreeMap;

/// What has become of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
        for (shard, tenure) in copies {
            let news = self.0.entry(*shard).or_insert((*tenure, Fate::Filled));
            if news.0 < *tenure {
                *news = (*tenure, Fate::Filled);
            }
        }
    }

    pub(crate) fn failed(&mut self, copies: &[(ShardId, Epoch)]) {
        for (shard, tenure) in copies {
            self.0.insert(*shard, (*tenure, Fate::Failed));
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
