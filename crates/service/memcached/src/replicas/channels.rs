//! [`Channels`]: all ways of a core to keepers, of which a step looks only at those that have something to do.

use super::channel::Channel;

/// Channels by their routes. A member has one for each core of each other member, also of those that are gone.
#[derive(Default)]
pub(super) struct Channels {
    all: Vec<Channel>,
    /// Routes of those that are not [idle](Channel::is_idle), and perhaps of some that are idle since a moment ago.
    busy: Vec<usize>,
}

impl Channels {
    /// The channel of a route, which leads to `peer`, to be given something to do.
    pub(super) fn reach(&mut self, route: usize, peer: u16) -> &mut Channel {
        while self.all.len() <= route {
            self.all.push(Channel::new(peer));
        }
        let channel = &mut self.all[route];
        channel.peer = peer;
        if !std::mem::replace(&mut channel.is_listed, true) {
            self.busy.push(route);
        }
        channel
    }

    /// Takes those that have become idle off the list.
    pub(super) fn drop_idle(&mut self) {
        let all = &mut self.all;
        self.busy.retain(|route| {
            let channel = &mut all[*route];
            channel.is_listed = !channel.is_idle();
            channel.is_listed
        });
    }

    /// Number of channels with something to do.
    pub(super) fn busy_count(&self) -> usize {
        self.busy.len()
    }

    /// The route of the `nth` of them.
    pub(super) fn busy_route(&self, nth: usize) -> usize {
        self.busy[nth]
    }

    /// The channels with something to do.
    pub(super) fn busy(&self) -> impl Iterator<Item = &Channel> {
        self.busy.iter().map(|route| &self.all[*route])
    }

    /// The channel of a route that a message was sent on.
    pub(super) fn get_mut(&mut self, route: usize) -> Option<&mut Channel> {
        self.all.get_mut(route)
    }

    /// All of them, idle or not.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Channel> {
        self.all.iter()
    }

    /// As [`iter`](Channels::iter).
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Channel> {
        self.all.iter_mut()
    }
}

impl std::ops::Index<usize> for Channels {
    type Output = Channel;

    fn index(&self, route: usize) -> &Channel {
        &self.all[route]
    }
}

impl std::ops::IndexMut<usize> for Channels {
    fn index_mut(&mut self, route: usize) -> &mut Channel {
        &mut self.all[route]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_cluster::ShardId;

    #[test]
    fn a_step_looks_only_at_channels_with_something_to_do() {
        let mut channels = Channels::default();
        for route in [900, 7] {
            channels.reach(route, 1).pending.flushed.push(ShardId(3));
            channels.reach(route, 1);
        }
        channels.reach(8, 2);
        channels.drop_idle();
        let routes: Vec<usize> = (0..channels.busy_count())
            .map(|nth| channels.busy_route(nth))
            .collect();
        assert_eq!((routes, channels.iter().count()), (vec![900, 7], 901));
        channels[900].pending.clear();
        channels[7].begun(1);
        channels.drop_idle();
        assert_eq!((channels.busy_count(), channels.busy_route(0)), (1, 7));
        channels.reach(900, 1);
        assert_eq!(channels.busy().count(), 2, "again");
    }
}
