//! [`Session`]: one client from the opening of its channel until nothing of it is left.
//!
//! ```text
//! Hello --Hello--> Exporting (datagrams only) --> Attaching --all ends known--> Adding --all workers--> Live
//!     \_______________________|_______________________|______________________________|___________________|
//!                                                                                    v   channel ended
//!                                                    id free <--all workers-- Leaving
//! ```

use super::mail::SenderExport;
use crate::control::{ErrorCode, Format, FrontEnd, Hello, Message};
use crate::layout::SlotMap;
use drover_base::Ns;
use drover_control::acceptor::{ConnId, Peers};
use drover_control::service::StatsReply;
use drover_kv::secret::is_let_in;
use drover_mem::MaskedRegion;
use drover_shards::Answers;
use drover_slots::server::KeyRule;
use drover_verbs::{Export, Provider, Qpn, QueuePair};

/// State of a session.
#[derive(Debug)]
pub(super) enum Phase {
    /// The channel is open; `Hello` has not arrived.
    Hello,
    /// The workers export their queue pairs for the client's datagrams.
    Exporting(Answers<Result<SenderExport, String>>),
    /// `Welcome` is sent; the client's queue pairs have not all arrived.
    Attaching,
    /// The workers add the client.
    Adding(Answers<Result<(), String>>),
    /// The client may send requests.
    Live,
    /// The channel has ended; the workers drop the client.
    Leaving(Answers<()>),
}

/// The terms of a session, agreed at `Hello`.
#[derive(Clone, Copy, Debug)]
pub(super) struct SessionParams {
    pub(super) format: Format,
    pub(super) front_end: FrontEnd,
    pub(super) rule: KeyRule,
    pub(super) map: SlotMap,
}

/// The server's end of a queue pair, and the memory that the client accesses through it. Dropping both makes late
/// WRITEs impossible.
pub(super) struct Port<P: Provider> {
    pub(super) qp: P::Qp,
    /// The context of all of it, if it is not the control thread's.
    pub(super) _own: Option<P::Context>,
    /// Never polled, because this end posts nothing.
    pub(super) _cq: P::Cq,
    pub(super) _mr: P::Mr,
}

/// Bulk memory of a client, if it has asked for some.
pub(super) struct BulkPort<P: Provider> {
    /// The RC queue pair and the memory.
    pub(super) port: Option<Port<P>>,
    /// Answers of the workers, until all of them know the memory.
    pub(super) opening: Option<Answers<()>>,
    /// Whether the client's end is connected, and `Ready` has not been sent.
    pub(super) attached: bool,
}

/// The messages by which a client has asked for statistics, as long as it has not got them.
#[derive(Clone, Copy, Default)]
pub(super) struct StatsWanted {
    /// Whether it has sent a [`Message::StatsRequest`].
    pub(super) by_request: bool,
    /// Whether it has sent a [`StatsQuery`](drover_control::service::StatsQuery).
    pub(super) by_query: bool,
}

/// One client, or one channel on which no `Hello` has arrived.
pub(super) struct Session<P: Provider> {
    pub(super) conn: ConnId,
    pub(super) phase: Phase,
    /// Client id and its generation, from an accepted `Hello` on.
    pub(super) id: Option<(u32, u32)>,
    /// What was agreed, from an accepted `Hello` on.
    pub(super) terms: Option<SessionParams>,
    /// The client's slots; `None` if it sends datagrams.
    pub(super) slots: Option<MaskedRegion>,
    /// The UC queue pair for requests, and the memory of the slots; `None` if the client sends datagrams.
    pub(super) port: Option<Port<P>>,
    pub(super) bulk: BulkPort<P>,
    /// Whether the UC queue pair is connected, or none is needed.
    pub(super) attached: bool,
    /// For each partition, the client's queue pair for replies, once it has arrived.
    pub(super) replies: Vec<Option<Export>>,
    /// For each partition, the number that the client's datagrams carry there; empty if it sends none.
    pub(super) senders: Vec<Option<Qpn>>,
    /// Time by which the session must be live.
    deadline: Ns,
    pub(super) wants_stats: StatsWanted,
}

impl<P: Provider> Session<P> {
    pub(super) fn new(conn: ConnId, deadline: Ns) -> Session<P> {
        Session {
            conn,
            phase: Phase::Hello,
            id: None,
            terms: None,
            slots: None,
            port: None,
            bulk: BulkPort {
                port: None,
                opening: None,
                attached: false,
            },
            attached: false,
            replies: Vec::new(),
            senders: Vec::new(),
            deadline,
            wants_stats: StatsWanted::default(),
        }
    }

    pub(super) fn is(&self, id: u32) -> bool {
        self.id.is_some_and(|(own, _)| own == id)
    }

    pub(super) fn is_live(&self) -> bool {
        matches!(self.phase, Phase::Live)
    }

    /// Whether its `Hello` was accepted with this front end.
    pub(super) fn uses(&self, front_end: FrontEnd) -> bool {
        self.terms.is_some_and(|terms| terms.front_end == front_end)
    }

    /// Time by which the session must be live; `None` if it is live or leaving.
    pub(super) fn deadline(&self) -> Option<Ns> {
        (!matches!(self.phase, Phase::Live | Phase::Leaving(_))).then_some(self.deadline)
    }

    pub(super) fn send(&self, peers: &mut Peers, message: &Message) {
        let frame = message.encode();
        if let Err(error) = peers.send(self.conn, frame.kind, &frame.body, &frame.fds) {
            self.refuse(peers, ErrorCode::Resources, &error.to_string());
        }
    }

    /// Sends `text`, the statistics, in each of the forms in which the client has asked for them.
    pub(super) fn tell_stats(&mut self, peers: &mut Peers, text: &str) {
        let wanted = std::mem::take(&mut self.wants_stats);
        let text = text.to_owned();
        if wanted.by_query {
            // The client may have closed the channel.
            let _ = peers.send_message(self.conn, &StatsReply { text: text.clone() });
        }
        if wanted.by_request {
            self.send(peers, &Message::Stats { text });
        }
    }

    /// Sends an Error with this code and text, and closes the channel.
    pub(super) fn refuse(&self, peers: &mut Peers, code: ErrorCode, text: &str) {
        let client = peers.name(self.conn);
        match code {
            // Every client is told that when the server ends, and when it had better send datagrams.
            ErrorCode::Stopping | ErrorCode::NoSlots => tracing::debug!("{client} refused: {text}"),
            _ => tracing::info!("{client} refused: {text}"),
        }
        let text = text.to_owned();
        let frame = Message::Error { code, text }.encode();
        // It is closed either way.
        let _ = peers.send(self.conn, frame.kind, &frame.body, &[]);
        peers.close(self.conn);
    }

    /// Whether the client's queue pairs have all arrived.
    pub(super) fn is_attached(&self) -> bool {
        self.attached && !self.replies.is_empty() && self.replies.iter().all(Option::is_some)
    }

    /// Destroys the queue pairs and deregisters the memory that the client could still write through.
    pub(super) fn cut_off(&mut self) {
        for port in [&mut self.port, &mut self.bulk.port] {
            if let Some(mut port) = port.take() {
                port.qp.to_error();
            }
        }
    }
}

/// The terms for a client that has sent `hello`.
///
/// # Errors
/// Code and text with which the client must be refused.
pub(super) fn agree(hello: &Hello, offer: &Offer) -> Result<SessionParams, (ErrorCode, &'static str)> {
    if hello.protocol_version != crate::control::PROTOCOL_VERSION {
        return Err((
            ErrorCode::Version,
            "this server speaks another version of the protocol",
        ));
    }
    if !is_let_in(&offer.auth, &hello.auth) {
        return Err((ErrorCode::Auth, "not authorised"));
    }
    let crc_required = offer.crc_required || hello.crc;
    match (hello.format, hello.front_end) {
        (Format::P, _) if !offer.paper_format => {
            Err((ErrorCode::NotSupported, "this server does not speak format P"))
        }
        (Format::P, _) if offer.crc_required => Err((
            ErrorCode::NotSupported,
            "format P has no checksums, and this fabric needs them",
        )),
        (Format::P, FrontEnd::Datagrams) => Err((ErrorCode::NotSupported, "format P has no datagrams")),
        (_, FrontEnd::Datagrams) if offer.datagram_window_max == 0 => {
            Err((ErrorCode::NotSupported, "the datagram front end is switched off"))
        }
        _ => Ok(()),
    }?;
    let window_wanted = usize::from(hello.window).max(1);
    let slot_wanted = usize::from(hello.slot_bytes) & !63;
    let window_max = match hello.front_end {
        FrontEnd::Slots => offer.window_max,
        FrontEnd::Datagrams => offer.datagram_window_max,
    };
    let map = SlotMap {
        slot_bytes: slot_wanted.clamp(crate::layout::SLOT_BYTES_MIN, offer.slot_bytes_max),
        window: (1 << window_wanted.ilog2()).min(window_max),
        partition_count: offer.partition_count,
    };
    debug_assert!(map.is_valid());
    Ok(SessionParams {
        format: hello.format,
        front_end: hello.front_end,
        rule: KeyRule {
            hash_only: offer.hash_only,
            crc_required,
        },
        map,
    })
}

/// The server's limits and requirements for every session.
#[derive(Clone, Debug)]
pub(super) struct Offer {
    pub(super) auth: Vec<u8>,
    pub(super) crc_required: bool,
    pub(super) paper_format: bool,
    /// Most slots per partition of a client that sends datagrams; 0: clients cannot send datagrams.
    pub(super) datagram_window_max: usize,
    pub(super) hash_only: bool,
    pub(super) slot_bytes_max: usize,
    pub(super) window_max: usize,
    pub(super) partition_count: usize,
}
