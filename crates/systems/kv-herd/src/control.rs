//! The messages of the control channel: handshake, resynchronisation, bulk memory, statistics.
//!
//! ```text
//! client                                   server
//!   Hello                          ->
//!                                  <-      Welcome            or Error, then the channel closes
//!                                  <-      Partition x NS     front end Datagrams only
//!   Attach                         ->                         front end Slots only
//!   Replies x NS                   ->                         where each worker sends its replies
//!                                  <-      Ready              from here on the client may send requests
//! ... at any time afterwards, several may be outstanding, answers may come in any order:
//!   Resync                         ->      Resynced
//!   BulkOpen                       ->      BulkReady, then BulkAttach -> and <- Ready (or Error, without closing)
//!   StatsRequest                   ->      Stats
//!   Bye                            ->      the channel closes
//! ```
//!
//! A frame of the channel carries a kind (u16), a body, and file descriptors. A body consists of the fields in the
//! order of the structs, as [`Writer`] encodes them. Hello and Error have the same encoding in every version, so that
//! ends of different versions can refuse each other: their byte strings are `length u16, bytes`. The session ends with
//! its channel.

use drover_base::HashSeed;
use drover_control::{DecodeError, Field, Reader, ShortBytes, ShortText, Text, Writer};
use drover_kv::SetupError;
use drover_verbs::Export;

/// Version of this protocol. A server refuses clients of any other version with [`ErrorCode::Version`].
/// 2: byte strings have 32-bit lengths, exports name their descriptors. 3: keys are hashed with XXH3. 4: requests may
/// have a condition.
pub const PROTOCOL_VERSION: u16 = 4;
/// Name of this system in a [`ServiceInfo`](drover_control::service::ServiceInfo).
pub const SYSTEM: &str = "herd";
/// Kinds of HERD's frames are this plus 1 to 15; lower kinds belong to the channel itself.
const KIND_BASE: u16 = drover_control::kind::APPLICATION;
/// Longest [`Hello::auth`], bytes.
pub const AUTH_BYTES_MAX: usize = drover_kv::secret::SECRET_BYTES_MAX;
/// Longest text of [`Message::Error`] and [`Message::Stats`], bytes.
pub const TEXT_BYTES_MAX: usize = 32 << 10;
/// Most partitions of one server. A Welcome contains a bell for each, which over shared memory is a descriptor; a frame
/// of the channel carries at most 250 descriptors.
pub const PARTITIONS_MAX: usize = 240;

/// Format of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Format {
    /// Ours: full keys, sequence numbers, retransmission; GET, PUT and DELETE.
    #[default]
    D = 0,
    /// The paper's: 16-byte key hashes instead of keys, GET and PUT only, no retransmission.
    P = 1,
}

/// Transport of requests from client to server. Replies are datagrams with both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum FrontEnd {
    /// WRITEs into slots that the server polls.
    #[default]
    Slots = 0,
    /// Datagrams: the same bytes by SEND, for servers with so many clients that polling their slots would be slow.
    Datagrams = 1,
}

/// The client's first message: what it asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The client's [`PROTOCOL_VERSION`].
    pub protocol_version: u16,
    /// Format that the client will use.
    pub format: Format,
    /// Front end that the client will use.
    pub front_end: FrontEnd,
    /// Requested slots per partition, a power of two (else the server rounds down). The server may grant fewer, never
    /// more.
    pub window: u16,
    /// Requested bytes per slot, a multiple of 64 in 64..=1024. The server rounds down and lowers it to its own limit.
    pub slot_bytes: u16,
    /// Whether the client asks for checksums in request bodies. The server then requires them of this client.
    pub crc: bool,
    /// [`Welcome::epoch`] of the client's previous session; 0: none. Servers ignore it so far.
    pub resume_epoch: u64,
    /// Secret that the server may require, at most [`AUTH_BYTES_MAX`] bytes.
    pub auth: Vec<u8>,
}

/// The server's answer to [`Hello`]: what it grants, and everything from which a client computes where its requests go.
#[derive(Clone, Debug)]
pub struct Welcome {
    /// Identifies this run of the server: random, unless the server's options set it. Another epoch means that the
    /// server was restarted, and that the requests in flight are lost.
    pub epoch: u64,
    /// Number of this client, assigned by the *server*. (In the authors' code each side counted for itself, and clients
    /// connecting out of order got each other's replies.)
    pub client_id: u32,
    /// Number of earlier clients that had this id.
    pub generation: u32,
    /// Number of partitions; `KeyHash::partition_index(partition_count)` is the index of a key's partition.
    pub partition_count: u16,
    /// Slots granted per partition.
    pub window: u16,
    /// Bytes per slot, as granted.
    pub slot_bytes: u16,
    /// The client MUST end request bodies with a checksum: the fabric may show a slot's bytes in any order, the
    /// server's options require it, or the client asked for it. Always false in format P.
    pub crc: bool,
    /// MTU of the server's fabric, bytes: longest datagram. This crate's client does not use it.
    pub mtu_bytes: u32,
    /// Longest value that the server accepts, bytes.
    pub item_bytes_max: u32,
    /// Secret seed of the key hash.
    pub hash_seed: HashSeed,
    /// For each partition, the number of its worker's UD queue pair: `Wc::src_qpn` of the partition's replies.
    /// Encoded as `partition_count` u32s.
    pub reply_qpns: Vec<u32>,
    /// The memory into which the client WRITEs its requests. Empty with [`FrontEnd::Datagrams`].
    pub slots: SlotExports,
}

/// Exports of a client's slots.
#[derive(Clone, Debug, Default)]
pub struct SlotExports {
    /// The slots of all partitions, for remote WRITEs. Where the fabric supports it, a WRITE wakes the partition's
    /// worker.
    pub region: Export,
    /// The server's end of the UC queue pair for WRITEs to `region`.
    pub uc: Export,
}

/// Reason for a [`Message::Error`], for programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[repr(u16)]
pub enum ErrorCode {
    /// Any other reason; also every number that this version does not know.
    Other = 0,
    /// A message of an unknown kind or with a bad length or field, such as a partition that does not exist.
    Malformed = 1,
    /// The client has another [`PROTOCOL_VERSION`].
    Version = 2,
    /// A message that is not expected now, or a handshake that took too long.
    OutOfOrder = 3,
    /// [`Hello::auth`] is not the server's secret.
    Auth = 4,
    /// The server has its maximum number of clients, or of clients with slots and offers no datagrams. A later attempt
    /// may succeed.
    TooManyClients = 5,
    /// This server does not offer the format or front end.
    NotSupported = 6,
    /// Memory or queue pairs could not be created, an export could not be imported, a message could not be sent, or
    /// bulk memory was requested twice or with a bad number of chunks.
    Resources = 7,
    /// The server is shutting down.
    Stopping = 8,
    /// The maximum number of clients have slots. The client may try again with [`FrontEnd::Datagrams`].
    NoSlots = 9,
}

impl ErrorCode {
    /// The error that a client reports when it was refused with this code. Final codes are those for which a retry is
    /// pointless.
    pub(crate) fn refusal(self, text: &str) -> SetupError {
        SetupError::Refused {
            code: self as u16,
            text: format!("{text} ({self:?})"),
            is_final: matches!(
                self,
                ErrorCode::Version | ErrorCode::Auth | ErrorCode::NotSupported | ErrorCode::Malformed
            ),
        }
    }
}

/// A client's question about a request that it gave up: was it executed? From now on the server must not execute it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resync {
    /// Partition of the request's slot.
    pub partition: u16,
    /// Slot within the partition's window.
    pub slot: u16,
    /// Seq of the request, as in its commit word.
    pub seq: u32,
    /// Number of the partition's first request that is neither answered nor given up, counted from 0; request r is in
    /// slot `r mod window` with seq `r / window + 1`. The server no longer waits for requests before it, and executes
    /// none of them.
    pub r: u64,
}

/// The worker's answer to [`Resync`]. From now on no request of this slot with this seq or an older one executes; the
/// client may use the slot again, with seq + 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resynced {
    /// [`Resync::partition`] of the question.
    pub partition: u16,
    /// [`Resync::slot`] of the question.
    pub slot: u16,
    /// [`Resync::seq`] of the question.
    pub seq: u32,
    /// Whether the worker had taken the request with exactly this seq; `status` is then its result.
    pub executed: bool,
    /// The [`Status`](crate::layout::Status) of that request, which may be a refusal, such as `Retry`. `StaleEpoch` if
    /// `executed`: the worker was restarted, so the result is unknown. Meaningless if not `executed`.
    pub status: u8,
    /// Seq of the last request of this slot that was taken or ruled out; now at least `seq`, or 0 if there is no such
    /// slot.
    pub last_seq: u32,
}

/// A decoded frame of the control channel.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Message {
    /// Client, first message: asks for a session.
    Hello(Hello),
    /// Server: answers Hello, with the terms of the session.
    Welcome(Box<Welcome>),
    /// Server: address for the requests to a partition. One per partition, in order, front end Datagrams only.
    Partition {
        /// Index of the partition.
        index: u16,
        /// The worker's UD queue pair, in an export made for this client alone.
        ud: Export,
    },
    /// Client: connects to the server's UC queue pair. Front end Slots only.
    Attach {
        /// The client's end of the UC queue pair.
        uc: Export,
    },
    /// Client: address for a partition's replies. One per partition, in any order.
    Replies {
        /// Index of the partition.
        partition: u16,
        /// The client's UD queue pair for replies of this partition, in an export made for that worker alone.
        ud: Export,
    },
    /// Server: the handshake (or later the attachment of bulk memory) is complete.
    Ready,
    /// Client: asks about a request that it gave up.
    Resync(Resync),
    /// Server: answers Resync.
    Resynced(Resynced),
    /// Client: asks for bulk memory; once per session.
    BulkOpen {
        /// Number of chunks requested, 1..=64; each holds one value in flight.
        chunk_count: u8,
    },
    /// Server: answers BulkOpen.
    BulkReady {
        /// Bytes from one chunk to the next; a chunk holds any value that the server accepts.
        chunk_bytes: u32,
        /// Number of chunks, as requested.
        chunk_count: u8,
        /// The chunks' memory, for remote READs and WRITEs.
        region: Export,
        /// The server's end of an RC queue pair for READs and WRITEs of them.
        rc: Export,
    },
    /// Client: connects to the server's RC queue pair.
    BulkAttach {
        /// The client's end of the RC queue pair.
        rc: Export,
    },
    /// Client: asks for the server's counters. Allowed before Hello if the server requires no secret.
    StatsRequest,
    /// Server: answers StatsRequest.
    Stats {
        /// Lines `name value`, at most [`TEXT_BYTES_MAX`] bytes.
        text: String,
    },
    /// Server: refuses a message. The channel closes after it, except when bulk memory could not be opened or attached.
    Error {
        /// Reason for programs.
        code: ErrorCode,
        /// Reason for people.
        text: String,
    },
    /// Either side: closes the channel on purpose, which ends the session.
    Bye,
}

drover_control::messages! {
    Message from KIND_BASE;
    1 = Hello(hello),
    2 = Welcome(welcome),
    3 = Partition { index, ud },
    4 = Attach { uc },
    5 = Replies { partition, ud },
    6 = Ready,
    7 = Resync(resync),
    8 = Resynced(resynced),
    9 = BulkOpen { chunk_count },
    10 = BulkReady { chunk_bytes, chunk_count, region, rc },
    11 = BulkAttach { rc },
    12 = StatsRequest,
    13 = Stats { text as Text<TEXT_BYTES_MAX> },
    14 = Error { code, text as ShortText<TEXT_BYTES_MAX> },
    15 = Bye,
}

drover_control::fields!(Resync {
    partition,
    slot,
    seq,
    r
});
drover_control::fields!(Resynced {
    partition,
    slot,
    seq,
    executed,
    status,
    last_seq
});
drover_control::fields!(SlotExports { region, uc });
drover_control::fields!(Hello {
    protocol_version,
    format,
    front_end,
    window,
    slot_bytes,
    crc,
    resume_epoch,
    auth as ShortBytes<AUTH_BYTES_MAX>,
});

impl Field for Format {
    fn encode(&self, to: &mut Writer) {
        to.u8(*self as u8);
    }

    fn decode(from: &mut Reader<'_>, name: &'static str) -> Result<Format, DecodeError> {
        Ok([Format::D, Format::P][usize::from(from.bool(name)?)])
    }
}

impl Field for FrontEnd {
    fn encode(&self, to: &mut Writer) {
        to.u8(*self as u8);
    }

    fn decode(from: &mut Reader<'_>, name: &'static str) -> Result<FrontEnd, DecodeError> {
        Ok([FrontEnd::Slots, FrontEnd::Datagrams][usize::from(from.bool(name)?)])
    }
}

impl Field for ErrorCode {
    fn encode(&self, to: &mut Writer) {
        to.u16(*self as u16);
    }

    fn decode(from: &mut Reader<'_>, _: &'static str) -> Result<ErrorCode, DecodeError> {
        use ErrorCode::*;
        const CODES: [ErrorCode; 10] = [
            Other,
            Malformed,
            Version,
            OutOfOrder,
            Auth,
            TooManyClients,
            NotSupported,
            Resources,
            Stopping,
            NoSlots,
        ];
        Ok(*CODES.get(usize::from(from.u16()?)).unwrap_or(&Other))
    }
}

impl Field for Welcome {
    fn encode(&self, to: &mut Writer) {
        to.u64(self.epoch).u32(self.client_id).u32(self.generation);
        to.u16(self.partition_count)
            .u16(self.window)
            .u16(self.slot_bytes)
            .bool(self.crc);
        to.u32(self.mtu_bytes).u32(self.item_bytes_max);
        self.hash_seed.encode(to);
        debug_assert_eq!(self.reply_qpns.len(), usize::from(self.partition_count));
        for &qpn in &self.reply_qpns {
            to.u32(qpn);
        }
        self.slots.encode(to);
    }

    fn decode(from: &mut Reader<'_>, _: &'static str) -> Result<Welcome, DecodeError> {
        let (epoch, client_id, generation) = (from.u64()?, from.u32()?, from.u32()?);
        let partition_count = from.u16()?;
        if !(1..=PARTITIONS_MAX).contains(&usize::from(partition_count)) {
            return Err(DecodeError::Value {
                field: "partition count",
                value: partition_count.into(),
            });
        }
        Ok(Welcome {
            epoch,
            client_id,
            generation,
            partition_count,
            window: from.u16()?,
            slot_bytes: from.u16()?,
            crc: from.bool("crc")?,
            mtu_bytes: from.u32()?,
            item_bytes_max: from.u32()?,
            hash_seed: HashSeed::decode(from, "hash seed")?,
            reply_qpns: (0..partition_count)
                .map(|_| from.u32())
                .collect::<Result<_, _>>()?,
            slots: SlotExports::decode(from, "slots")?,
        })
    }
}
