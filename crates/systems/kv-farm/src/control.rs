//! Messages of the control channel.
//!
//! ```text
//! client: Hello ----------------------->
//!         <---------- Welcome (or refused)  addresses of table, objects and ring, the server's queue pair
//! client: Attach ---------------------->    the client's queue pair, its mailbox, its memory for long values
//!         <---------------------- Ready
//! ```

use drover_control::{DecodeError, Message, Reader, Writer, kind};
use drover_index::hopscotch::{Geometry, SlotKind, TableOptions};
use drover_verbs::Export;

pub use drover_one_sided::{Ready, ServerParams};

/// This system's name in a [`ServiceInfo`](drover_control::service::ServiceInfo).
pub const SYSTEM: &str = "farm";

/// Version of these messages and of the layouts; client and server must have the same.
pub const PROTOCOL_VERSION: u16 = 4;

/// A client's first message.
pub type Hello = drover_one_sided::Hello<FarmParams>;

/// The system's parameters in a client's Hello.
#[derive(Clone, Debug)]
pub struct FarmParams {
    /// Whether records and replies need checksums, because the client's fabric may show the bytes of a WRITE in any
    /// order.
    pub sums: bool,
}

/// The server's answer to Hello.
#[derive(Clone, Debug)]
pub struct Welcome {
    /// Parameters that all servers send; its longest item counts 20 bytes in addition to key and value.
    pub terms: ServerParams,
    /// Geometry, kind and size of the table.
    pub table: TableOptions,
    /// Bytes of the client's mailbox for each slot's reply.
    pub reply_bytes: u32,
    /// Length of this client's ring, bytes.
    pub ring_bytes: u32,
    /// Whether records and replies carry checksums.
    pub sums: bool,
    /// Memory of the table.
    pub slots: Export,
    /// Memory of the objects.
    pub objects: Export,
    /// Memory of this client's ring.
    pub ring: Export,
    /// The server's RC queue pair.
    pub qp: Export,
}

/// The client's second message: its queue pair and memory.
#[derive(Clone, Debug)]
pub struct Attach {
    /// The client's RC queue pair.
    pub qp: Export,
    /// Memory of the mailbox, where the server WRITEs replies.
    pub mailbox: Export,
    /// Memory for long values, which the server READs and WRITEs.
    pub values: Export,
}

impl drover_one_sided::ClientParams for FarmParams {
    fn encode(&self, to: &mut Writer) {
        to.bool(self.sums);
    }

    fn decode(from: &mut Reader<'_>) -> Result<FarmParams, DecodeError> {
        let sums = from.bool("sums")?;
        Ok(FarmParams { sums })
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
        self.terms.encode(to);
        encode_table(&self.table, to);
        to.u32(self.reply_bytes).u32(self.ring_bytes).bool(self.sums);
        to.export(&self.slots)
            .export(&self.objects)
            .export(&self.ring)
            .export(&self.qp);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Welcome, DecodeError> {
        Ok(Welcome {
            terms: ServerParams::decode(from)?,
            table: decode_table(from)?,
            reply_bytes: from.u32()?,
            ring_bytes: from.u32()?,
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
