//! What a step of [`Links`] does.

use super::{BELL, Failed, INCOMING, Links};
use crate::dialing::DialFailure;
use crate::handler::{LinkHandler, Source};
use crate::incoming::Incoming;
use crate::outgoing::{LinkFailure, State};
use drover_base::{Ns, Progress};
use drover_net::{Event, Interest, Poller};
use std::io::ErrorKind;

impl Links {
    /// Handles what has arrived, at most one read of each link, and closes links that have failed. Returns `Busy` if it did
    /// something or has more to do. Messages sent before count from `now`.
    pub fn step<H: LinkHandler>(&mut self, handler: &mut H, now: Ns) -> Progress {
        self.round.now = now;
        let mut busy = !self.failed.is_empty();
        while let Some((token, failed)) = self.failed.pop() {
            self.close(token, failed, handler);
        }
        self.poller.poll(&mut self.round.events);
        for index in 0..self.round.events.len() {
            let event = self.round.events[index];
            self.notice(&event, handler);
        }
        let served = self.round.counters.served;
        busy |= !self.round.events.is_empty() || !self.turns.is_empty();
        for _ in 0..self.turns.len() {
            let Some(token) = self.turns.pop_front() else {
                break;
            };
            self.turn(token, handler);
        }
        if self.round.counters.served > served {
            handler.served();
        }
        if now >= self.round.tick_at {
            self.tick(handler);
        }
        match busy {
            true => Progress::Busy,
            false => Progress::Idle {
                wake_at: self.round.tick_at,
            },
        }
    }

    fn notice<H: LinkHandler>(&mut self, event: &Event, handler: &mut H) {
        if event.token == BELL {
            return self.admit();
        }
        if let Some(slot) = self.incoming_slot(event.token) {
            if let Some(link) = &mut self.incoming[slot] {
                link.notice(event);
                self.turns.push_back(event.token);
                if event.writable && !link.queue.is_empty() {
                    self.dirty.push(event.token);
                }
            }
            return;
        }
        let link = &mut self.outgoing[event.token as usize];
        if let State::Dialing(_) = link.state {
            return self.advance(event, handler);
        }
        link.notice(event);
        self.turns.push_back(event.token);
        if event.writable && !link.queue.is_empty() {
            self.dirty.push(event.token);
        }
    }

    /// Takes the links that the acceptor has put into the inbox.
    fn admit(&mut self) {
        for arrival in self.inbox.take_all() {
            self.round.source += 1;
            let free = self.incoming.iter().position(Option::is_none);
            let slot = free.unwrap_or(self.incoming.len());
            let link = Incoming::new(Source(self.round.source), arrival);
            let token = INCOMING | slot as u64;
            if let Err(error) = self.poller.add(link.fd(), token, Interest::ArrivalsAndSpace) {
                tracing::warn!("a link from member {} was closed: {error}", link.member());
                continue;
            }
            match free {
                Some(slot) => self.incoming[slot] = Some(link),
                None => self.incoming.push(Some(link)),
            }
            self.round.counters.incoming += 1;
            self.watch_times();
        }
    }

    /// Goes on making a link.
    fn advance<H: LinkHandler>(&mut self, event: &Event, handler: &mut H) {
        let route = event.token as usize;
        let link = &mut self.outgoing[route];
        let State::Dialing(dialing) = &mut link.state else {
            return;
        };
        match dialing.advance(event.writable) {
            Ok(false) => {}
            Ok(true) => {
                let state = std::mem::replace(&mut link.state, State::Wanted);
                if let State::Dialing(dialing) = state {
                    link.opened(dialing.into_socket(), self.round.now);
                }
                tracing::debug!("linked to core {} of member {}", link.core, link.name);
                self.round.counters.outgoing += 1;
                self.dirty.push(event.token);
            }
            Err(failure) => self.close(event.token, Failed::Dial(failure), handler),
        }
    }

    /// A link reads once.
    fn turn<H: LinkHandler>(&mut self, token: u64, handler: &mut H) {
        let (round, options) = (&mut self.round, &self.options);
        round.serving = Some(token);
        let done = if token & INCOMING != 0 {
            let Some(link) = &mut self.incoming[(token & !INCOMING) as usize] else {
                return;
            };
            let clean = link.queue.is_empty();
            let served = link.turn(handler, &mut round.buffer, &mut round.reply, options);
            if !link.queue.is_empty() && clean {
                self.dirty.push(token);
            }
            served.map(|served| {
                round.counters.served += served;
                link.has_turn(options)
            })
        } else {
            let link = &mut self.outgoing[token as usize];
            let read = link.read(handler, &mut round.buffer, options, round.now);
            read.map(|(bytes, more)| {
                round.counters.reply_bytes += bytes as u64;
                more
            })
        };
        round.serving = None;
        match done {
            Ok(false) => {}
            Ok(true) => self.turns.push_back(token),
            Err(failure) => self.close(token, Failed::Link(failure), handler),
        }
    }

    /// Looks at the times of all links.
    fn tick<H: LinkHandler>(&mut self, handler: &mut H) {
        let (now, options) = (self.round.now, &self.options);
        let mut failed = Vec::new();
        let mut any = false;
        for (route, link) in self.outgoing.iter_mut().enumerate() {
            any |= !matches!(link.state, State::Closed { .. });
            let was_empty = link.queue.is_empty();
            if let Some(failure) = link.overdue(options, now) {
                failed.push((route as u64, Failed::Dial(failure)));
            } else if let Err(failure) = link.tick(options, now) {
                failed.push((route as u64, Failed::Link(failure)));
            } else if was_empty && !link.queue.is_empty() {
                self.dirty.push(route as u64);
            }
        }
        for (slot, link) in self.incoming.iter().enumerate() {
            let Some(link) = link else { continue };
            any = true;
            if let Err(failure) = link.tick(options, now) {
                failed.push((INCOMING | slot as u64, Failed::Link(failure)));
            }
        }
        self.round.tick_at = match any {
            true => now + self.tick_every,
            false => Ns::MAX,
        };
        for (token, failed) in failed {
            self.close(token, failed, handler);
        }
    }

    fn close<H: LinkHandler>(&mut self, token: u64, failed: Failed, handler: &mut H) {
        if token & INCOMING != 0 {
            if let Some(link) = self.incoming[(token & !INCOMING) as usize].take() {
                log_end(&format_args!("from member {}", link.member()), &failed);
                self.round.counters.incoming -= 1;
                handler.source_closed(link.source);
            }
            return;
        }
        let route = token as usize;
        let link = &mut self.outgoing[route];
        if matches!(link.state, State::Closed { .. }) && !matches!(failed, Failed::Link(LinkFailure::Left)) {
            return;
        }
        let retry_at = match &failed {
            // The member's next life has another number.
            Failed::Link(LinkFailure::Left) => Ns::MAX,
            Failed::Link(_) => self.round.now,
            Failed::Dial(_) => self.round.now + link.failed(&self.options),
        };
        match &link.state {
            State::Open(_) => {
                self.round.counters.outgoing -= 1;
                self.round.counters.lost += 1;
                log_end(
                    &format_args!("to core {} of member {}", link.core, link.name),
                    &failed,
                );
            }
            State::Closed { .. } => {}
            State::Wanted | State::Dialing(_) => {
                self.round.counters.failed += 1;
                if link.is_first_failure() {
                    log_attempt(link.core, &link.name, &failed);
                }
            }
        }
        link.close(route, handler, retry_at);
    }

    /// Ends all links to a peer, for ever: it has left, or its life has ended.
    pub fn close_peer<H: LinkHandler>(&mut self, peer: u16, handler: &mut H) {
        for route in 0..self.outgoing.len() {
            if self.outgoing[route].peer == peer {
                self.close(route as u64, Failed::Link(LinkFailure::Left), handler);
            }
        }
    }

    /// Makes good for a step that panicked: the link whose message or reply was being handled is closed by the next step. For
    /// a caller that has caught the panic.
    pub fn recover(&mut self) {
        if let Some(token) = self.round.serving.take() {
            self.round.reply = drover_net::Output::new(0, usize::MAX);
            self.failed.push((token, Failed::Link(LinkFailure::Restarted)));
        }
    }
}

fn log_end(link: &std::fmt::Arguments<'_>, failed: &Failed) {
    match failed {
        Failed::Link(LinkFailure::Left) => tracing::debug!("the link {link} was closed: {failed}"),
        Failed::Link(LinkFailure::System(error)) if error.kind() == ErrorKind::UnexpectedEof => {
            tracing::info!("the link {link} has ended: {failed}");
        }
        _ => tracing::warn!("the link {link} was lost: {failed}"),
    }
}

fn log_attempt(core: u16, member: &str, failed: &Failed) {
    match failed {
        Failed::Dial(DialFailure::NoAddress) => {
            tracing::debug!("no link to core {core} of a member: {failed}");
        }
        _ => tracing::warn!("no link to core {core} of member {member}: {failed}; further attempts follow"),
    }
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failed::Link(failure) => failure.fmt(f),
            Failed::Dial(failure) => failure.fmt(f),
        }
    }
}
