//! Messages of the control channel.
//!
//! ```text
//! client: Hello ----------------------->
//!         <---------- Welcome (or refused)  sizes of slots, how results travel, addresses, the server's queue pairs, the map
//! client: Attach ---------------------->    the client's queue pairs, its memory for pushed results and for long values
//!         <---------------------- Ready
//!         <---------------------- NewMap    whenever other shards own other keys
//! ```

use crate::layout::RPC_COUNT;
use drover_control::{DecodeError, Reader, Writer, kind};
use drover_kv::PartitionMap;
use drover_rpc::fetch::{ConnParams, Format, Layout, Transfer};
use drover_verbs::Export;

pub use drover_one_sided::{QpExports, Ready, ServerParams, Ticket};

/// A client's first message: what it asks for.
pub type Hello = drover_one_sided::Hello<RfpParams>;

/// Version of these messages and of the layouts; client and server must have the same.
pub const PROTOCOL_VERSION: u16 = 7;

/// These systems' own parameters in a client's [`Hello`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RfpParams {
    /// How results are to come to the client, if the system leaves that open.
    pub transfer: Transfer,
}

drover_control::fields!(RfpParams {
    transfer as TransferCodec,
});

/// The server's answer to Hello: its parameters, and how to reach its memory and its queue pairs.
#[derive(Clone, Debug)]
pub struct Welcome {
    /// Parameters that the servers of all one-sided systems send. Items count 24 bytes of header in addition to key and
    /// value; the longest request is what a request slot holds.
    pub terms: ServerParams,
    /// Longest result, bytes: what a result slot holds.
    pub result_bytes: u32,
    /// How results come to the client: always the same way in some systems, otherwise as it asked for.
    pub transfer: Transfer,
    /// How to reach the request slots and modes of this client, for WRITEs: behind the port.
    pub inbound: Export,
    /// How to reach the result slots of this client, for READs: behind the port.
    pub results: Export,
    /// How to connect to the server's queue pairs for this client.
    pub qps: QpExports,
    /// Where the client READs long values, if the system has that.
    pub in_place: Option<InPlaceExports>,
    /// Which shard owns a key.
    pub map: PartitionMap,
}

/// A newer map than that of [`Welcome`] or of the last such message. The server sends it to every client when its map
/// changes.
#[derive(Clone, Debug)]
pub struct NewMap {
    /// Which shard owns a key.
    pub map: PartitionMap,
}

/// How a client READs long values where they are.
#[derive(Clone, Debug)]
pub struct InPlaceExports {
    /// How to reach the memory of all items, for READs.
    pub items: Export,
    /// How to reach the acknowledgements of this client's places, for WRITEs: behind the port.
    pub acks: Export,
}

/// The client's second message: how the server connects to its queue pairs and reaches its memory.
#[derive(Clone, Debug)]
pub struct Attach {
    /// How to connect to the client's queue pairs.
    pub qps: QpExports,
    /// How to reach the client's memory for pushed results, for WRITEs.
    pub pushed: Export,
    /// How to reach the client's memory for long values, which the server READs and WRITEs.
    pub values: Export,
}

drover_control::message!(kind::APPLICATION + 1 => Welcome {
    terms,
    result_bytes,
    transfer as TransferCodec,
    inbound,
    results,
    qps,
    in_place,
    map,
});
drover_control::message!(kind::APPLICATION + 2 => Attach { qps, pushed, values });
drover_control::fields!(InPlaceExports { items, acks });
drover_control::message!(kind::APPLICATION + 4 => NewMap { map });

struct TransferCodec;

impl TransferCodec {
    fn encode(transfer: &Transfer, to: &mut Writer) {
        to.u16(match transfer {
            Transfer::Auto => 0,
            Transfer::Fetch => 1,
            Transfer::Reply => 2,
        });
    }

    fn decode(from: &mut Reader<'_>, field: &'static str) -> Result<Transfer, DecodeError> {
        match from.u16()? {
            0 => Ok(Transfer::Auto),
            1 => Ok(Transfer::Fetch),
            2 => Ok(Transfer::Reply),
            value => Err(DecodeError::Value {
                field,
                value: value.into(),
            }),
        }
    }
}

/// What both ends of a session with `places` operations know about its slots. The session's id is random, so its two
/// halves serve as incarnations of the two ends.
pub fn conn_params(terms: &ServerParams, result_bytes: usize, places: usize) -> ConnParams {
    ConnParams {
        layout: Layout {
            format: Format::V1,
            place_count: places,
            rpc_count: RPC_COUNT,
            request_bytes: terms.message_bytes as usize,
            result_bytes,
        },
        incarnations: (terms.session as u32, (terms.session >> 32) as u32),
        first_kind: 0,
    }
}
