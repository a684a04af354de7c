//! [`Membership`]: a member that runs, beside its cores.

use super::advert::{Listeners, advert};
use super::joining::Joining;
use super::listen::MemberPort;
use super::peers::PeerBook;
use crate::admin::{ClusterSnapshot, Forwarding};
use crate::exit::{self, Failure};
use crate::serve::memcached::{MakeLinks, Memcached};
use crate::serve::settings::Settings;
use drover_base::{HashSeed, Ns};
use drover_cluster::{Advert, HandoverTimes, LeaseTerms, MOVES_MAX, SHARD_COUNT, ServedShards};
use drover_control::ControlAddr;
use drover_links::{AcceptorOptions, LinkAcceptor, Links, LinksOptions, MemberIdentity};
use drover_member::{LinkNetwork, MemberOptions, RunningMember};
use drover_net::Address;
use std::net::TcpListener;
use std::sync::Arc;

/// What the cores of a member need.
pub struct CoreParts {
    /// What they may serve.
    pub shards: Arc<ServedShards>,
    identity: Arc<MemberIdentity>,
    peers: Arc<PeerBook>,
    /// Most bytes of a message: an item and what belongs to it.
    message_bytes_max: usize,
    /// Whether other members keep copies of its items.
    pub has_replicas: bool,
}

/// Bytes of a message beside its item: command, key, head.
const SLACK_BYTES: usize = 64 << 10;

impl CoreParts {
    pub fn new(joining: &Joining, core_count: usize, item_bytes_max: usize) -> CoreParts {
        let shards = ServedShards::new(SHARD_COUNT, core_count);
        CoreParts {
            identity: Arc::new(MemberIdentity {
                service: joining.service.service().to_owned(),
                member: joining.member_name.clone(),
                secret: joining.settings.secret,
            }),
            peers: PeerBook::new(shards.clone()),
            shards,
            message_bytes_max: item_bytes_max + SLACK_BYTES,
            has_replicas: joining.settings.replicas > 1,
        }
    }

    /// Makes the links of a core, on its thread.
    pub fn make_links(&self) -> MakeLinks {
        let (identity, peers) = (self.identity.clone(), self.peers.clone());
        let mut options = LinksOptions::default();
        options.message_bytes_max = options.message_bytes_max.max(self.message_bytes_max);
        Box::new(move |purpose| {
            let options = LinksOptions {
                purpose,
                ..options.clone()
            };
            Links::new(identity.clone(), options, peers.finder())
        })
    }
}

/// The threads of a member. Dropping it ends them, and the member's registration lives on until its lease is over.
pub struct Membership {
    /// Before the member: no link comes in any more.
    _acceptor: LinkAcceptor,
    member: RunningMember,
    memcached: Arc<Memcached>,
}

/// A member whose cores do not run yet.
pub struct Starting {
    /// What its cores need.
    pub parts: CoreParts,
    joining: Joining,
    listener: TcpListener,
    advert: Advert,
    terms: LeaseTerms,
}

impl Starting {
    /// The member of `joining`, which others reach at `port`, with clients at these listeners.
    ///
    /// # Errors
    /// The member's name is none, or its addresses are too long.
    pub fn new(
        settings: &Settings,
        port: MemberPort,
        joining: Joining,
        native: Vec<ControlAddr>,
        memcached: Vec<Address>,
    ) -> Result<Starting, Failure> {
        let MemberPort { listener, advertised } = port;
        let listeners = Listeners {
            native,
            memcached,
            admin: settings.ops.metrics_listen.value,
            advertised: &advertised,
        };
        let advert = advert(settings, &joining.member_name, &listeners)?;
        tracing::info!(
            "member {} of {}, at {}",
            joining.member_name,
            joining.service,
            advert.addresses().join(" ")
        );
        let (cores, item_bytes) = (
            settings.capacity.threads.value,
            settings.capacity.max_item_bytes.value,
        );
        Ok(Starting {
            parts: CoreParts::new(&joining, cores, item_bytes),
            terms: settings.cluster.terms(joining.agreed.lease_s),
            joining,
            listener,
            advert,
        })
    }

    /// Hash of keys of the service.
    pub fn hash_seed(&self) -> HashSeed {
        self.joining.settings.hash_seed
    }

    /// Starts the threads of the member, whose cores, those of `memcached`, must run.
    ///
    /// # Errors
    /// The system refuses a thread or descriptor.
    pub fn start(self, memcached: Arc<Memcached>) -> Result<Membership, Failure> {
        let system = |error: &dyn std::fmt::Display| Failure::new(exit::OS_ERROR, format!("member: {error}"));
        let identity = self.parts.identity;
        let inboxes = memcached.inboxes();
        let inboxes = inboxes.ok_or_else(|| system(&"a core has no links"))?;
        let options = MemberOptions {
            advert: self.advert,
            terms: self.terms,
            handover: HandoverTimes::default(),
            handovers_max: MOVES_MAX,
            replicas: self.joining.agreed.replicas,
            shards: self.parts.shards,
            network: Arc::new(LinkNetwork::new(identity.clone())),
        };
        let member = RunningMember::start(options, self.joining.registry).map_err(|error| system(&error))?;
        let control = member.control_handler();
        let acceptor = LinkAcceptor::start(
            self.listener,
            identity,
            inboxes,
            move |link| control.serve(link),
            AcceptorOptions::default(),
        );
        Ok(Membership {
            _acceptor: acceptor.map_err(|error| system(&error))?,
            member,
            memcached,
        })
    }
}

impl Membership {
    /// The member now, for monitors.
    pub fn snapshot(&self) -> ClusterSnapshot {
        let (mut forwarding, mut held) = (Forwarding::default(), Ns::ZERO);
        for core in self.memcached.member_counters() {
            forwarding.forwarded += core.forwarded.get();
            forwarding.served += core.served.get();
            forwarding.elsewhere += core.elsewhere.get();
            forwarding.parked += core.parked.get();
            forwarding.gave_up += core.gave_up.get();
            forwarding.lost += core.lost.get();
            held += Ns(core.held_ns.get());
        }
        ClusterSnapshot {
            status: self.member.status(),
            forwarding,
            held,
        }
    }

    /// Serves nothing more and ends the registration, so that others take the shards over at once.
    pub fn leave(self) {
        self.member.leave();
    }
}
