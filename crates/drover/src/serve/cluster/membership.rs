//! [`Membership`]: a member that runs, beside its cores.

use super::control::answer_links;
use super::joining::Joining;
use super::network::LinkNetwork;
use super::peers::PeerBook;
use crate::exit::{self, Failure};
use drover_cluster::{Advert, HandoverTimes, LeaseTerms, MOVES_MAX, SHARD_COUNT, ServedShards};
use drover_links::{AcceptorOptions, LinkAcceptor, LinkInbox, Links, LinksOptions, MemberIdentity};
use drover_member::{ControlHandler, Member, MemberOptions, MemberStatus};
use std::io;
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
        }
    }

    /// The links of one core.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn links(&self) -> io::Result<Links> {
        let mut options = LinksOptions::default();
        options.message_bytes_max = options.message_bytes_max.max(self.message_bytes_max);
        Links::new(self.identity.clone(), options, self.peers.finder())
    }
}

/// The threads of a member. Dropping it ends them, and the member's registration lives on until its lease is over.
pub struct Membership {
    /// Before the handler: no link comes in any more.
    _acceptor: LinkAcceptor,
    _handler: Arc<ControlHandler>,
    member: Member,
}

/// What a [`Membership`] is started with.
pub struct MembershipStart {
    pub joining: Joining,
    pub listener: TcpListener,
    pub advert: Advert,
    pub terms: LeaseTerms,
    /// Where links to each core go.
    pub inboxes: Vec<LinkInbox>,
}

impl Membership {
    /// Starts the threads; the cores must run.
    ///
    /// # Errors
    /// The system refuses a thread or descriptor.
    pub fn start(start: MembershipStart, parts: &CoreParts) -> Result<Membership, Failure> {
        let system = |error: &dyn std::fmt::Display| Failure::new(exit::OS_ERROR, format!("member: {error}"));
        let options = MemberOptions {
            advert: start.advert,
            terms: start.terms,
            handover: HandoverTimes::default(),
            handovers_max: MOVES_MAX,
            shards: parts.shards.clone(),
            network: Arc::new(LinkNetwork(parts.identity.clone())),
        };
        let member = Member::start(options, start.joining.registry).map_err(|error| system(&error))?;
        let (handler, control) = answer_links(member.control_handler());
        let acceptor = LinkAcceptor::start(
            start.listener,
            parts.identity.clone(),
            start.inboxes,
            control,
            AcceptorOptions::default(),
        );
        Ok(Membership {
            _acceptor: acceptor.map_err(|error| system(&error))?,
            _handler: handler,
            member,
        })
    }

    /// The member now.
    pub fn status(&self) -> MemberStatus {
        self.member.status()
    }

    /// Serves nothing more and ends the registration, so that others take the shards over at once.
    pub fn leave(self) {
        self.member.leave();
    }
}
