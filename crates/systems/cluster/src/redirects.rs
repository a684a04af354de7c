//! [`Redirects`]: how a client finds the owner of a shard with a map that may be old.

use crate::{Epoch, Map, Member, Routed, ShardId};
use drover_base::Ns;
use std::sync::Arc;

/// First pause before a request that was answered "elsewhere" under the newest map is sent again; each pause is twice the one
/// before. *(as with [maps of partitions](https://github.com/drover-kv/drover/blob/main/docs/decisions/0024-a-map-of-partitions.md))*
pub const PAUSE_FIRST: Ns = Ns::from_ms(1);
/// Most "elsewhere" answers to one request: with the pauses above, half a second.
pub const ELSEWHERE_MAX: u8 = 9;

/// What a client does with a request that was answered "elsewhere". It was not executed, so sending it again is safe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Redirect {
    /// Sends it at once: the map has changed since it was sent.
    Again,
    /// Sends it after this pause: the shard is changing hands.
    Pause(Ns),
    /// Asks for a newer map, and sends it after this pause.
    Refresh(Ns),
    /// Gives up, and says that members disagree.
    GiveUp,
}

/// What a client remembers of one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Attempts {
    elsewhere: u8,
}

/// The client's map.
pub struct Redirects {
    map: Arc<Map>,
}

impl Redirects {
    /// A client that begins with this map, however old.
    pub fn new(map: Arc<Map>) -> Redirects {
        Redirects { map }
    }

    /// The newest map that the client knows.
    pub fn map(&self) -> &Arc<Map> {
        &self.map
    }

    /// Takes a map if it is newer. Returns whether it is.
    pub fn learn(&mut self, map: &Arc<Map>) -> bool {
        let is_newer = map.epoch() > self.map.epoch();
        if is_newer {
            self.map = map.clone();
        }
        is_newer
    }

    /// The member to ask for a shard, and what the request says of its way. `None`: nobody owns it, as far as the client knows.
    pub fn route(&self, shard: ShardId) -> Option<(&Member, Routed)> {
        Some((self.map.owner(shard)?, Routed::direct(self.map.epoch())))
    }

    /// A request that was sent under the map of epoch `sent` was answered "elsewhere" by a member with a map of epoch `theirs`.
    pub fn elsewhere(&self, attempts: &mut Attempts, sent: Epoch, theirs: Epoch) -> Redirect {
        let own = self.map.epoch();
        match self.nowhere(attempts) {
            Redirect::Refresh(_) if own > sent && own >= theirs => Redirect::Again,
            // The member is behind, and will hear of the newer map itself.
            Redirect::Refresh(pause) if own > theirs => Redirect::Pause(pause),
            other => other,
        }
    }

    /// A request had [nowhere to go](Redirects::route), or no map led it to the member that answered "elsewhere".
    pub fn nowhere(&self, attempts: &mut Attempts) -> Redirect {
        attempts.elsewhere = attempts.elsewhere.saturating_add(1);
        match attempts.elsewhere {
            0..=ELSEWHERE_MAX => Redirect::Refresh(PAUSE_FIRST * (1 << (attempts.elsewhere - 1))),
            _ => Redirect::GiveUp,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Advert, Draft, Standing};

    /// A map with this epoch, whose only shard belongs to one member.
    fn map(epoch: u64) -> Arc<Map> {
        let advert = Advert::new("a", 1, vec!["shm:a".to_string()]).expect("a sound advert");
        let mut map = Map::none(1);
        for incarnation in 1..=epoch {
            let mut draft = Draft::after(&map);
            draft.remove(|_| true);
            let advert = advert.clone();
            draft.add(Member { advert, incarnation }, Standing::Joining);
            draft.assign(ShardId(0), 0);
            map = Arc::new(draft.finish().expect("a change"));
        }
        map
    }

    #[test]
    fn a_newer_map_is_tried_at_once_and_the_same_one_later() {
        let mut redirects = Redirects::new(map(3));
        let mut attempts = Attempts::default();
        let (owner, routed) = redirects.route(ShardId(0)).expect("an owner");
        assert_eq!((owner.incarnation, routed), (3, Routed::direct(Epoch(3))));
        let mut answer =
            |redirects: &Redirects, theirs| redirects.elsewhere(&mut attempts, Epoch(3), Epoch(theirs));
        assert_eq!(answer(&redirects, 4), Redirect::Refresh(Ns::from_ms(1)));
        assert_eq!(
            answer(&redirects, 3),
            Redirect::Refresh(Ns::from_ms(2)),
            "it changes hands"
        );
        assert_eq!(
            answer(&redirects, 2),
            Redirect::Pause(Ns::from_ms(4)),
            "it is behind"
        );
        assert!(redirects.learn(&map(4)) && !redirects.learn(&map(4)) && !redirects.learn(&map(2)));
        assert_eq!(answer(&redirects, 4), Redirect::Again);
        assert_eq!(answer(&redirects, 5), Redirect::Refresh(Ns::from_ms(16)));
    }

    #[test]
    fn members_that_disagree_for_ever_are_given_up() {
        let redirects = Redirects::new(map(1));
        let mut attempts = Attempts::default();
        let mut next = || redirects.elsewhere(&mut attempts, Epoch(1), Epoch(1));
        let paused: u64 = (0..ELSEWHERE_MAX)
            .map(|_| match next() {
                Redirect::Refresh(pause) => pause.0,
                other => panic!("{other:?}"),
            })
            .sum();
        assert_eq!(Ns(paused), Ns::from_ms(511));
        assert_eq!((next(), next()), (Redirect::GiveUp, Redirect::GiveUp));
    }

    #[test]
    fn a_shard_that_nobody_owns_is_asked_for_later() {
        let mut draft = Draft::after(&map(2));
        draft.remove(|_| true);
        let redirects = Redirects::new(Arc::new(draft.finish().expect("a change")));
        assert!(redirects.route(ShardId(0)).is_none());
        let mut attempts = Attempts::default();
        assert_eq!(redirects.nowhere(&mut attempts), Redirect::Refresh(PAUSE_FIRST));
        assert_eq!(
            redirects.nowhere(&mut attempts),
            Redirect::Refresh(PAUSE_FIRST * 2)
        );
    }
}
