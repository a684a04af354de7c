//! Memory of a core's connections when it becomes scarce, and those that are silent for too long.
//!
//! Unfinished requests: a long one gets its block within the budget, or waits unread. While some wait, a sender that
//! gets nowhere loses its connection. Waiting replies: each connection begins no further request while its output is full,
//! so it holds at most one long reply beyond the limit; if all together are beyond the budget, those that took nothing
//! for the longest time lose their connections.

use super::{Sockets, enqueue};
use crate::connection::Connection;
use crate::{Poller, Talk, Token};
use drover_base::Ns;

/// A long request whose sender says nothing for so long makes room for others that wait, seconds.
const STALL_S: u32 = 2;
/// The same however slowly it comes.
const SLOW_S: u32 = 10;

impl<T: Talk, P: Poller> Sockets<T, P> {
    /// Another second.
    pub(super) fn tick(&mut self) {
        if self.options.idle_timeout_s > 0 {
            self.close_silent();
        }
        if !self.hungry.is_empty() {
            self.shed_sender();
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

    /// The one that waits for memory longest tries again if there is some.
    pub(super) fn feed(&mut self) {
        while let Some(&token) = self.hungry.front() {
            if let Some(connection) = self.connections.get_mut(token) {
                if self.requests.has_room(connection.wanted_bytes()) {
                    connection.hungry = false;
                    enqueue(&mut self.queue, token, connection);
                    self.hungry.pop_front();
                }
                // One at a time: it takes its memory in the next step.
                return;
            }
            self.hungry.pop_front();
        }
    }

    /// The sender of the long request that takes longest, if it gets nowhere.
    fn shed_sender(&mut self) {
        let now_s = self.now_s;
        let victim = self
            .connections
            .iter_mut()
            .filter(|(_, c)| !c.hungry && c.rest.data.len() > super::BUFFER_BYTES)
            .filter(|(_, c)| now_s - c.last_s >= STALL_S || now_s - c.long_since_s >= SLOW_S)
            .min_by_key(|(_, c)| c.long_since_s)
            .map(|(token, _)| token);
        // When the beginnings of requests alone use everything up, one of them must go.
        let long = |c: &Connection<T>| !c.hungry && c.rest.data.len() > super::BUFFER_BYTES;
        let all_wait = !self.connections.iter_mut().any(|(_, c)| long(c));
        if let Some(token) = victim.or(self.hungry.front().copied().filter(|_| all_wait)) {
            self.counters.shed += 1;
            tracing::debug!(
                "a connection is closed: its long request stands still while others wait for memory"
            );
            self.close(token);
        }
    }

    /// The reader that took nothing for the longest time. False if there is none.
    pub(super) fn shed_reader(&mut self) -> bool {
        let victim = self
            .connections
            .iter_mut()
            .filter(|(_, c)| c.blocked)
            .min_by_key(|(_, c)| (c.last_s, std::cmp::Reverse(c.output.len())))
            .map(|(token, _)| token);
        let Some(token) = victim else { return false };
        self.counters.shed += 1;
        tracing::debug!(
            "a connection is closed: it does not take its replies and memory for replies is used up"
        );
        self.close(token);
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
