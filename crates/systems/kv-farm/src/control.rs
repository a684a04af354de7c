//! Messages of the control channel.
//!
//! ```text
//! client: Hello ----------------------->
//!         <---------- Welcome (or refused)  addresses of table, objects and ring, the server's queue pairs
//! client: Attach ---------------------->    the client's queue pairs, its mailbox, its memory for long values
//!         <---------------------- Ready
//! ```

use drover_control::{DecodeError, Reader, Writer, kind};
use drover_index::hopscotch::{Geometry, SlotKind, TableOptions};
use drover_verbs::Export;

pub use drover_one_sided::{QpExports, Ready, ServerParams, Ticket};

/// This system's name in a [`ServiceInfo`](drover_control::service::ServiceInfo).
pub const SYSTEM: &str = "farm";

/// Version of these messages and of the layouts; client and server must have the same.
pub const PROTOCOL_VERSION: u16 = 7;

/// A client's first message: what it asks for.
pub type Hello = drover_one_sided::Hello<FarmParams>;

/// FaRM-KV's own parameters in a client's [`Hello`].
#[derive(Clone, Debug)]
pub struct FarmParams {
    /// Whether the client requires checksums in records and replies, because its fabric may show the bytes of a WRITE
    /// in any order.
    pub sums: bool,
}

/// The server's answer to Hello: its parameters, and how to reach its memory and its queue pairs.
#[derive(Clone, Debug)]
pub struct Welcome {
    /// Parameters that the servers of all one-sided systems send. The longest item in them counts 20 bytes of header in
    /// addition to key and value.
    pub terms: ServerParams,
    /// Geometry, kind of slots, size and epoch of the table.
    pub table: TableOptions,
    /// Bytes of the client's mailbox per operation in flight, for the reply to it; a multiple of 64.
    pub reply_bytes: u32,
    /// Length of this client's ring, bytes.
    pub ring_bytes: u32,
    /// Whether records and replies carry checksums: if the client or the server's fabric requires them.
    pub sums: bool,
    /// How to reach the table's memory, for READs.
    pub slots: Export,
    /// How to reach the objects' memory, for READs.
    pub objects: Export,
    /// How to reach this client's ring, into which the client WRITEs records with its requests: behind the port.
    pub ring: Export,
    /// How to connect to the server's queue pairs for this client.
    pub qps: QpExports,
}

/// The client's second message: how the server connects to its queue pairs and reaches its memory.
#[derive(Clone, Debug)]
pub struct Attach {
    /// How to connect to the client's queue pairs.
    pub qps: QpExports,
    /// How to reach the client's mailbox, where the server WRITEs replies.
    pub mailbox: Export,
    /// How to reach the client's memory for long values, which the server READs and WRITEs.
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
    qps,
});
drover_control::message!(kind::APPLICATION + 2 => Attach { qps, mailbox, values });

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
