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
use crate::logic::KeyRule;
use drover_base::Ns;
use drover_control::service::{ServiceInfo, StatsReply};
use drover_control::{ControlError, ControlStream};
use drover_mem::MaskedRegion;
use drover_verbs::{Export, Provider, QueuePair};

/// Where a session stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Connected; `Hello` is awaited.
    Hello,
    /// Workers are exporting their queue pairs for it.
    Exporting { missing: usize },
    /// Welcomed; the client's queue pairs are awaited.
    Attaching,
    /// Workers are taking it up.
    Adding { missing: usize },
    /// It may send requests.
    Live,
    /// Its channel has ended; workers are dropping it.
    Leaving { missing: usize },
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
    /// Workers that are being told of it.
    pub(super) missing: usize,
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
    pub(super) stream: ControlStream,
    pub(super) phase: Phase,
    /// Given out at `Hello`.
    pub(super) id: Option<(u32, u32)>,
    pub(super) terms: Option<SessionParams>,
    pub(super) slots: Option<MaskedRegion>,
    /// Requests: UC.
    pub(super) port: Option<Port<P>>,
    pub(super) bulk: BulkPort<P>,
    pub(super) attached: bool,
    /// The workers' queue pairs, exported for this client.
    pub(super) exports: Vec<Option<Export>>,
    /// Its queue pairs for replies.
    pub(super) replies: Vec<Option<Export>>,
    /// It must be live by then.
    pub(super) deadline: Ns,
    pub(super) wants_stats: StatsWanted,
}

impl<P: Provider> Session<P> {
    pub(super) fn new(stream: ControlStream, deadline: Ns) -> Session<P> {
        Session {
            stream,
            phase: Phase::Hello,
            id: None,
            terms: None,
            slots: None,
            port: None,
            bulk: BulkPort {
                port: None,
                missing: 0,
                attached: false,
            },
            attached: false,
            exports: Vec::new(),
            replies: Vec::new(),
            deadline,
            wants_stats: StatsWanted::default(),
        }
    }

    pub(super) fn is(&self, id: u32) -> bool {
        self.id.is_some_and(|(own, _)| own == id)
    }

    /// It was let in with this front end.
    pub(super) fn uses(&self, front_end: FrontEnd) -> bool {
        self.terms.is_some_and(|terms| terms.front_end == front_end)
    }

    /// Says who we are to somebody who may want another system.
    pub(super) fn announce(&mut self) {
        let announcement = ServiceInfo {
            system: crate::control::SYSTEM.to_owned(),
            shard_count: 0,
        };
        if let Err(error) = self.stream.send_message(&announcement) {
            tracing::debug!(%error, client = ?self.id, peer = %self.stream.peer(), "a control channel is gone");
        }
    }

    /// Sends; what goes wrong shows at the next `recv`.
    pub(super) fn send(&mut self, message: &Message) {
        let frame = message.encode();
        match self.stream.send(frame.kind, &frame.bytes, &frame.fds) {
            Ok(()) => {}
            Err(
                error @ (ControlError::TooLong { .. }
                | ControlError::TooManyFds { .. }
                | ControlError::FdsOverTcp),
            ) => {
                let (client, peer, kind) = (self.id, self.stream.peer(), frame.kind);
                tracing::warn!(%error, ?client, %peer, kind, "a control message could not be sent");
                self.refuse(ErrorCode::Resources, &error.to_string());
            }
            Err(error) => {
                tracing::debug!(%error, client = ?self.id, peer = %self.stream.peer(), "a control channel is gone");
            }
        }
    }

    /// Tells statistics, if the client has asked for them.
    pub(super) fn tell_stats(&mut self, text: &str) {
        let wanted = std::mem::take(&mut self.wants_stats);
        let text = text.to_owned();
        if wanted.by_query {
            // What goes wrong shows at the next `recv`.
            let _ = self.stream.send_message(&StatsReply { text: text.clone() });
        }
        if wanted.by_request {
            self.send(&Message::Stats { text });
        }
    }

    /// Last words.
    pub(super) fn refuse(&mut self, code: ErrorCode, text: &str) {
        let text = text.to_owned();
        let frame = Message::Error { code, text }.encode();
        // It is closed either way.
        let _ = self.stream.send(frame.kind, &frame.bytes, &[]);
        self.stream.close();
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
        self.stream.close();
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
    if !offer.auth.is_empty() && !same_bytes(&hello.auth, &offer.auth) {
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

/// Compares without telling by its duration where the difference is.
fn same_bytes(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |diff, (x, y)| diff | (x ^ y)) == 0
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
