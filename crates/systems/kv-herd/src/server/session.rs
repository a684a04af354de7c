//! [`Session`]: one client from its first word to the moment when nothing of it is left.
//!
//! ```text
//! Hello --Hello--> Exporting (datagrams only) --> Attaching --all ends known--> Adding --all workers--> Live
//!     \_______________________|_______________________|______________________________|___________________|
//!                                                                                    v   channel ended
//!                                                    id free <--all workers-- Leaving
//! ```

use crate::control::{ErrorCode, Format, FrontEnd, Hello, Message};
use crate::layout::SlotMap;
use drover_base::Ns;
use drover_control::acceptor::{ConnId, Peers};
use drover_control::service::StatsReply;
use drover_kv::secret::is_let_in;
use drover_mem::MaskedRegion;
use drover_shards::Answers;
use drover_slots::server::KeyRule;
use drover_verbs::{Export, Provider, QueuePair};

/// Where a session stands.
#[derive(Debug)]
pub(super) enum Phase {
    /// Connected; `Hello` is awaited.
    Hello,
    /// Workers are exporting their queue pairs for it.
    Exporting(Answers<Result<Export, String>>),
    /// Welcomed; the client's queue pairs are awaited.
    Attaching,
    /// Workers are taking it up.
    Adding(Answers<Result<(), String>>),
    /// It may send requests.
    Live,
    /// Its channel has ended; workers are dropping it.
    Leaving(Answers<()>),
}

/// What was agreed with a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct SessionParams {
    pub(super) format: Format,
    pub(super) front_end: FrontEnd,
    pub(super) rule: KeyRule,
    pub(super) map: SlotMap,
}

/// Queue pair and memory of one kind of traffic. Dropping both is what makes late WRITEs impossible.
pub(super) struct Port<P: Provider> {
    pub(super) qp: P::Qp,
    /// Never polled: this end only responds.
    pub(super) _cq: P::Cq,
    pub(super) _mr: P::Mr,
}

/// Bulk memory of a client.
pub(super) struct BulkPort<P: Provider> {
    /// Large values: RC.
    pub(super) port: Option<Port<P>>,
    /// Workers are being told of it.
    pub(super) opening: Option<Answers<()>>,
    /// The client's end is connected, and it has not been told that all is ready.
    pub(super) attached: bool,
}

/// How a client has asked for statistics that it has not got yet.
#[derive(Clone, Copy, Default)]
pub(super) struct StatsWanted {
    /// By [`Message::StatsRequest`].
    pub(super) by_request: bool,
    /// By the query that services of all systems answer.
    pub(super) by_query: bool,
}

/// One client.
pub(super) struct Session<P: Provider> {
    pub(super) conn: ConnId,
    pub(super) phase: Phase,
    /// Given out at `Hello`.
    pub(super) id: Option<(u32, u32)>,
    pub(super) terms: Option<SessionParams>,
    pub(super) slots: Option<MaskedRegion>,
    /// Requests: UC.
    pub(super) port: Option<Port<P>>,
    pub(super) bulk: BulkPort<P>,
    pub(super) attached: bool,
    /// Its queue pairs for replies.
    pub(super) replies: Vec<Option<Export>>,
    /// It must be live by then.
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

    /// It was let in with this front end.
    pub(super) fn uses(&self, front_end: FrontEnd) -> bool {
        self.terms.is_some_and(|terms| terms.front_end == front_end)
    }

    /// When it must be live, if it is on its way there.
    pub(super) fn deadline(&self) -> Option<Ns> {
        (!matches!(self.phase, Phase::Live | Phase::Leaving(_))).then_some(self.deadline)
    }

    pub(super) fn send(&self, peers: &mut Peers, message: &Message) {
        let frame = message.encode();
        if let Err(error) = peers.send(self.conn, frame.kind, &frame.body, &frame.fds) {
            let (client, peer, kind) = (self.id, peers.peer(self.conn), frame.kind);
            tracing::warn!(%error, ?client, %peer, kind, "a control message could not be sent");
            self.refuse(peers, ErrorCode::Resources, &error.to_string());
        }
    }

    /// Tells statistics, if the client has asked for them.
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

    /// Last words.
    pub(super) fn refuse(&self, peers: &mut Peers, code: ErrorCode, text: &str) {
        let text = text.to_owned();
        let frame = Message::Error { code, text }.encode();
        // It is closed either way.
        let _ = peers.send(self.conn, frame.kind, &frame.body, &[]);
        peers.close(self.conn);
    }

    /// Everything the client needs to attach has come.
    pub(super) fn is_attached(&self) -> bool {
        self.attached && !self.replies.is_empty() && self.replies.iter().all(Option::is_some)
    }

    /// Takes away what the client could still write through.
    pub(super) fn cut_off(&mut self) {
        for port in [&mut self.port, &mut self.bulk.port] {
            if let Some(mut port) = port.take() {
                port.qp.to_error();
            }
        }
    }
}

/// What to offer a client that says `hello`.
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

/// What a server can give.
#[derive(Clone, Debug)]
pub(super) struct Offer {
    pub(super) auth: Vec<u8>,
    pub(super) crc_required: bool,
    pub(super) paper_format: bool,
    /// Slots of a client that sends datagrams; 0: it is not let in.
    pub(super) datagram_window_max: usize,
    pub(super) hash_only: bool,
    pub(super) slot_bytes_max: usize,
    pub(super) window_max: usize,
    pub(super) partition_count: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::PROTOCOL_VERSION;

    fn offer() -> Offer {
        Offer {
            auth: Vec::new(),
            crc_required: false,
            paper_format: true,
            datagram_window_max: 16,
            hash_only: false,
            slot_bytes_max: 1024,
            window_max: 64,
            partition_count: 3,
        }
    }

    fn hello(window: u16, slot_bytes: u16) -> Hello {
        Hello {
            protocol_version: PROTOCOL_VERSION,
            format: Format::D,
            front_end: FrontEnd::Slots,
            window,
            slot_bytes,
            crc: false,
            resume_epoch: 0,
            auth: Vec::new(),
        }
    }

    #[test]
    fn any_wish_becomes_a_valid_map() {
        for window in [0, 1, 3, 16, 200, u16::MAX] {
            for slot_bytes in [0, 1, 64, 100, 1024, 4000, u16::MAX] {
                let terms = agree(&hello(window, slot_bytes), &offer()).expect("a wish, not a demand");
                assert!(terms.map.is_valid());
                assert!(terms.map.window <= usize::from(window).clamp(1, 64));
                assert!(terms.map.slot_bytes <= 1024);
            }
        }
    }

    #[test]
    fn refusals() {
        let code = |hello: Hello, offer: Offer| agree(&hello, &offer).err().map(|(code, _)| code);
        let old = Hello {
            protocol_version: 0,
            ..hello(4, 64)
        };
        assert_eq!(code(old, offer()), Some(ErrorCode::Version));
        let secret = Offer {
            auth: b"secret".to_vec(),
            ..offer()
        };
        assert_eq!(code(hello(4, 64), secret.clone()), Some(ErrorCode::Auth));
        let right = Hello {
            auth: b"secret".to_vec(),
            ..hello(4, 64)
        };
        assert_eq!(code(right, secret), None);
        let paper = Hello {
            format: Format::P,
            ..hello(4, 64)
        };
        assert_eq!(code(paper.clone(), offer()), None);
        let torn = Offer {
            crc_required: true,
            ..offer()
        };
        assert_eq!(code(paper.clone(), torn), Some(ErrorCode::NotSupported));
        let no_paper = Offer {
            paper_format: false,
            ..offer()
        };
        assert_eq!(code(paper, no_paper), Some(ErrorCode::NotSupported));
    }
}
