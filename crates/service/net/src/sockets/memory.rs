//! Shedding of connections when a core's memory is scarce, and closing of silent ones.
//!
//! Incomplete requests: a long request gets a block of usual length within the budget and, when that is full, one for
//! all of it; otherwise it stays unread. Connections that had whole requests before go first, then those that need
//! least. While some wait, senders that make no progress lose their connections, as many as needed. *(Our choice,
//! against clients that claim much and send little: they hold only as much memory as they send.)*
//!
//! Waiting replies: a connection begins no request while its output is full, so it holds at most one long reply beyond
//! the limit. If all connections together exceed the budget, those that took no output for the longest time lose their
//! connections.

use super::{Sockets, enqueue};
use crate::connection::Connection;
use crate::{Poller, Protocol, Token, pool};
use drover_base::Ns;
use std::cmp::Reverse;

impl<T: Protocol, P: Poller> Sockets<T, P> {
    /// Called once a second.
    pub(super) fn tick(&mut self) {
        if self.options.idle_timeout_s > 0 {
            self.close_silent();
        }
        if !self.hungry.is_empty() {
            self.shed_senders();
        }
        for token in self.sleeping.drain(..) {
            if let Some(connection) = self.connections.get_mut(token) {
                connection.lists.asleep = false;
                enqueue(&mut self.queue, token, connection);
            }
        }
    }

    /// Closes connections without input for too long. Cost: visits every connection, once a second.
    fn close_silent(&mut self) {
        let (now_s, patience) = (self.now_s, self.options.idle_timeout_s);
        let silent = |last_s: u32| now_s.saturating_sub(last_s) >= patience;
        let victims: Vec<Token> = self
            .connections
            .iter_mut()
            .filter(|(_, connection)| silent(connection.activity.last_s()))
            .map(|(token, _)| token)
            .collect();
        for token in victims {
            self.counters.idle_kicks += 1;
            if let Some(connection) = self.connections.get_mut(token) {
                tracing::info!("{} closed: silent for {patience} s", connection.known);
            }
            self.close(token);
        }
    }

    /// Lets the first waiting connection for which there is memory try again. Cost: visits all waiting connections, if
    /// any memory was returned.
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
                .then_some((!connection.activity.has_been_served(), wanted, nth))
        });
        let Some((_, _, nth)) = first.min() else {
            self.starved_at = self.requests.given();
            return;
        };
        // One at a time: it takes its memory in the next step.
        let token = self.hungry.remove(nth).expect("it is among them");
        if let Some(connection) = self.connections.get_mut(token) {
            connection.lists.hungry = false;
            enqueue(&mut self.queue, token, connection);
        }
    }

    fn forget_gone(&mut self) {
        let connections = &mut self.connections;
        self.hungry.retain(|&token| connections.get_mut(token).is_some());
    }

    /// Closes senders without progress, as many as hold the memory that others wait for, slowest first.
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

    /// Closes connections that hold `bytes` in small or in long blocks.
    fn shed_standing(&mut self, small: bool, bytes: usize) {
        let now_s = self.now_s;
        let held = |c: &Connection<T>| c.rest.data.len();
        let stands = |c: &Connection<T>| c.activity.is_stalled(now_s);
        let mut victims: Vec<(u32, usize, Token)> = self
            .connections
            .iter_mut()
            .filter(|(_, c)| !c.lists.hungry && held(c) > 0 && pool::is_small(held(c)) == small && stands(c))
            .map(|(token, c)| (c.activity.long_since_s(), held(c), token))
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

    /// Closes a connection if the beginnings of requests, which are kept regardless of the budget, exceed it: one that
    /// never had a whole request, and of those the one that holds most. Returns false if there is none.
    pub(super) fn shed_beginner(&mut self) -> bool {
        let victim = self
            .connections
            .iter_mut()
            .filter(|(_, c)| !c.rest.data.is_empty() && pool::is_small(c.rest.data.len()))
            .max_by_key(|(_, c)| {
                (
                    !c.activity.has_been_served(),
                    c.rest.data.len(),
                    Reverse(c.activity.last_s()),
                )
            })
            .map(|(token, _)| token);
        let Some(token) = victim else { return false };
        self.shed("memory for the beginnings of requests is used up", token);
        true
    }

    fn shed(&mut self, why: &str, token: Token) {
        self.counters.shed += 1;
        if let Some(connection) = self.connections.get_mut(token) {
            tracing::info!("{} closed: {why}", connection.known);
        }
        self.close(token);
    }

    /// Closes the reader that took no output for the longest time. Returns false if there is none.
    pub(super) fn shed_reader(&mut self) -> bool {
        let victim = self
            .connections
            .iter_mut()
            .filter(|(_, c)| c.readiness.is_blocked())
            .min_by_key(|(_, c)| (c.activity.last_s(), Reverse(c.output.len())))
            .map(|(token, _)| token);
        let Some(token) = victim else { return false };
        self.shed(
            "it does not take its replies and memory for replies is used up",
            token,
        );
        true
    }

    /// Time of the next work even if nothing arrives.
    pub(super) fn wake_at(&self, now: Ns) -> Ns {
        let timers = self.options.idle_timeout_s > 0 && self.counters.current > 0;
        let second = match timers || !self.hungry.is_empty() || !self.sleeping.is_empty() {
            true => now + Ns::from_s(1),
            false => Ns::MAX,
        };
        second.min(self.paused.unwrap_or(Ns::MAX))
    }
}
