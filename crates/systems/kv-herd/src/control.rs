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
use drover_control::{ControlError, ControlStream, DecodeError, Reader, Writer};
use drover_kv::SetupError;
use drover_verbs::Export;
use std::os::fd::OwnedFd;
use std::sync::Arc;

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

    fn from_number(number: u16) -> ErrorCode {
        match number {
            1 => ErrorCode::Malformed,
            2 => ErrorCode::Version,
            3 => ErrorCode::OutOfOrder,
            4 => ErrorCode::Auth,
            5 => ErrorCode::TooManyClients,
            6 => ErrorCode::NotSupported,
            7 => ErrorCode::Resources,
            8 => ErrorCode::Stopping,
            9 => ErrorCode::NoSlots,
            _ => ErrorCode::Other,
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

/// Error of [`Message::decode`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The frame's kind is not one of HERD's messages.
    #[error("unknown control message kind {kind}")]
    UnknownKind {
        /// The frame's kind.
        kind: u16,
    },
    /// A field is missing or has an invalid value, or bytes or descriptors follow the last field.
    #[error(transparent)]
    Field(#[from] DecodeError),
}

impl From<MessageError> for SetupError {
    fn from(error: MessageError) -> SetupError {
        match error {
            MessageError::UnknownKind { kind } => SetupError::UnknownMessage { kind },
            MessageError::Field(error) => SetupError::Message(error),
        }
    }
}

/// An encoded [`Message`]: the parts of its frame.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// The frame's kind.
    pub kind: u16,
    /// The frame's body.
    pub bytes: Vec<u8>,
    /// The frame's file descriptors.
    pub fds: Vec<Arc<OwnedFd>>,
}

impl Message {
    /// Kind of the frame that carries this message.
    pub fn kind(&self) -> u16 {
        KIND_BASE
            + match self {
                Message::Hello(_) => 1,
                Message::Welcome(_) => 2,
                Message::Partition { .. } => 3,
                Message::Attach { .. } => 4,
                Message::Replies { .. } => 5,
                Message::Ready => 6,
                Message::Resync(_) => 7,
                Message::Resynced(_) => 8,
                Message::BulkOpen { .. } => 9,
                Message::BulkReady { .. } => 10,
                Message::BulkAttach { .. } => 11,
                Message::StatsRequest => 12,
                Message::Stats { .. } => 13,
                Message::Error { .. } => 14,
                Message::Bye => 15,
            }
    }

    /// Encodes the message for a frame. Texts longer than [`TEXT_BYTES_MAX`] are cut.
    pub fn encode(&self) -> Encoded {
        let mut w = Writer::new();
        match self {
            Message::Hello(hello) => hello.encode(&mut w),
            Message::Welcome(welcome) => welcome.encode(&mut w),
            Message::Partition { index, ud } | Message::Replies { partition: index, ud } => {
                w.u16(*index).export(ud);
            }
            Message::Attach { uc: export } | Message::BulkAttach { rc: export } => {
                w.export(export);
            }
            Message::Ready | Message::StatsRequest | Message::Bye => {}
            Message::Resync(resync) => resync.encode(&mut w),
            Message::Resynced(resynced) => resynced.encode(&mut w),
            Message::BulkOpen { chunk_count } => {
                w.u8(*chunk_count);
            }
            Message::BulkReady {
                chunk_bytes,
                chunk_count,
                region,
                rc,
            } => {
                w.u32(*chunk_bytes).u8(*chunk_count).export(region).export(rc);
            }
            Message::Stats { text } => {
                w.bytes(cut(text));
            }
            Message::Error { code, text } => {
                w.u16(*code as u16);
                put_short(&mut w, cut(text));
            }
        }
        let (bytes, fds) = w.into_parts();
        Encoded {
            kind: self.kind(),
            bytes,
            fds,
        }
    }

    /// Encodes the message and sends it.
    ///
    /// # Errors
    /// As [`ControlStream::send`].
    pub fn send(&self, control: &mut ControlStream) -> Result<(), ControlError> {
        let frame = self.encode();
        control.send(frame.kind, &frame.bytes, &frame.fds)
    }

    /// Decodes a frame, the inverse of [`encode`](Message::encode).
    ///
    /// # Errors
    /// [`MessageError`]: the frame is not a well-formed message. A server answers [`ErrorCode::Malformed`] and closes.
    pub fn decode(kind: u16, bytes: &[u8], fds: Vec<Arc<OwnedFd>>) -> Result<Message, MessageError> {
        let mut r = Reader::new(bytes, &fds);
        let message = match kind.wrapping_sub(KIND_BASE) {
            1 => Message::Hello(Hello::decode(&mut r)?),
            2 => Message::Welcome(Box::new(Welcome::decode(&mut r)?)),
            3 => Message::Partition {
                index: r.u16()?,
                ud: r.export()?,
            },
            4 => Message::Attach { uc: r.export()? },
            5 => Message::Replies {
                partition: r.u16()?,
                ud: r.export()?,
            },
            6 => Message::Ready,
            7 => Message::Resync(Resync::decode(&mut r)?),
            8 => Message::Resynced(Resynced::decode(&mut r)?),
            9 => Message::BulkOpen { chunk_count: r.u8()? },
            10 => Message::BulkReady {
                chunk_bytes: r.u32()?,
                chunk_count: r.u8()?,
                region: r.export()?,
                rc: r.export()?,
            },
            11 => Message::BulkAttach { rc: r.export()? },
            12 => Message::StatsRequest,
            13 => Message::Stats {
                text: text(r.bytes("length of a text", TEXT_BYTES_MAX)?),
            },
            14 => Message::Error {
                code: ErrorCode::from_number(r.u16()?),
                text: text(take_short(&mut r, "length of a text", TEXT_BYTES_MAX)?),
            },
            15 => Message::Bye,
            _ => return Err(MessageError::UnknownKind { kind }),
        };
        r.finish()?;
        Ok(message)
    }
}

fn cut(text: &str) -> &[u8] {
    &text.as_bytes()[..text.len().min(TEXT_BYTES_MAX)]
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Appends a byte string in the encoding of all versions; bytes beyond 65535 are cut off.
fn put_short(w: &mut Writer, bytes: &[u8]) {
    let len = bytes.len().min(usize::from(u16::MAX));
    w.u16(len as u16).raw(&bytes[..len]);
}

fn take_short<'a>(r: &mut Reader<'a>, field: &'static str, max: usize) -> Result<&'a [u8], DecodeError> {
    let len = r.u16()?;
    if usize::from(len) > max {
        let value = len.into();
        return Err(DecodeError::Value { field, value });
    }
    r.raw(len.into())
}

impl Hello {
    fn encode(&self, w: &mut Writer) {
        w.u16(self.protocol_version)
            .u8(self.format as u8)
            .u8(self.front_end as u8)
            .u16(self.window)
            .u16(self.slot_bytes)
            .bool(self.crc)
            .u64(self.resume_epoch);
        put_short(w, &self.auth);
    }

    fn decode(r: &mut Reader<'_>) -> Result<Hello, DecodeError> {
        Ok(Hello {
            protocol_version: r.u16()?,
            format: match r.bool("format")? {
                false => Format::D,
                true => Format::P,
            },
            front_end: match r.bool("front end")? {
                false => FrontEnd::Slots,
                true => FrontEnd::Datagrams,
            },
            window: r.u16()?,
            slot_bytes: r.u16()?,
            crc: r.bool("crc")?,
            resume_epoch: r.u64()?,
            auth: take_short(r, "length of auth", AUTH_BYTES_MAX)?.to_vec(),
        })
    }
}

impl Welcome {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.epoch).u32(self.client_id).u32(self.generation);
        w.u16(self.partition_count)
            .u16(self.window)
            .u16(self.slot_bytes)
            .bool(self.crc);
        let (hash_k0, hash_k1) = self.hash_seed.halves();
        w.u32(self.mtu_bytes)
            .u32(self.item_bytes_max)
            .u64(hash_k0)
            .u64(hash_k1);
        debug_assert_eq!(self.reply_qpns.len(), usize::from(self.partition_count));
        for &qpn in &self.reply_qpns {
            w.u32(qpn);
        }
        w.export(&self.slots.region).export(&self.slots.uc);
    }

    fn decode(r: &mut Reader<'_>) -> Result<Welcome, DecodeError> {
        let (epoch, client_id, generation) = (r.u64()?, r.u32()?, r.u32()?);
        let partition_count = r.u16()?;
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
            window: r.u16()?,
            slot_bytes: r.u16()?,
            crc: r.bool("crc")?,
            mtu_bytes: r.u32()?,
            item_bytes_max: r.u32()?,
            hash_seed: HashSeed::new(r.u64()?, r.u64()?),
            reply_qpns: (0..partition_count).map(|_| r.u32()).collect::<Result<_, _>>()?,
            slots: SlotExports {
                region: r.export()?,
                uc: r.export()?,
            },
        })
    }
}

impl Resync {
    fn encode(&self, w: &mut Writer) {
        w.u16(self.partition).u16(self.slot).u32(self.seq).u64(self.r);
    }

    fn decode(r: &mut Reader<'_>) -> Result<Resync, DecodeError> {
        Ok(Resync {
            partition: r.u16()?,
            slot: r.u16()?,
            seq: r.u32()?,
            r: r.u64()?,
        })
    }
}

impl Resynced {
    fn encode(&self, w: &mut Writer) {
        w.u16(self.partition).u16(self.slot).u32(self.seq);
        w.bool(self.executed).u8(self.status).u32(self.last_seq);
    }

    fn decode(r: &mut Reader<'_>) -> Result<Resynced, DecodeError> {
        Ok(Resynced {
            partition: r.u16()?,
            slot: r.u16()?,
            seq: r.u32()?,
            executed: r.bool("executed")?,
            status: r.u8()?,
            last_seq: r.u32()?,
        })
    }
}
