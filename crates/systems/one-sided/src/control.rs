//! Messages of the control channel that all one-sided systems share. Each system defines its own `Welcome` and
//! `Attach`.
//!
//! ```text
//! client: Hello ----------------------->
//!         <---------- Welcome (or refused)  begins with ServerParams
//! client: Attach ---------------------->
//!         <---------------------- Ready
//! ```

use crate::error::PeerError;
use drover_base::HashSeed;
use drover_control::{DecodeError, Field, Frame, Message, Reader, Writer, kind};
use drover_kv::secret::SECRET_BYTES_MAX;
use drover_rt::{Port, Queues};
use drover_verbs::{Export, Provider, QueuePair};

/// A client's first message: what it asks for. `W` is the type of the system's own parameters.
#[derive(Clone, Debug)]
pub struct Hello<W = ()> {
    /// Version of the system's messages and layouts.
    pub version: u16,
    /// Number of slots that the client asks for, one for each operation in flight. The server grants as many, but at
    /// least 1 and at most 1024; no message says how many it granted.
    pub slots: u16,
    /// Index of the shard that the client expects at the other end.
    pub shard: u16,
    /// Number of shards that the client counts on. The server refuses a wrong number or index of the shard: with
    /// another number, the client would look for keys in the wrong shard and not find them.
    pub shard_count: u16,
    /// [`ServerParams::ticket`] of the client's previous session, which the server ends if it still exists. If it knows
    /// the ticket, the new session goes on where the previous one ended: see [`Ticket`].
    pub previous: Ticket,
    /// The secret that the server's operator requires, at most [`SECRET_BYTES_MAX`] bytes; empty: none.
    pub secret: Vec<u8>,
    /// The system's own parameters.
    pub params: W,
}

impl<W> Hello<W> {
    /// The first two bytes of the body of `frame` as a number: in a Hello of any version, the client's version. `None`
    /// if there are fewer. The kind of the frame is not checked.
    pub fn version_of(frame: &Frame) -> Option<u16> {
        frame.body.first_chunk().map(|bytes| u16::from_le_bytes(*bytes))
    }
}

impl<W: Field> Message for Hello<W> {
    const KIND: u16 = kind::APPLICATION;

    fn encode(&self, to: &mut Writer) {
        to.u16(self.version)
            .u16(self.slots)
            .u16(self.shard)
            .u16(self.shard_count);
        self.previous.encode(to);
        to.bytes(&self.secret);
        self.params.encode(to);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Hello<W>, DecodeError> {
        Ok(Hello {
            version: from.u16()?,
            slots: from.u16()?,
            shard: from.u16()?,
            shard_count: from.u16()?,
            previous: Ticket::decode(from, "previous")?,
            secret: from.bytes("length of the secret", SECRET_BYTES_MAX)?.to_vec(),
            params: W::decode(from, "params")?,
        })
    }
}

/// Names the successive sessions of a client with one server that go on where the one before ended: the server knows
/// the last update of each slot and its answer ([`LastUpdates`](crate::LastUpdates)). Nobody else can guess it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ticket {
    /// Id of the first of these sessions; 0: no session.
    pub session: u64,
    /// Random.
    pub secret: u64,
}

impl Ticket {
    /// The ticket of a client that has had no session.
    pub const NONE: Ticket = Ticket {
        session: 0,
        secret: 0,
    };
}

/// Parameters that the server of every one-sided system sends, at the start of its `Welcome`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerParams {
    /// Id of the new session, random, never 0.
    pub session: u64,
    /// The client's ticket for its next session. The one that it showed, if the server knows that; then updates that
    /// the client sent over earlier sessions and sends again are not executed twice.
    pub ticket: Ticket,
    /// Seed of the hash of keys, which client and server compute alike.
    pub hash_seed: HashSeed,
    /// Longest item that the server accepts, bytes: header (24 bytes in Pilaf, 20 in FaRM-KV), key and value.
    pub item_bytes_max: u32,
    /// Longest request with its header, bytes.
    pub message_bytes: u32,
    /// The server's clock when it sent this: whole seconds since its start, plus 1. Items expire by this clock.
    pub now_s: u32,
}

/// How to connect to one end's RC queue pairs of a session.
#[derive(Clone, Debug)]
pub struct QpExports {
    /// The queue pair by which the server posts, and by which the client READs what all clients may READ.
    pub qp: Export,
    /// The queue pair to the client's [`Port`] at the server; `None` on fabrics without.
    pub port: Option<Export>,
}

impl QpExports {
    /// The server's ends.
    ///
    /// # Errors
    /// [`PeerError`] if one cannot be exported.
    pub fn of_server<P: Provider>(queues: &Queues<P>, port: &Port<P>) -> Result<QpExports, PeerError> {
        Ok(QpExports {
            qp: queues.qp.export()?,
            port: port.export()?,
        })
    }

    /// Connects the server's ends to these ones, the client's.
    ///
    /// # Errors
    /// [`PeerError`] if one cannot be connected.
    pub fn connect_server<P: Provider>(
        &self,
        queues: &mut Queues<P>,
        port: &mut Port<P>,
    ) -> Result<(), PeerError> {
        port.connect(self.port.as_ref())?;
        Ok(queues.qp.connect(&self.qp)?)
    }
}

drover_control::fields!(QpExports { qp, port });
drover_control::fields!(Ticket { session, secret });
drover_control::fields!(ServerParams {
    session,
    ticket,
    hash_seed,
    item_bytes_max,
    message_bytes,
    now_s,
});

/// The server's last message of the handshake: its queue pair is connected, and the client may send requests.
#[derive(Clone, Debug)]
pub struct Ready;

drover_control::message!(kind::APPLICATION + 3 => Ready {});
