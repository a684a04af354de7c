//! [`Routes`]: how many messages are under way on each route, and on which one those of a shard are.
//!
//! Two requests of a connection about one key must not take two routes at a time, when the map changes between them: the second could
//! arrive first. Replies come in the order of the messages of a route, so two numbers per route and one per shard say whether any
//! message of a shard is unanswered.

use drover_cluster::{SHARD_COUNT, ShardId};

/// Messages of one route since the start.
#[derive(Clone, Copy, Default, Debug)]
struct Route {
    sent: u64,
    answered: u64,
}

/// The last message about a shard: its route, and its number there, counted from 1. 0: there was none.
#[derive(Clone, Copy, Default, Debug)]
struct Last {
    route: usize,
    number: u64,
}

/// The routes of a core. Cost: 64 KiB, and a line of it per message.
#[derive(Debug)]
pub(crate) struct Routes {
    routes: Vec<Route>,
    last: Box<[Last]>,
}

impl Routes {
    pub(crate) fn new() -> Routes {
        Routes {
            routes: Vec::new(),
            last: vec![Last::default(); SHARD_COUNT].into(),
        }
    }

    fn route(&mut self, route: usize) -> &mut Route {
        if self.routes.len() <= route {
            self.routes.resize(route + 1, Route::default());
        }
        &mut self.routes[route]
    }

    /// The next message on `route` will be about the shard.
    pub(crate) fn will_send_about(&mut self, shard: ShardId, route: usize) {
        let number = self.route(route).sent + 1;
        self.last[shard.index()] = Last { route, number };
    }

    /// A message was sent.
    pub(crate) fn sent(&mut self, route: usize) {
        self.route(route).sent += 1;
    }

    /// The oldest message under way on `route` was answered, or will never be.
    pub(crate) fn answered(&mut self, route: usize) {
        self.route(route).answered += 1;
    }

    /// The route on which messages of the shard are under way.
    #[inline]
    pub(crate) fn under_way(&self, shard: ShardId) -> Option<usize> {
        let last = self.last[shard.index()];
        let answered = self.routes.get(last.route).map_or(0, |route| route.answered);
        (last.number > answered).then_some(last.route)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_under_way_until_its_last_message_is_answered() {
        let mut routes = Routes::new();
        let [a, b] = [ShardId(1), ShardId(2)];
        assert_eq!(routes.under_way(a), None);
        for shard in [a, b, a] {
            routes.will_send_about(shard, 3);
            routes.sent(3);
        }
        routes.answered(3);
        assert_eq!((routes.under_way(a), routes.under_way(b)), (Some(3), Some(3)));
        routes.answered(3);
        assert_eq!((routes.under_way(a), routes.under_way(b)), (Some(3), None));
        routes.answered(3);
        assert_eq!(routes.under_way(a), None);
    }
}
