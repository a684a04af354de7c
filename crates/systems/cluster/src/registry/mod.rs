//! [`Registry`]: what keeps members, their leases and the map, as a member or client sees it.
//!
//! Nothing waits: requests are submitted with a ticket and answered by events, so that what speaks to the registry can live on another
//! thread or machine. Three promises carry everything else, and a store with leases and transactions (etcd) keeps them:
//!
//! 1. A registration is not ended before its time to live has passed since the registry executed the last request that registered or renewed it,
//!    unless the member leaves. So it lives at least so long after that request was *submitted*.
//! 2. Requests are executed one after the other. A [`Transaction`] takes effect whole or not at all.
//! 3. No two registrations have the same incarnation.
//!
//! It promises nothing else: requests and replies are lost, a request whose reply was lost may have taken effect, or may take effect later, and
//! views arrive late, in any order, or never.

mod local;
mod simulated;
mod state;

use crate::{Advert, Map, Member, MemberId, ServiceSettings};
use drover_base::Ns;
use std::sync::Arc;

pub use local::LocalRegistry;
pub use simulated::{Accepted, RegistryFaults, SimulatedClient, SimulatedRegistry};

/// The registry of a service, as one process reaches it.
pub trait Registry {
    /// Submits a request. `ticket` comes back with what became of it.
    fn submit(&mut self, now: Ns, ticket: u64, request: RegistryRequest);

    /// The next event, if there is one.
    fn poll(&mut self, now: Ns) -> Option<RegistryEvent>;
}

/// A request to the registry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RegistryRequest {
    /// Registers a member under a lease. Answered with [`RegistryReply::Registered`] or [`RegistryReply::NameTaken`].
    Register {
        /// What the member says of itself.
        advert: Advert,
        /// A number that nobody else registers with: if the name is registered with the same, the reply to an earlier request was lost,
        /// and the answer is what it was.
        instance: u64,
        /// How long the registration lives without a renewal.
        ttl: Ns,
    },
    /// Renews a registration. Answered with [`RegistryReply::Renewed`] or [`RegistryReply::LeaseLost`].
    Renew(MemberId),
    /// Ends a registration. Answered with [`RegistryReply::Left`], also if there is none.
    Leave(MemberId),
    /// Changes the map. Answered with [`RegistryReply::Committed`] or [`RegistryReply::Conflict`].
    Commit(Transaction),
    /// Asks for the newest view. Answered with [`RegistryReply::View`].
    Look,
    /// Asks for the settings of the service. If there are none yet, and these are given, they are its settings from now on. Answered
    /// with [`RegistryReply::Settings`].
    Settings(Option<ServiceSettings>),
}

/// A change of the map, which takes effect only if everything that it was planned on still holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transaction {
    /// The next map. The one in the registry must have the epoch before.
    pub map: Arc<Map>,
    /// Registrations that must live: that of the member that commits. A member that has lost its lease changes nothing.
    pub alive: Vec<MemberId>,
    /// Registrations that must have ended: of members whose shards are given to others without being handed over.
    pub gone: Vec<MemberId>,
}

/// An answer to a [`RegistryRequest`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RegistryReply {
    /// The member is registered.
    Registered(MemberId),
    /// Another member has this name, or an earlier life of this one whose lease has not run out yet.
    NameTaken,
    /// The registration is renewed.
    Renewed,
    /// There is no such registration.
    LeaseLost,
    /// There is no such registration any more.
    Left,
    /// The transaction took effect.
    Committed,
    /// The transaction did not take effect, because what it was planned on does not hold.
    Conflict,
    /// What the registry knows.
    View(View),
    /// The settings of the service, if there are any.
    Settings(Option<ServiceSettings>),
}

/// What the registry knew at a time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct View {
    /// Grows with every change. An event with a lower one is older.
    pub revision: u64,
    /// Members with a live registration, in the order of names.
    pub members: Arc<Vec<Member>>,
    /// The map, if there is one yet.
    pub map: Option<Arc<Map>>,
}

/// Something that a [`Registry`] reports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RegistryEvent {
    /// The answer to the request with this ticket.
    Reply {
        /// Ticket of the request.
        ticket: u64,
        /// The answer.
        reply: RegistryReply,
    },
    /// There is no answer to the request with this ticket. It may have taken effect, or may do so later.
    Failed {
        /// Ticket of the request.
        ticket: u64,
    },
    /// Members or the map have changed.
    Changed(View),
}
