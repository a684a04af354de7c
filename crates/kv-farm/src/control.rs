//! Messages of the control channel.
//!
//! ```text
//! client: Hello ----------------------->
//!         <---------- Welcome (or refused)  where table, objects and this client's ring are, the server's queue pair
//! client: Attach ---------------------->    the client's queue pair, its mailbox, its memory for long values
//!         <---------------------- Ready
//! ```

use drover_index::hopscotch::{Geometry, SlotKind, TableOptions};
use drover_rt::control::{DecodeError, Message, Reader, Writer, kind};
use drover_verbs::Export;

/// What an [`Announcement`](drover_rt::control::service::Announcement) calls this system.
pub const SYSTEM: &str = "farm";

/// Version of these messages and of the layouts.
pub const PROTOCOL_VERSION: u16 = 1;

/// Code of a refusal: this server is not the shard that the client took it for.
pub const WRONG_SHARD: u16 = drover_rt::control::refusal::APPLICATION;

/// Code of a refusal: another version.
pub const WRONG_VERSION: u16 = WRONG_SHARD + 1;

/// Code of a refusal: the server lacks memory or queues.
pub const NO_RESOURCES: u16 = WRONG_SHARD + 2;

/// A client's first word.
#[derive(Clone, Debug)]
pub struct Hello {
    /// [`PROTOCOL_VERSION`].
    pub version: u16,
    /// Operations under way at a time: places for replies in its mailbox.
    pub slots: u16,
    /// Which shard the client takes the server for.
    pub shard: u16,
    /// Of how many. A client with another list would look for keys in the wrong place, and find none.
    pub shard_count: u16,
    /// Its last session, which is over; 0 = none.
    pub previous: u64,
    /// Its fabric may show the bytes of a WRITE in any order.
    pub sums: bool,
}

/// The server's answer.
#[derive(Clone, Debug)]
pub struct Welcome {
    /// The new session.
    pub session: u64,
    /// Keys the hash.
    pub hash_k0: u64,
    /// Keys the hash.
    pub hash_k1: u64,
    /// Geometry, kind and size of the table.
    pub table: TableOptions,
    /// Longest item (20 bytes, key, value), bytes.
    pub item_bytes_max: u32,
    /// Longest payload of a record, bytes.
    pub message_bytes: u32,
    /// Place of a reply in the mailbox, bytes.
    pub reply_bytes: u32,
    /// Of the ring.
    pub ring_bytes: u32,
    /// The server's clock, seconds.
    pub now_s: u32,
    /// Records and replies carry sums.
    pub sums: bool,
    /// The table.
    pub slots: Export,
    /// The objects.
    pub objects: Export,
    /// This client's ring.
    pub ring: Export,
    /// RC.
    pub qp: Export,
}

/// The client's end.
#[derive(Clone, Debug)]
pub struct Attach {
    /// RC.
    pub qp: Export,
    /// Where the server WRITEs replies.
    pub mailbox: Export,
    /// Where it READs long values from, and WRITEs them to.
    pub values: Export,
}

/// The server has connected its end.
#[derive(Clone, Debug)]
pub struct Ready;

impl Message for Hello {
    const KIND: u16 = kind::APPLICATION;

    fn encode(&self, to: &mut Writer) {
        to.u16(self.version)
            .u16(self.slots)
            .u16(self.shard)
            .u16(self.shard_count)
            .u64(self.previous)
            .bool(self.sums);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Hello, DecodeError> {
        Ok(Hello {
            version: from.u16()?,
            slots: from.u16()?,
            shard: from.u16()?,
            shard_count: from.u16()?,
            previous: from.u64()?,
            sums: from.bool("sums")?,
        })
    }
}

fn encode_table(table: &TableOptions, to: &mut Writer) {
    to.u16(table.geometry.stride as u16)
        .u16(table.geometry.span as u16)
        .bool(table.kind == SlotKind::Wide)
        .u64(table.home_count as u64)
        .u32(table.block_count as u32)
        .u64(table.epoch);
}

fn decode_table(from: &mut Reader<'_>) -> Result<TableOptions, DecodeError> {
    Ok(TableOptions {
        geometry: Geometry {
            stride: usize::from(from.u16()?),
            span: usize::from(from.u16()?),
        },
        kind: match from.bool("slot kind")? {
            true => SlotKind::Wide,
            false => SlotKind::Narrow,
        },
        home_count: from.u64()? as usize,
        block_count: from.u32()? as usize,
        epoch: from.u64()?,
    })
}

impl Message for Welcome {
    const KIND: u16 = kind::APPLICATION + 1;

    fn encode(&self, to: &mut Writer) {
        to.u64(self.session).u64(self.hash_k0).u64(self.hash_k1);
        encode_table(&self.table, to);
        to.u32(self.item_bytes_max)
            .u32(self.message_bytes)
            .u32(self.reply_bytes)
            .u32(self.ring_bytes)
            .u32(self.now_s)
            .bool(self.sums);
        to.export(&self.slots)
            .export(&self.objects)
            .export(&self.ring)
            .export(&self.qp);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Welcome, DecodeError> {
        Ok(Welcome {
            session: from.u64()?,
            hash_k0: from.u64()?,
            hash_k1: from.u64()?,
            table: decode_table(from)?,
            item_bytes_max: from.u32()?,
            message_bytes: from.u32()?,
            reply_bytes: from.u32()?,
            ring_bytes: from.u32()?,
            now_s: from.u32()?,
            sums: from.bool("sums")?,
            slots: from.export()?,
            objects: from.export()?,
            ring: from.export()?,
            qp: from.export()?,
        })
    }
}

impl Message for Attach {
    const KIND: u16 = kind::APPLICATION + 2;

    fn encode(&self, to: &mut Writer) {
        to.export(&self.qp).export(&self.mailbox).export(&self.values);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Attach, DecodeError> {
        Ok(Attach {
            qp: from.export()?,
            mailbox: from.export()?,
            values: from.export()?,
        })
    }
}

impl Message for Ready {
    const KIND: u16 = kind::APPLICATION + 3;

    fn encode(&self, _: &mut Writer) {}

    fn decode(_: &mut Reader<'_>) -> Result<Ready, DecodeError> {
        Ok(Ready)
    }
}
