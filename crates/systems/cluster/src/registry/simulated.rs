//! [`SimulatedRegistry`]: a registry in virtual time, behind a network that delays, loses and reorders.
//!
//! What goes wrong: requests and replies are late, and may overtake each other; a request is lost, or its reply is, after it took effect
//! (both look alike to the client); views that were to be reported are lost; the registry is away for a while, and everything that
//! arrives then is lost; single clients are cut off. What does not: the registry forgets nothing, and keeps its three promises.

use super::state::RegistryState;
use super::{Registry, RegistryEvent, RegistryReply, RegistryRequest, View};
use crate::Map;
use drover_base::{Ns, Rng};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

/// How often things go wrong between clients and registry.
#[derive(Clone, Copy, Debug)]
pub struct RegistryFaults {
    /// Longest time that a message takes; the shortest is a tenth of it.
    pub delay_max: Ns,
    /// Share of requests that are lost before they take effect.
    pub lost_requests: f64,
    /// Share of replies that are lost.
    pub lost_replies: f64,
    /// Share of views that are not reported.
    pub lost_views: f64,
    /// Time after which a client that has no reply is told so.
    pub timeout: Ns,
}

/// A map that was accepted.
#[derive(Clone, Debug)]
pub struct Accepted {
    /// Time, on the registry's clock.
    pub at: Ns,
    /// What the registry knew then, with the new map.
    pub view: View,
    /// The map before.
    pub before: Option<Arc<Map>>,
}

enum InFlight {
    Request {
        client: usize,
        ticket: u64,
        request: RegistryRequest,
    },
    Event {
        client: usize,
        event: RegistryEvent,
    },
}

struct Server {
    state: RegistryState,
    faults: RegistryFaults,
    rng: Rng,
    now: Ns,
    away_until: Ns,
    /// Per client: the time until which it is cut off, and what has arrived.
    clients: Vec<(Ns, VecDeque<RegistryEvent>)>,
    /// By time of arrival; equal times in the order of sending.
    in_flight: BTreeMap<(Ns, u64), InFlight>,
    sent: u64,
    reported: u64,
    accepted: Vec<Accepted>,
}

/// The registry itself. The simulated world moves its time on.
#[derive(Clone)]
pub struct SimulatedRegistry {
    server: Rc<RefCell<Server>>,
}

/// One client's way to a [`SimulatedRegistry`].
pub struct SimulatedClient {
    server: Rc<RefCell<Server>>,
    client: usize,
}

impl SimulatedRegistry {
    /// A registry without members. All randomness comes from `rng`.
    pub fn new(faults: RegistryFaults, rng: Rng) -> SimulatedRegistry {
        let server = Server {
            state: RegistryState::default(),
            faults,
            rng,
            now: Ns::ZERO,
            away_until: Ns::ZERO,
            clients: Vec::new(),
            in_flight: BTreeMap::new(),
            sent: 0,
            reported: 0,
            accepted: Vec::new(),
        };
        let server = Rc::new(RefCell::new(server));
        SimulatedRegistry { server }
    }

    /// Another client.
    pub fn client(&self) -> SimulatedClient {
        let mut server = self.server.borrow_mut();
        server.clients.push((Ns::ZERO, VecDeque::new()));
        SimulatedClient {
            client: server.clients.len() - 1,
            server: self.server.clone(),
        }
    }

    /// Moves the registry on to `now`, on its own clock.
    pub fn advance(&self, now: Ns) {
        self.server.borrow_mut().advance(now);
    }

    /// From now on, things go wrong so often.
    pub fn set_faults(&self, faults: RegistryFaults) {
        self.server.borrow_mut().faults = faults;
    }

    /// Nothing reaches or leaves the registry until `until`. Leases run on.
    pub fn go_away(&self, until: Ns) {
        self.server.borrow_mut().away_until = until;
    }

    /// Nothing passes between the registry and `client` until `until`.
    pub fn cut_off(&self, client: &SimulatedClient, until: Ns) {
        self.server.borrow_mut().clients[client.client].0 = until;
    }

    /// The maps that were accepted since the last call, for those who check them.
    pub fn take_accepted(&self) -> Vec<Accepted> {
        std::mem::take(&mut self.server.borrow_mut().accepted)
    }

    /// What the registry knows, without a network between.
    pub fn view(&self) -> View {
        self.server.borrow().state.view()
    }
}

impl Registry for SimulatedClient {
    /// The time that counts is the registry's, not the caller's.
    fn submit(&mut self, _: Ns, ticket: u64, request: RegistryRequest) {
        let (mut server, client) = (self.server.borrow_mut(), self.client);
        let lost = server.faults.lost_requests;
        let request = InFlight::Request {
            client,
            ticket,
            request,
        };
        server.send(client, lost, request);
        let at = server.now + server.faults.timeout;
        let event = RegistryEvent::Failed { ticket };
        server.put(at, InFlight::Event { client, event });
    }

    fn poll(&mut self, _: Ns) -> Option<RegistryEvent> {
        self.server.borrow_mut().clients[self.client].1.pop_front()
    }
}

impl Server {
    fn advance(&mut self, now: Ns) {
        while let Some(entry) = self.in_flight.first_entry().filter(|entry| entry.key().0 <= now) {
            self.now = entry.key().0;
            match entry.remove() {
                InFlight::Request {
                    client,
                    ticket,
                    request,
                } => self.arrived(client, ticket, request),
                InFlight::Event { client, event } => self.clients[client].1.push_back(event),
            }
            self.report();
        }
        self.now = now;
        self.state.expire(now);
        self.report();
    }

    fn arrived(&mut self, client: usize, ticket: u64, request: RegistryRequest) {
        if self.is_cut(client) {
            return;
        }
        let before = self.state.view().map;
        let reply = self.state.execute(self.now, request);
        if reply == RegistryReply::Committed {
            let (at, view) = (self.now, self.state.view());
            self.accepted.push(Accepted { at, view, before });
        }
        let (lost, event) = (self.faults.lost_replies, RegistryEvent::Reply { ticket, reply });
        self.send(client, lost, InFlight::Event { client, event });
    }

    /// Sends the newest view to all clients, if there is one.
    fn report(&mut self) {
        if self.state.revision() == self.reported {
            return;
        }
        self.reported = self.state.revision();
        let (view, lost) = (self.state.view(), self.faults.lost_views);
        for client in 0..self.clients.len() {
            let event = RegistryEvent::Changed(view.clone());
            self.send(client, lost, InFlight::Event { client, event });
        }
    }

    fn is_cut(&self, client: usize) -> bool {
        self.now < self.away_until || self.now < self.clients[client].0
    }

    /// Puts a message on its way, unless it is lost.
    fn send(&mut self, client: usize, lost: f64, message: InFlight) {
        if self.is_cut(client) || self.rng.chance(lost) {
            return;
        }
        let longest = self.faults.delay_max.0.max(10);
        let at = self.now + Ns(longest / 10 + self.rng.below(longest * 9 / 10));
        self.put(at, message);
    }

    fn put(&mut self, at: Ns, message: InFlight) {
        self.sent += 1;
        self.in_flight.insert((at, self.sent), message);
    }
}
