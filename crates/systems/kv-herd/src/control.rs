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
/// have a condition. 5: short chunks; a `GetBulk` of a short value is answered with the value.
pub const PROTOCOL_VERSION: u16 = 6;
/// Name of this system in a [`ServiceInfo`](drover_control::service::ServiceInfo).
pub const SYSTEM: &str = "herd";
/// Kinds of HERD's frames are this plus 1 to 15.
const KIND_BASE: u16 = drover_control::kind::APPLICATION;
/// Longest [`Hello::auth`], bytes.
pub const AUTH_BYTES_MAX: usize = drover_kv::secret::SECRET_BYTES_MAX;
/// Longest text of [`Message::Error`] and [`Message::Stats`], bytes; a longer one is cut off when it is sent.
pub const TEXT_BYTES_MAX: usize = 32 << 10;
/// Most partitions of one server. The export of a client's slots in the Welcome contains a bell for each partition,
/// which over shared memory is a descriptor; a frame of the channel carries at most 250 descriptors.
pub const PARTITIONS_MAX: usize = 240;

/// Format of a client's requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Format {
    /// Our own: requests carry keys and sequence numbers and may be sent again; GET, PUT and DELETE.
    #[default]
    D = 0,
    /// That of HERD's paper: 16-byte key hashes instead of keys, GET and PUT only, no retransmission. The server that
    /// is shipped refuses it.
    P = 1,
}

/// Transport of requests from client to server. Replies are datagrams with both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum FrontEnd {
    /// WRITEs into slots in the server's memory, which the server polls.
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
    /// Requested slots per partition. The server grants this number rounded down to a power of two, or fewer, but at
    /// least 1 (also for 0).
    pub window: u16,
    /// Requested bytes per slot. The server grants this number rounded down to a multiple of 64, or fewer, but at least
    /// 64.
    pub slot_bytes: u16,
    /// Whether the client asks for checksums in request bodies. The server then requires them of this client, except in
    /// format P, which has none.
    pub crc: bool,
    /// [`Welcome::epoch`] of the client's previous session; 0: none. Servers ignore it so far.
    pub resume_epoch: u64,
    /// The secret that the server's operator may require, at most [`AUTH_BYTES_MAX`] bytes; empty: none.
    pub auth: Vec<u8>,
}

/// The server's answer to [`Hello`]: what it grants, and where requests go, except that a client that sends datagrams
/// gets the addresses in [`Message::Partition`].
#[derive(Clone, Debug)]
pub struct Welcome {
    /// Identifies this run of the server: random, unless the server's options set it; never 0. Another epoch than in
    /// the previous session means that the server was restarted: requests in flight get no reply any more.
    pub epoch: u64,
    /// Number of this client, assigned by the *server*, unique among its present clients. (In the code of HERD's
    /// authors each side counted for itself, and clients that connected out of order got each other's replies.)
    pub client_id: u32,
    /// Number of earlier sessions that had this id, whether or not their handshake was completed.
    pub generation: u32,
    /// Number of partitions; `KeyHash::partition_index(partition_count)` is the index of a key's partition.
    pub partition_count: u16,
    /// Slots granted per partition, a power of two: the most requests that may be outstanding to one partition.
    pub window: u16,
    /// Bytes per slot, as granted.
    pub slot_bytes: u16,
    /// Whether the client must end request bodies with a checksum, because the fabric may show a slot's bytes in any
    /// order, the server's options require it, or the client asked for it. Always false in format P.
    pub crc: bool,
    /// MTU of the server's fabric, bytes: the longest datagram. This crate's client does not use it.
    pub mtu_bytes: u32,
    /// Longest value that the server accepts, bytes, without key and header.
    pub item_bytes_max: u32,
    /// Secret seed of the key hash: the client hashes keys under it, as the server does.
    pub hash_seed: HashSeed,
    /// For each partition, in order, the number of its worker's UD queue pair: the `Wc::src_qpn` of replies from that
    /// partition. Encoded as `partition_count` u32s, without a length.
    pub reply_qpns: Vec<u32>,
    /// The client's slots, and the queue pair for WRITEs into them. Both exports are empty with
    /// [`FrontEnd::Datagrams`].
    pub slots: SlotExports,
}

/// What a client needs to WRITE its requests into its slots at the server.
#[derive(Clone, Debug, Default)]
pub struct SlotExports {
    /// The client's slots for all partitions, for remote WRITEs. Where the fabric supports it, a WRITE wakes the worker
    /// of the slot's partition.
    pub region: Export,
    /// The server's end of the UC queue pair for WRITEs to `region`.
    pub uc: Export,
}

/// Reason for a [`Message::Error`], for programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[repr(u16)]
pub enum ErrorCode {
    /// Any other reason; also every number that this version does not know. This version's server does not send it.
    Other = 0,
    /// A message of an unknown kind, or one with a bad length or field: for example one that names a partition that
    /// does not exist, or in [`Message::Replies`] one that was named before.
    Malformed = 1,
    /// The client has another [`PROTOCOL_VERSION`].
    Version = 2,
    /// A message that is not expected now, or a handshake that took longer than 10 s.
    OutOfOrder = 3,
    /// [`Hello::auth`] is not the server's secret, or a [`StatsQuery`](drover_control::service::StatsQuery) came before
    /// the handshake was complete although there is a secret.
    Auth = 4,
    /// The server has its maximum number of clients; or it has its maximum number of clients with slots, and offers no
    /// datagrams. A later attempt may succeed.
    TooManyClients = 5,
    /// This server does not offer the format or the front end, or not the two together; or it requires checksums, which
    /// format P does not have.
    NotSupported = 6,
    /// Memory or a queue pair could not be created, connected, exported or imported; a message could not be sent; or
    /// bulk memory was requested twice or with a bad number of chunks.
    Resources = 7,
    /// The server is shutting down.
    Stopping = 8,
    /// The server has its maximum number of clients with slots. The client may try again with [`FrontEnd::Datagrams`].
    NoSlots = 9,
}

impl ErrorCode {
    /// The error that a client reports when it was refused with this code and `text`. It is final if a retry is
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

/// A client's question about a request that it gave up: was it executed? A worker that has received the question no
/// longer takes the request, so it does not execute later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resync {
    /// Partition of the request's slot.
    pub partition: u16,
    /// Index of the slot within the partition's window.
    pub slot: u16,
    /// Seq of the request: the number of that use of the slot, from 1. It is in the commit word of format D.
    pub seq: u32,
    /// Number of the first request to the partition that is neither answered nor given up, or else of the next one,
    /// counted from 0; request r is in slot `r mod window` with seq `r / window + 1`. The worker no longer waits for
    /// requests before this one, and takes none of them that it has not taken yet.
    pub r: u64,
}

/// The worker's answer to [`Resync`]. From now on it takes no new request of this slot with this seq or an older one; a
/// retransmission of the last request taken is still answered, and a read then executes again. The client may use the
/// slot again, with seq + 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resynced {
    /// [`Resync::partition`] of the question.
    pub partition: u16,
    /// [`Resync::slot`] of the question.
    pub slot: u16,
    /// [`Resync::seq`] of the question.
    pub seq: u32,
    /// Whether the request with this seq is the last one that the worker took from the slot, for execution or refusal;
    /// `status` is then its result. False if it never came, or if a later one was taken.
    pub executed: bool,
    /// The [`Status`](crate::layout::Status) with which the request was answered, which may be a refusal, such as
    /// `Retry`; `StaleEpoch`: unknown, because the worker was restarted. Meaningless unless `executed`.
    pub status: u8,
    /// Seq of the last request of this slot that was taken or ruled out, by this answer at the latest: `seq` or a later
    /// one; 0 if there is no such slot.
    pub last_seq: u32,
}

/// A message of HERD's control channel. Each variant says which side sends it.
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
    /// Client: its end of the UC queue pair, to which the server connects its own. Front end Slots only.
    Attach {
        /// The client's end of the UC queue pair.
        uc: Export,
    },
    /// Client: address to which a partition's worker sends replies. One per partition, in any order.
    Replies {
        /// Index of the partition.
        partition: u16,
        /// The client's UD queue pair that receives this partition's replies, in an export made for that worker alone.
        ud: Export,
    },
    /// Server: the handshake (or later the attachment of bulk memory) is complete.
    Ready,
    /// Client: asks about a request that it gave up.
    Resync(Resync),
    /// Server: answers Resync.
    Resynced(Resynced),
    /// Client: asks for bulk memory; once per session, or again if its attachment failed.
    BulkOpen {
        /// Number of long chunks requested, 1 to 64; the server refuses others. Each holds one value in flight.
        chunk_count: u8,
        /// Number of short chunks requested, 0 to 64.
        short_count: u8,
    },
    /// Server: answers BulkOpen.
    BulkReady {
        /// Bytes of a long chunk, which holds any value that the server accepts.
        chunk_bytes: u32,
        /// Number of long chunks, as requested. They are numbered from 0 on, and lie at the start of the region.
        chunk_count: u8,
        /// Bytes of a short chunk.
        short_bytes: u32,
        /// Number of short chunks, as requested. They follow the long ones, in number and place.
        short_count: u8,
        /// The chunks' memory, for remote READs and WRITEs.
        region: Export,
        /// The server's end of an RC queue pair for READs and WRITEs of `region`.
        rc: Export,
    },
    /// Client: its end of the RC queue pair, to which the server connects its own. The answer is Ready, or Error.
    BulkAttach {
        /// The client's end of the RC queue pair.
        rc: Export,
    },
    /// Client: asks for the server's statistics. Allowed in a session, and at any time if the server requires no
    /// secret.
    StatsRequest,
    /// Server: answers StatsRequest.
    Stats {
        /// Lines `name value`; cut off after [`TEXT_BYTES_MAX`] bytes when it is sent.
        text: String,
    },
    /// Server: refuses the client or a message. The server closes the channel after it, except when bulk memory could
    /// not be opened or attached.
    Error {
        /// Reason for programs.
        code: ErrorCode,
        /// Reason for people; cut off after [`TEXT_BYTES_MAX`] bytes when it is sent.
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
    9 = BulkOpen { chunk_count, short_count },
    10 = BulkReady { chunk_bytes, chunk_count, short_bytes, short_count, region, rc },
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
