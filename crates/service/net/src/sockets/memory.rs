//! Memory of a core's connections when it becomes scarce, and those that are silent for too long.
//!
//! Unfinished requests: a long one gets a block of usual length within the budget and, when it has filled that, one for
//! all of it; or waits unread. Those that had whole requests before go first, then those that need least. While some wait,
//! senders that get nowhere lose their connections, as many as are needed. *(Our choice, against clients that claim much
//! and send little: what they send is what they hold.)* Waiting replies: each connection begins no further request while its output is full,
//! so it holds at most one long reply beyond the limit; if all together are beyond the budget, those that took nothing
//! for the longest time lose their connections.

use super::{Sockets, enqueue};
use crate::connection::Connection;
use crate::{Poller, Protocol, Token, pool};
use drover_base::Ns;
use std::cmp::Reverse;

/// A long request whose sender says nothing for so long makes space for others that wait, seconds.
const STALL_S: u32 = 2;
/// The same however slowly it comes.
const SLOW_S: u32 = 10;

impl<T: Protocol, P: Poller> Sockets<T, P> {
    /// Another second.
    pub(super) fn tick(&mut self) {
        if self.options.idle_timeout_s > 0 {
            self.close_silent();
        }
        if !self.hungry.is_empty() {
            self.shed_senders();
        }
    }

    /// Those from which nothing came for too long. Cost: a look at every connection, once a second.
    fn close_silent(&mut self) {
        let (now_s, patience) = (self.now_s, self.options.idle_timeout_s);
        let silent = |last_s: u32| now_s.saturating_sub(last_s) >= patience;
        let victims: Vec<Token> = self
            .connections
            .iter_mut()
            .filter(|(_, connection)| silent(connection.last_s))
            .map(|(token, _)| token)
            .collect();
        for token in victims {
            self.counters.idle_kicks += 1;
            self.close(token);
        }
    }

    /// Of those who wait for memory, the first for whom there is some tries again. Cost: a look at all who wait, if any
    /// memory came back.
    pub(super) fn feed(&mut self) {
        if self.hungry.is_empty() || self.requests.given() == self.starved_at {
            return;
        }
        self.forget_gone();
        let (connections, requests) = (&mut self.connections, &self.requests);
        let first = self.hungry.iter().enumerate().filter_map(|(nth, &token)| {
            let connection = connections.get_mut(token)?;
            let wanted = connection.wanted_bytes();
            requests
                .has_space(wanted)
                .then_some((!connection.has_been_served, wanted, nth))
        });
        let Some((_, _, nth)) = first.min() else {
            self.starved_at = self.requests.given();
            return;
        };
        // One at a time: it takes its memory in the next step.
        let token = self.hungry.remove(nth).expect("it is among them");
        if let Some(connection) = self.connections.get_mut(token) {
            connection.hungry = false;
            enqueue(&mut self.queue, token, connection);
        }
    }

    fn forget_gone(&mut self) {
        let connections = &mut self.connections;
        self.hungry.retain(|&token| connections.get_mut(token).is_some());
    }

    /// Senders that get nowhere, as many as hold what others wait for, those that take longest first.
    fn shed_senders(&mut self) {
        self.forget_gone();
        for small in [true, false] {
            let connections = &mut self.connections;
            let wanted = |&token: &Token| connections.get_mut(token).map_or(0, |c| c.wanted_bytes());
            let missing = self.hungry.iter().map(wanted);
            let missing = missing.filter(|&bytes| pool::is_small(bytes) == small).sum();
            self.shed_standing(small, missing);
        }
    }

    /// Some who hold `bytes` in small or in long blocks.
    fn shed_standing(&mut self, small: bool, bytes: usize) {
        let now_s = self.now_s;
        let held = |c: &Connection<T>| c.rest.data.len();
        let stands = |c: &Connection<T>| now_s - c.last_s >= STALL_S || now_s - c.long_since_s >= SLOW_S;
        let mut victims: Vec<(u32, usize, Token)> = self
            .connections
            .iter_mut()
            .filter(|(_, c)| !c.hungry && held(c) > 0 && pool::is_small(held(c)) == small && stands(c))
            .map(|(token, c)| (c.long_since_s, held(c), token))
            .collect();
        victims.sort_unstable_by_key(|&(since_s, held, _)| (since_s, Reverse(held)));
        let mut freed = 0;
        for (_, held, token) in victims {
            if freed >= bytes {
                return;
            }
            freed += held;
            self.shed("its request stands still while others wait for memory", token);
        }
    }

    /// The beginnings of requests are kept whatever the budget says, since they were read: if they are beyond it, a
    /// connection that never had a whole request goes, and of those the one that holds most. False if there is none.
    pub(super) fn shed_beginner(&mut self) -> bool {
        let victim = self
            .connections
            .iter_mut()
            .filter(|(_, c)| !c.rest.data.is_empty() && pool::is_small(c.rest.data.len()))
            .max_by_key(|(_, c)| (!c.has_been_served, c.rest.data.len(), Reverse(c.last_s)))
            .map(|(token, _)| token);
        let Some(token) = victim else { return false };
        self.shed("memory for the beginnings of requests is used up", token);
        true
    }

    fn shed(&mut self, why: &str, token: Token) {
        self.counters.shed += 1;
        tracing::debug!("a connection is closed: {why}");
        self.close(token);
    }

    /// The reader that took nothing for the longest time. False if there is none.
    pub(super) fn shed_reader(&mut self) -> bool {
        let victim = self
            .connections
            .iter_mut()
            .filter(|(_, c)| c.blocked)
            .min_by_key(|(_, c)| (c.last_s, Reverse(c.output.len())))
            .map(|(token, _)| token);
        let Some(token) = victim else { return false };
        self.shed(
            "it does not take its replies and memory for replies is used up",
            token,
        );
        true
    }

    /// When there is something to do although nothing arrives.
    pub(super) fn wake_at(&self, now: Ns) -> Ns {
        let timers = self.options.idle_timeout_s > 0 && self.counters.current > 0;
        let second = match timers || !self.hungry.is_empty() {
            true => now + Ns::from_s(1),
            false => Ns::MAX,
        };
        second.min(self.paused.unwrap_or(Ns::MAX))
    }
}
