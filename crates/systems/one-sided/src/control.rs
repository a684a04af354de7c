//! Messages of the control channel that all one-sided systems share. Each system defines its own `Welcome` and
//! `Attach`.
//!
//! ```text
//! client: Hello ----------------------->
//!         <---------- Welcome (or refused)  begins with ServerParams
//! client: Attach ---------------------->
//!         <---------------------- Ready
//! ```

use drover_base::HashSeed;
use drover_control::{DecodeError, Field, Frame, Message, Reader, Writer, kind};
use drover_kv::secret::SECRET_BYTES_MAX;

/// A client's first message.
#[derive(Clone, Debug)]
pub struct Hello<W = ()> {
    /// Version of the system's messages and layouts.
    pub version: u16,
    /// Number of slots, operations in flight, that the client asks for; the server grants at least 1 and at most 1024.
    pub slots: u16,
    /// Index of the shard that the client expects at the other end.
    pub shard: u16,
    /// Number of shards in the client's list. With a different list, the client would look for keys in the wrong shard
    /// and not find them.
    pub shard_count: u16,
    /// Id of the client's previous session, which the server ends if it still exists; 0 = none.
    pub previous: u64,
    /// The secret that the server's operator requires, at most [`SECRET_BYTES_MAX`]; empty: none.
    pub secret: Vec<u8>,
    /// The system's own parameters.
    pub wishes: W,
}

impl<W> Hello<W> {
    /// Version of the client whose `frame` is a Hello, or looks like one: it is in the same place in every version.
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
            .u16(self.shard_count)
            .u64(self.previous)
            .bytes(&self.secret);
        self.wishes.encode(to);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Hello<W>, DecodeError> {
        Ok(Hello {
            version: from.u16()?,
            slots: from.u16()?,
            shard: from.u16()?,
            shard_count: from.u16()?,
            previous: from.u64()?,
            secret: from.bytes("length of the secret", SECRET_BYTES_MAX)?.to_vec(),
            wishes: W::decode(from, "wishes")?,
        })
    }
}

/// Parameters that every server sends, at the start of its `Welcome`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerParams {
    /// Id of the new session.
    pub session: u64,
    /// Seed of the hash under which the server finds keys.
    pub hash_seed: HashSeed,
    /// Longest item, bytes, counted as the system does.
    pub item_bytes_max: u32,
    /// Longest request with its header, bytes.
    pub message_bytes: u32,
    /// The server's clock when it sent this, seconds since its start, counted from 1.
    pub now_s: u32,
}

drover_control::fields!(ServerParams {
    session,
    hash_seed,
    item_bytes_max,
    message_bytes,
    now_s,
});

/// The server's last message of the handshake: its queue pair is connected.
#[derive(Clone, Debug)]
pub struct Ready;

drover_control::message!(kind::APPLICATION + 3 => Ready {});
