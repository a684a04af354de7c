//! What both ends of a control channel say, whatever the system. The rest, `Welcome` and `Attach`, is each system's own.
//!
//! ```text
//! client: Hello ----------------------->
//!         <---------- Welcome (or refused)  begins with ServerParams
//! client: Attach ---------------------->
//!         <---------------------- Ready
//! ```

use drover_base::HashSeed;
use drover_rt::control::{DecodeError, Message, Reader, Writer, kind};
use std::fmt::Debug;

/// What clients of one system say in their [`Hello`] and others do not.
pub trait ClientParams: Clone + Debug {
    /// As it travels.
    fn encode(&self, to: &mut Writer);

    /// # Errors
    /// If it is none.
    fn decode(from: &mut Reader<'_>) -> Result<Self, DecodeError>;
}

/// None.
impl ClientParams for () {
    fn encode(&self, _: &mut Writer) {}

    fn decode(_: &mut Reader<'_>) -> Result<(), DecodeError> {
        Ok(())
    }
}

/// A client's first word.
#[derive(Clone, Debug)]
pub struct Hello<W = ()> {
    /// Of the system's messages and layouts.
    pub version: u16,
    /// Operations under way at a time.
    pub slots: u16,
    /// Which shard the client takes the server for.
    pub shard: u16,
    /// Of how many. A client with another list would look for keys in the wrong place, and find none.
    pub shard_count: u16,
    /// Its last session, which is over; 0 = none.
    pub previous: u64,
    /// What is the system's own.
    pub wishes: W,
}

impl<W: ClientParams> Message for Hello<W> {
    const KIND: u16 = kind::APPLICATION;

    fn encode(&self, to: &mut Writer) {
        to.u16(self.version)
            .u16(self.slots)
            .u16(self.shard)
            .u16(self.shard_count)
            .u64(self.previous);
        self.wishes.encode(to);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Hello<W>, DecodeError> {
        Ok(Hello {
            version: from.u16()?,
            slots: from.u16()?,
            shard: from.u16()?,
            shard_count: from.u16()?,
            previous: from.u64()?,
            wishes: W::decode(from)?,
        })
    }
}

/// What a server tells every client, the first words of its `Welcome`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerParams {
    /// The new session.
    pub session: u64,
    /// Keys the hash.
    pub hash_k0: u64,
    /// Keys the hash.
    pub hash_k1: u64,
    /// Longest item, as the system counts its bytes.
    pub item_bytes_max: u32,
    /// Longest request, bytes.
    pub message_bytes: u32,
    /// The server's clock, seconds.
    pub now_s: u32,
}

impl ServerParams {
    /// What keys the hash.
    pub fn hash_seed(&self) -> HashSeed {
        HashSeed::new(self.hash_k0, self.hash_k1)
    }

    /// As it travels.
    pub fn encode(&self, to: &mut Writer) {
        to.u64(self.session).u64(self.hash_k0).u64(self.hash_k1);
        to.u32(self.item_bytes_max)
            .u32(self.message_bytes)
            .u32(self.now_s);
    }

    /// # Errors
    /// If there are not as many bytes.
    pub fn decode(from: &mut Reader<'_>) -> Result<ServerParams, DecodeError> {
        Ok(ServerParams {
            session: from.u64()?,
            hash_k0: from.u64()?,
            hash_k1: from.u64()?,
            item_bytes_max: from.u32()?,
            message_bytes: from.u32()?,
            now_s: from.u32()?,
        })
    }
}

/// The server has connected its end.
#[derive(Clone, Debug)]
pub struct Ready;

impl Message for Ready {
    const KIND: u16 = kind::APPLICATION + 3;

    fn encode(&self, _: &mut Writer) {}

    fn decode(_: &mut Reader<'_>) -> Result<Ready, DecodeError> {
        Ok(Ready)
    }
}
