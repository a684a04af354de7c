//! [`Links`]: all links of a core.
//!
//! ```text
//! send:   a frame is queued on its route
//! step:   the poller's events; then each link with input reads once, serves messages or fills replies
//! flush:  one write for each link with something queued; links that are wanted begin to connect
//! ```

mod step;

use crate::dialing::{DialFailure, Dialing};
use crate::handshake::MemberIdentity;
use crate::inbox::LinkInbox;
use crate::incoming::Incoming;
use crate::options::{LinksOptions, PeerAddr};
use crate::outgoing::{LinkFailure, Outgoing, State};
use drover_base::Ns;
use drover_net::{Epoll, Event, Interest, Output, PendingReply, Poller};
use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Size of the core's buffer, which is the maximum of one read, bytes.
const BUFFER_BYTES: usize = 128 << 10;
/// Maximum time between two looks at the times of all links.
const TICK_MAX: Ns = Ns::from_ms(250);
/// Events handled per step.
const EVENTS: usize = 32;
/// Token of the inbox.
const BELL: u64 = u64::MAX;
/// Tokens of incoming links have this bit and their slot; others are routes.
const INCOMING: u64 = 1 << 32;

/// Finds where the peer with a number is reached; `None`: that is not known. Must not block.
pub type FindPeer = Box<dyn FnMut(u16) -> Option<PeerAddr> + Send>;

/// Why a message was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendRefused {
    /// The link holds as much as it may: try again when it [has space](Links::has_space_again).
    Full,
    /// There is no link, and the last attempt to make one failed a moment ago; or the message is longer than
    /// [`message_bytes_max`](LinksOptions::message_bytes_max).
    Down,
}

/// What the links of a core have done so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LinkCounters {
    /// Open outgoing links now.
    pub outgoing: u64,
    /// Incoming links now.
    pub incoming: u64,
    /// Messages taken for other members.
    pub messages: u64,
    /// Messages of other members that were served.
    pub served: u64,
    /// Bytes read from outgoing links.
    pub reply_bytes: u64,
    /// Bytes written to links, outgoing and incoming.
    pub written_bytes: u64,
    /// Outgoing links that were lost.
    pub lost: u64,
    /// Attempts to make a link that failed.
    pub failed: u64,
}

/// An end of a link that has failed outside a step; the next one closes it.
#[derive(Debug)]
enum Failed {
    Link(LinkFailure),
    Dial(DialFailure),
}

/// All links of one core, in both directions. The owner calls [`step`](Links::step), then [`flush`](Links::flush), in every
/// round; nothing blocks.
///
/// Cost in the steady state: two copies of each message and each reply; per step, a system call, and one for each link
/// with input; per flush, one for each link with output. No allocation.
pub struct Links {
    identity: Arc<MemberIdentity>,
    options: LinksOptions,
    /// Time between two looks at the times of all links.
    tick_every: Ns,
    find_peer: FindPeer,
    poller: Epoll,
    inbox: LinkInbox,
    outgoing: Vec<Outgoing>,
    /// Routes by peer and core, plus 1; 0: none yet.
    routes: Vec<Vec<u32>>,
    incoming: Vec<Option<Incoming>>,
    /// Links, by token, with a turn in the next step, with something to flush, or failed.
    turns: VecDeque<u64>,
    dirty: Vec<u64>,
    failed: Vec<(u64, Failed)>,
    round: Round,
}

/// What a step needs besides the links.
struct Round {
    now: Ns,
    /// Next time to look at the times of all links.
    tick_at: Ns,
    /// Number of the last incoming link.
    source: u64,
    /// Token of the link whose turn it is, kept for recovery after a panic.
    serving: Option<u64>,
    events: Vec<Event>,
    buffer: Box<[u8]>,
    reply: Output,
    counters: LinkCounters,
    /// A route was full since [`Links::has_space_again`] was last true.
    refused: bool,
}

impl Links {
    /// Creates the links of a core of the member `identity`: none yet.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn new(
        identity: Arc<MemberIdentity>,
        options: LinksOptions,
        find_peer: FindPeer,
    ) -> io::Result<Links> {
        let inbox = LinkInbox::new()?;
        let mut poller = Epoll::new()?;
        poller.add(inbox.fd(), BELL, Interest::Accepts)?;
        Ok(Links {
            identity,
            tick_every: Ns(options.connect_timeout.0 / 4)
                .min(Ns(options.stall_timeout.0 / 6))
                .min(TICK_MAX),
            options,
            find_peer,
            poller,
            inbox,
            outgoing: Vec::new(),
            routes: Vec::new(),
            incoming: Vec::new(),
            turns: VecDeque::new(),
            dirty: Vec::new(),
            failed: Vec::new(),
            round: Round {
                now: Ns::ZERO,
                tick_at: Ns::ZERO,
                source: 0,
                serving: None,
                events: Vec::with_capacity(EVENTS),
                buffer: vec![0; BUFFER_BYTES].into(),
                reply: Output::new(0, usize::MAX),
                counters: LinkCounters::default(),
                refused: false,
            },
        })
    }

    /// Where an acceptor puts links to this core.
    pub fn inbox(&self) -> LinkInbox {
        self.inbox.clone()
    }

    /// Descriptor that becomes readable when a link has an event for the next [`step`](Links::step).
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.poller.fd()
    }

    /// What these links have done so far.
    pub fn counters(&self) -> LinkCounters {
        self.round.counters
    }

    /// Number of the route to a core of a peer: routes are numbered from 0 as they are first asked for, and never change.
    #[inline]
    pub fn route(&mut self, peer: u16, core: u16) -> usize {
        let known = self.routes.get(usize::from(peer));
        match known.and_then(|cores| cores.get(usize::from(core))) {
            Some(&number) if number != 0 => number as usize - 1,
            _ => self.new_route(peer, core),
        }
    }

    #[cold]
    fn new_route(&mut self, peer: u16, core: u16) -> usize {
        let (row, column) = (usize::from(peer), usize::from(core));
        self.outgoing.push(Outgoing::new(peer, core));
        if self.routes.len() <= row {
            self.routes.resize(row + 1, Vec::new());
        }
        if self.routes[row].len() <= column {
            self.routes[row].resize(column + 1, 0);
        }
        self.routes[row][column] = self.outgoing.len() as u32;
        self.outgoing.len() - 1
    }

    /// Whether a message of `bytes` bytes would not find its route full. A link that is down is not full. If it is full,
    /// [`has_space_again`](Links::has_space_again) will say when it is not.
    #[inline]
    pub fn has_space(&mut self, route: usize, bytes: usize) -> bool {
        let link = &mut self.outgoing[route];
        let has_space = link.has_space(bytes, &self.options);
        if !has_space {
            (link.refused, self.round.refused) = (true, true);
        }
        has_space
    }

    /// Queues one message, the concatenation of `pieces`; the next [`flush`](Links::flush) writes it. It ends in the
    /// [`LinkHandler`](crate::LinkHandler) of a later step.
    ///
    /// # Errors
    /// [`SendRefused`]; nothing was queued.
    ///
    /// # Panics
    /// If no [`route`](Links::route) has this number.
    #[inline]
    pub fn send(
        &mut self,
        route: usize,
        pending_reply: PendingReply,
        pieces: &[&[u8]],
    ) -> Result<(), SendRefused> {
        let link = &mut self.outgoing[route];
        let bytes = pieces.iter().map(|piece| piece.len()).sum();
        if bytes > self.options.message_bytes_max {
            // The peer would close the link, and with it lose the messages of others.
            return Err(SendRefused::Down);
        }
        if let State::Closed { retry_at } = link.state {
            if self.round.now < retry_at {
                return Err(SendRefused::Down);
            }
            link.state = State::Wanted;
        }
        if !self.has_space(route, bytes) {
            return Err(SendRefused::Full);
        }
        let link = &mut self.outgoing[route];
        if link.queue.is_empty() {
            self.dirty.push(route as u64);
        }
        link.push(pending_reply, pieces);
        self.round.counters.messages += 1;
        Ok(())
    }

    /// Whether messages that found a route full should be sent again: true, once, when such a route has used less than half
    /// of its space, or has broken.
    pub fn has_space_again(&mut self) -> bool {
        if !self.round.refused {
            return false;
        }
        let mut again = false;
        for link in &mut self.outgoing {
            again |= link.has_space_again(&self.options);
        }
        self.round.refused = self.outgoing.iter().any(|link| link.refused);
        again
    }

    /// Writes what is queued, and begins to make links that are wanted. Returns whether the next step has something to do
    /// at once. Cost: a system call for each link with something queued.
    #[must_use = "a core that has something to do does not sleep"]
    pub fn flush(&mut self) -> bool {
        let mut dials = false;
        for index in 0..self.dirty.len() {
            dials |= self.flush_one(self.dirty[index]);
        }
        self.dirty.clear();
        dials || !self.turns.is_empty() || !self.failed.is_empty()
    }

    /// Returns whether it begins to make the link.
    fn flush_one(&mut self, token: u64) -> bool {
        let written = match self.incoming_slot(token) {
            Some(slot) => {
                let Some(link) = &mut self.incoming[slot] else {
                    return false;
                };
                let written = link.write(self.round.now);
                if link.has_turn(&self.options) {
                    enqueue(&mut self.turns, token, &mut link.is_queued);
                }
                written
            }
            None => {
                let link = &mut self.outgoing[token as usize];
                if let State::Wanted = link.state {
                    self.dial(token as usize);
                    return true;
                }
                link.write()
            }
        };
        match written {
            Ok(bytes) => self.round.counters.written_bytes += bytes,
            Err(error) => self.failed.push((token, Failed::Link(error.into()))),
        }
        false
    }

    fn dial(&mut self, route: usize) {
        self.watch_times();
        let link = &mut self.outgoing[route];
        let until = self.round.now + self.options.connect_timeout;
        let begun = match (self.find_peer)(link.peer) {
            None => Err(DialFailure::NoAddress),
            Some(peer) => {
                link.name = peer.name.as_str().into();
                let target = self.options.purpose.target(link.core);
                Dialing::new(&self.identity, &peer, target, until).map_err(DialFailure::from)
            }
        };
        let watched = begun.and_then(|dialing| {
            let token = route as u64;
            self.poller.add(dialing.fd(), token, Interest::ArrivalsAndSpace)?;
            Ok(dialing)
        });
        match watched {
            Ok(dialing) => link.state = State::Dialing(Box::new(dialing)),
            Err(failure) => self.failed.push((route as u64, Failed::Dial(failure))),
        }
    }

    /// A link has begun: its times are looked at from now on.
    fn watch_times(&mut self) {
        self.round.tick_at = self.round.tick_at.min(self.round.now + self.tick_every);
    }

    /// The slot of an incoming link with this token.
    fn incoming_slot(&self, token: u64) -> Option<usize> {
        (token & INCOMING != 0).then_some((token & !INCOMING) as usize)
    }
}

/// Gives a link a turn, unless it has one.
fn enqueue(turns: &mut VecDeque<u64>, token: u64, is_queued: &mut bool) {
    if !std::mem::replace(is_queued, true) {
        turns.push_back(token);
    }
}
