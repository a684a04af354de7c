//! A core of a member of a service: whether it may execute a request, and where the others go.
//!
//! ```text
//! session -- route_of --> this core     the shard is served, the key is this core's
//!                     --> ring          .. another core's of this member
//!                     --> link          the shard is a peer's: the peer's core of the key
//!                     --> parked        nobody serves the shard, or messages of it are parked or under way on another route
//! ring, link -- admits --> executed, or "elsewhere": never sent on
//! reply "elsewhere" -----> parked, and sent again after a pause
//! ```
//! The verdict is asked where a request is executed; where it comes from, it only chooses the route. So a message that was routed by an old map is
//! executed by the member that serves the shard, or by none.
//!
//! "Elsewhere" is one byte 0, which begins no other reply, the epoch of the map (8 bytes, little-endian), and the message, so that the
//! core that sent it need not keep a copy.
//!
//! **Order.** What a connection asks about one key is executed in the order it asked, as without a cluster:
//! - messages of a shard are under way on one route at a time (`routes.rs`);
//! - a core that has answered "elsewhere" to a source about a shard goes on to do so until the source sends the first of them again,
//!   marked ([`FIRST_RETRY`]): requests that were behind it on their way do not overtake it;
//! - the source sends parked messages of a shard again only when none of them is under way, in order, and parks new ones behind them
//!   (`parking.rs`).

mod admission;
mod counters;
mod marks;
mod parking;
mod replies;
mod router;
mod routes;

pub use counters::{Count, MemberCounters};
pub(crate) use marks::OnFailure;
pub(crate) use replies::VOID_REPLY;
pub use replies::{Deliver, Delivery};
pub use router::{LinkRefused, MemberRouter, PeerLinks};

use crate::forward::key_hash;
use crate::gather::each_single;
use crate::replicas::Replicas;
use crate::{Core, CoreRouter, Executor, RouteFull};
use drover_base::{Cpu, KeyHash, Ns};
use drover_cluster::{ServedShards, ShardId, Verdict};
use drover_net::PendingReply;
use drover_store::Sharing;
use marks::{ROUTES_MAX, with_route};
use parking::Parking;
use routes::Routes;
use std::collections::BTreeSet;
use std::sync::Arc;

/// In the byte of a message's kind: the first of parked messages of its shard, which is sent again.
pub(crate) const FIRST_RETRY: u8 = 0x80;
/// Route of requests that nobody serves now.
pub(crate) const PARKED: usize = usize::MAX;
/// Memory of a core for parked messages, bytes. *(our choice)*
const PARKED_BYTES_MAX: usize = 32 << 20;

/// Where requests come from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Source {
    /// A connection of this core.
    Session,
    /// Another core of this member.
    Core(usize),
    /// A link, by any number that no other link of the core has had.
    Link(u64),
    /// A link for [copies](crate::replicas).
    Copies,
}

/// State of a core of a member.
pub(crate) struct MemberCore {
    pub(crate) shards: Arc<ServedShards>,
    pub(crate) index: usize,
    /// A time after the requests that are being executed arrived.
    now: Ns,
    source: Source,
    /// Sources that were answered "elsewhere" about a shard, and have not begun again.
    holds: BTreeSet<(Source, ShardId)>,
    routes: Routes,
    parking: Parking,
    /// Pending replies of messages that found no space to wait.
    refused: Vec<PendingReply>,
    pub(crate) counters: Arc<MemberCounters>,
    /// What a core has with replicas.
    pub(crate) replicas: Option<Box<Replicas>>,
}

impl std::fmt::Debug for MemberCore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemberCore")
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}

impl MemberCore {
    fn new(shards: Arc<ServedShards>, index: usize, counters: Arc<MemberCounters>) -> MemberCore {
        MemberCore {
            shards,
            index,
            now: Ns::ZERO,
            source: Source::Session,
            holds: BTreeSet::new(),
            routes: Routes::new(),
            parking: Parking::new(PARKED_BYTES_MAX),
            refused: Vec::new(),
            counters,
            replicas: None,
        }
    }

    /// The route of a request of one of this core's sessions.
    #[inline(never)]
    fn route_of(&mut self, router: &mut dyn CoreRouter, hash: KeyHash) -> usize {
        let shard = self.shards.shard_of(hash);
        if self.parking.has(shard) {
            return PARKED;
        }
        let route = self.target(router, hash);
        match self.routes.under_way(shard) {
            Some(other) if other != route => PARKED,
            _ => route,
        }
    }

    /// The route to the core that serves the key, as far as this member knows.
    fn target(&self, router: &mut dyn CoreRouter, hash: KeyHash) -> usize {
        match self.shards.verdict(hash, self.now) {
            Verdict::Serve | Verdict::ServeNoted(_) => router.core_of(hash),
            Verdict::Peer(peer) => router.peer_route(peer, hash).unwrap_or(PARKED),
            Verdict::Nowhere => PARKED,
        }
    }

    /// The next message on `route` will be about the key with this hash.
    pub(crate) fn will_send_about(&mut self, hash: KeyHash, route: usize) {
        let shard = self.shards.shard_of(hash);
        self.routes.will_send_about(shard, route);
    }

    /// Sends a message, or parks it if there is no way.
    #[inline(never)]
    fn post(
        &mut self,
        router: &mut dyn CoreRouter,
        route: usize,
        pending: PendingReply,
        pieces: &[&[u8]],
    ) -> Result<(), RouteFull> {
        let sent = match route < ROUTES_MAX {
            true => self.send(router, route, pending, pieces),
            false => Err(RouteFull),
        };
        if sent.is_err() && (route >= ROUTES_MAX || router.is_down()) {
            if route < ROUTES_MAX {
                // A message of several keys has been announced as one on this route.
                self.routes.sent(route);
                self.routes.answered(route);
            }
            each_single(pending, &pieces.concat(), |pending, message| {
                self.park(pending, message)
            });
            return Ok(());
        }
        sent
    }

    fn send(
        &mut self,
        router: &mut dyn CoreRouter,
        route: usize,
        pending: PendingReply,
        pieces: &[&[u8]],
    ) -> Result<(), RouteFull> {
        // The head of a message is in its first piece.
        let hash = key_hash(pieces[0]);
        router.send(route, with_route(pending, route), pieces)?;
        if let Some(hash) = hash {
            self.will_send_about(hash, route);
        }
        self.routes.sent(route);
        if route >= router.core_count() {
            self.counters.forwarded.add_one();
        }
        Ok(())
    }

    /// Parks a message that was not sent.
    fn park(&mut self, pending: PendingReply, message: Vec<u8>) {
        self.counters.parked.add_one();
        let parked = key_hash(&message).map(|hash| {
            let shard = self.shards.shard_of(hash);
            self.parking.park(shard, pending, message, self.now)
        });
        if parked != Some(Ok(())) {
            self.refused.push(pending);
        }
    }
}

/// Sends a message; all that leave a core go this way. In a member, its pending reply carries what becomes of it
/// on failure, and a message for the route [`PARKED`] waits.
#[inline(always)]
pub(crate) fn post(
    member: Option<&mut MemberCore>,
    router: &mut dyn CoreRouter,
    route: usize,
    (pending, on_failure): (PendingReply, OnFailure),
    pieces: &[&[u8]],
) -> Result<(), RouteFull> {
    match member {
        None => router.send(route, pending, pieces),
        Some(member) => member.post(router, route, on_failure.mark(pending), pieces),
    }
}

impl Core {
    /// State of the core with this index of a member that serves what `shards` says. It counts in `counters`, which no other core does.
    pub fn of_member(shards: Arc<ServedShards>, index: usize, counters: Arc<MemberCounters>) -> Core {
        let mut core = Core::default();
        core.member = Some(Box::new(MemberCore::new(shards, index, counters)));
        core
    }

    /// A link has been closed: the number of its [source](Source::Link) does not come again.
    pub fn forget_link(&mut self, link: u64) {
        if let Some(member) = &mut self.member {
            member.holds.retain(|(source, _)| *source != Source::Link(link));
        }
    }

    /// When parked messages are due, if there are any: the core must not sleep longer.
    pub fn parked_until(&self) -> Option<Ns> {
        let member = self.member.as_ref()?;
        match member.parking.next_due() {
            _ if !member.refused.is_empty() => Some(Ns::ZERO),
            Ns::MAX => None,
            due => Some(due),
        }
    }
}

impl<C: Cpu, S: Sharing> Executor<'_, C, S> {
    /// In a member: begins a [round](ServedShards::begin_round). To be called at the beginning of each step of the core.
    pub fn begin_round(&mut self) {
        if let Some(member) = &self.core.member {
            member.shards.begin_round(member.index);
        }
    }

    /// Requests that have arrived are executed next. In a member it reads the clock: they may have waited while the process stood still.
    /// To be called for each batch, after it has arrived.
    #[inline]
    pub fn begin_arrivals(&mut self) {
        if let Some(member) = &mut self.core.member {
            member.now = self.cpu.refresh();
            member.source = Source::Session;
        }
    }

    /// The messages that are [served](Executor::serve) next come from `source`. To be called after
    /// [`begin_arrivals`](Executor::begin_arrivals).
    #[inline]
    pub fn set_source(&mut self, source: Source) {
        if let Some(member) = &mut self.core.member {
            member.source = source;
        }
    }

    #[inline]
    pub(crate) fn is_member(&self) -> bool {
        self.core.member.is_some()
    }

    /// Whether what is executed comes over a link for copies.
    pub(crate) fn is_source_of_copies(&self) -> bool {
        let member = self.core.member.as_ref();
        member.is_some_and(|member| member.source == Source::Copies)
    }

    /// The route of a request about a key: the index of a core, or in a member one beyond them.
    #[inline]
    pub(crate) fn route_of(&mut self, hash: KeyHash) -> usize {
        match &mut self.core.member {
            None => self.router.core_of(hash),
            Some(member) => member.route_of(self.router, hash),
        }
    }

    /// The route of a request now that it is executed or sent: earlier ones of the batch may have been parked since it was chosen.
    #[inline]
    pub(crate) fn settled_route(&mut self, route: usize, hash: KeyHash) -> usize {
        match &mut self.core.member {
            None => route,
            Some(member) => member.route_of(self.router, hash),
        }
    }

    /// The routes to all cores of this server and of the peers, but this one.
    pub(crate) fn routes_to_all(&mut self) -> Vec<usize> {
        let own = self.router.own();
        let mut routes: Vec<usize> = (0..self.router.core_count())
            .filter(|core| *core != own)
            .collect();
        if let Some(member) = &self.core.member {
            for peer in member.shards.owners() {
                routes.append(&mut self.router.peer_routes(peer));
            }
        }
        routes
    }
}
