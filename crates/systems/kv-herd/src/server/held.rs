//! Replies of a core that is *held*: keepers of copies do not have yet what it changed, so nothing that it executed may be known outside.
//!
//! ```text
//! a batch, core held --> replies stay in the list --> the co-actor has released the core: they are posted
//!                                                 \-> they are void: their clients are dropped
//! ```
//! While its core is held, a worker takes no request. It obeys the control thread, whose statistics and whose end must not wait for
//! another member, with two reservations: questions about requests that were given up are answered after the hold, since the answer is a
//! result; and the address of a client that leaves lives until no reply to it is in the list.
//!
//! **Void** are replies about a shard that is not this member's any more. Whether its keeper got the updates, nobody knows. So the worker forgets
//! their clients, results and all, and has their channels closed; that is how a client learns that the outcome of its updates is
//! unknown.

use super::mail::Event;
use super::variant::{Mistake, Variant};
use super::worker::Worker;
use crate::control::Resync;
use drover_base::{Ns, Progress};
use drover_verbs::{Context, Provider, UdDest};

/// What waits for the end of a hold.
#[derive(Default)]
pub(super) struct HeldReplies {
    /// Clients with replies in the list; a client may be named several times, and some of the others, too.
    clients: Vec<u32>,
    /// The core's [voids](drover_cluster::ServedShards::voids) when the first of them was held.
    voids: u64,
    /// Clients' questions about requests.
    resyncs: Vec<(u32, Resync)>,
    /// Addresses of clients that have left.
    addresses: Vec<UdDest>,
}

impl HeldReplies {
    fn is_empty(&self) -> bool {
        self.clients.is_empty() && self.resyncs.is_empty() && self.addresses.is_empty()
    }
}

impl<P: Provider, V: Variant> Worker<P, V> {
    /// Whether the worker's core is held.
    #[inline(always)]
    pub(super) fn core_is_held(&self) -> bool {
        let membership = self.membership.as_ref();
        membership.is_some_and(|member| member.served.is_held(member.core))
    }

    /// Begins a step of a member's worker. If the core is held, or has just been released, there is no more to the step, and this is its
    /// progress.
    #[inline(never)]
    pub(super) fn begin_member_round(&mut self, cpu: &P::Cpu) -> Option<Progress> {
        let member = self.membership.as_ref()?;
        member.served.begin_round(member.core);
        if member.served.is_held(member.core) {
            if !self.has_mail() {
                // The co-actor's descriptor ends the sleep of the core.
                return Some(Progress::Idle { wake_at: Ns::MAX });
            }
            self.obey(cpu);
            return Some(Progress::Busy);
        }
        if member.held.is_empty() {
            return None;
        }
        self.end_hold(cpu);
        Some(Progress::Busy)
    }

    /// Posts the replies in the list, or keeps them there if the core is held.
    #[inline(always)]
    pub(super) fn post_unless_held(&mut self, cpu: &P::Cpu) {
        if self.membership.is_some() && self.hold_replies() {
            return;
        }
        self.replies.post(cpu, &mut self.counters);
    }

    /// Notes whose replies are in the list, if the core is held. Returns whether it is.
    #[inline(never)]
    fn hold_replies(&mut self) -> bool {
        let Some(member) = &mut self.membership else {
            return false;
        };
        if !member.served.is_held(member.core) || self.variant.makes(Mistake::PostsWhileHeld) {
            return false;
        }
        let held = &mut member.held;
        if held.clients.is_empty() {
            held.voids = member.served.voids(member.core);
        }
        let requests = self.intakes.iter().flat_map(|intake| intake.requests.all());
        held.clients.extend(requests.map(|request| request.about.client));
        true
    }

    /// Posts what was held, or drops its clients if it is void; then does what had to wait.
    #[cold]
    fn end_hold(&mut self, cpu: &P::Cpu) {
        let Some(member) = &mut self.membership else {
            return;
        };
        let is_void =
            member.served.voids(member.core) != member.held.voids && !member.held.clients.is_empty();
        if is_void && !self.variant.makes(Mistake::PostsVoid) {
            self.drop_held_clients();
        } else if self.variant.makes(Mistake::ForgetsHeld) {
            self.discard_replies();
        }
        self.replies.post(cpu, &mut self.counters);
        let ctx = self.context();
        let Some(member) = &mut self.membership else {
            return;
        };
        member.held.clients.clear();
        for address in member.held.addresses.drain(..) {
            ctx.destroy_ah(&address);
        }
        for (client, resync) in std::mem::take(&mut member.held.resyncs) {
            self.resync(client, resync);
        }
    }

    /// Drops the replies in the list and the clients that they are for.
    fn drop_held_clients(&mut self) {
        let held = self.membership.as_mut().map(|member| &mut member.held);
        let clients = held.map(|held| std::mem::take(&mut held.clients));
        self.discard_replies();
        for client in clients.unwrap_or_default() {
            let known = self.clients.get(client).map(|client| client.generation);
            let Some(generation) = known.filter(|_| !self.variant.makes(Mistake::KeepsVoidClients)) else {
                continue;
            };
            self.remove(client);
            self.report(Event::Void { client, generation });
        }
    }

    /// Empties the list of replies, held or not.
    pub(super) fn discard_replies(&mut self) {
        self.replies.discard();
        if let Some(member) = &mut self.membership {
            member.held.clients.clear();
        }
    }

    /// Keeps a client's question until the end of the hold, if the core is held. Returns whether it is.
    pub(super) fn postpone_resync(&mut self, client: u32, resync: Resync) -> bool {
        let waits = self.core_is_held() && !self.variant.makes(Mistake::ResyncsWhileHeld);
        if let Some(member) = self.membership.as_mut().filter(|_| waits) {
            member.held.resyncs.push((client, resync));
        }
        waits
    }

    /// Keeps the address of a client that leaves until the end of the hold, if a reply to it may be in the list, and drops its
    /// questions. Returns whether it does.
    pub(super) fn keep_address(&mut self, client: u32, address: UdDest) -> bool {
        let Some(member) = &mut self.membership else {
            return false;
        };
        member.held.resyncs.retain(|(asker, _)| *asker != client);
        let waits = member.held.clients.contains(&client);
        if waits {
            member.held.addresses.push(address);
        }
        waits
    }
}
