//! Messages of the control channel.
//!
//! ```text
//! client: Hello ----------------------->
//!         <---------- Welcome (or refused)  addresses of table, objects and ring, the server's queue pair
//! client: Attach ---------------------->    the client's queue pair, its mailbox, its memory for long values
//!         <---------------------- Ready
//! ```

use drover_control::{DecodeError, Reader, Writer, kind};
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

drover_control::fields!(FarmParams { sums });
drover_control::message!(kind::APPLICATION + 1 => Welcome {
    terms,
    table as TableCodec,
    reply_bytes,
    ring_bytes,
    sums,
    slots,
    objects,
    ring,
    qp,
});
drover_control::message!(kind::APPLICATION + 2 => Attach { qp, mailbox, values });

struct TableCodec;

impl TableCodec {
    fn encode(table: &TableOptions, to: &mut Writer) {
        to.u16(table.geometry.stride as u16)
            .u16(table.geometry.span as u16)
            .bool(table.kind == SlotKind::Wide)
            .u64(table.home_count as u64)
            .u32(table.block_count as u32)
            .u64(table.epoch);
    }

    fn decode(from: &mut Reader<'_>, _: &'static str) -> Result<TableOptions, DecodeError> {
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
}
