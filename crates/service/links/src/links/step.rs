//! What a step of [`Links`] does.

use super::{BELL, Failed, INCOMING, Links, enqueue};
use crate::dialing::DialFailure;
use crate::handler::{LinkHandler, Source};
use crate::incoming::Incoming;
use crate::outgoing::{LinkFailure, State};
use drover_base::{Ns, Progress};
use drover_net::{Event, Interest, Poller};
use std::io::ErrorKind;

impl Links {
    /// Handles what has arrived, at most one read of each link, and closes links that have failed. Returns `Busy` if it did
    /// something or has more to do. `now` is also the time of all that follows until the next step.
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
                enqueue(&mut self.turns, event.token, &mut link.is_queued);
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
        enqueue(&mut self.turns, event.token, &mut link.is_queued);
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
                // The event may also show what came behind the verdict: the end.
                link.notice(event);
                enqueue(&mut self.turns, event.token, &mut link.is_queued);
                tracing::debug!("linked to core {} of member {}", link.core, link.name);
                self.round.counters.outgoing += 1;
                self.dirty.push(event.token);
            }
            Err(failure) => self.close(event.token, Failed::Dial(failure), handler),
        }
    }

    /// A link reads once.
    fn turn<H: LinkHandler>(&mut self, token: u64, handler: &mut H) {
        self.round.serving = Some(token);
        let done = match self.incoming_slot(token) {
            Some(slot) => self.serve(slot, handler),
            None => self.take_replies(token as usize, handler),
        };
        self.round.serving = None;
        if let Err(failure) = done {
            self.close(token, Failed::Link(failure), handler);
        }
    }

    fn serve<H: LinkHandler>(&mut self, slot: usize, handler: &mut H) -> Result<(), LinkFailure> {
        // It may have been closed since it was given a turn.
        let Some(link) = &mut self.incoming[slot] else {
            return Ok(());
        };
        let (round, token) = (&mut self.round, INCOMING | slot as u64);
        link.is_queued = false;
        let had_replies = !link.queue.is_empty();
        let served = link.turn(handler, &mut round.buffer, &mut round.reply, &self.options);
        if !link.queue.is_empty() && !had_replies {
            self.dirty.push(token);
        }
        round.counters.served += served?;
        if link.has_turn(&self.options) {
            enqueue(&mut self.turns, token, &mut link.is_queued);
        }
        Ok(())
    }

    fn take_replies<H: LinkHandler>(&mut self, route: usize, handler: &mut H) -> Result<(), LinkFailure> {
        let (link, round) = (&mut self.outgoing[route], &mut self.round);
        link.is_queued = false;
        let (bytes, more) = link.read(handler, &mut round.buffer, &self.options, round.now)?;
        round.counters.reply_bytes += bytes as u64;
        if more {
            enqueue(&mut self.turns, route as u64, &mut link.is_queued);
        }
        Ok(())
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
        for (slot, link) in self.incoming.iter_mut().enumerate() {
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
        if matches!(link.state, State::Closed { .. }) {
            return;
        }
        let retry_at = match &failed {
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

    /// The life of a peer has ended: links to it are closed once nothing waits for a reply from them, and none is made again. A process that
    /// lost its lease and goes on has another number, and answers what it was asked under the old one.
    pub fn retire_peer(&mut self, peer: u16) {
        for link in self.outgoing.iter_mut().filter(|link| link.peer == peer) {
            link.retire();
        }
    }

    /// Closes the incoming links whose replies have not all been written: those must not leave any more.
    pub fn close_unsent<H: LinkHandler>(&mut self, handler: &mut H) {
        for slot in 0..self.incoming.len() {
            let has_replies = |link: &Incoming| !link.queue.is_empty();
            if self.incoming[slot].as_ref().is_some_and(has_replies) {
                let token = INCOMING | slot as u64;
                self.close(token, Failed::Link(LinkFailure::Void), handler);
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
        Failed::Link(LinkFailure::Retired) => tracing::debug!("the link {link} was closed: {failed}"),
        Failed::Link(LinkFailure::System(error)) if error.kind() == ErrorKind::UnexpectedEof => {
            tracing::debug!("the link {link} has ended: {failed}");
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
