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
//! A frame of the channel carries a kind (u16), a body, and file descriptors. Bodies are the fields in the
//! order of the structs, as [`Writer`] puts them. Hello and Error are the same in every version, so that any two can
//! tell each other that they differ: their byte strings are `length u16, bytes`. The session lives exactly as long as
//! its channel.

use drover_base::HashSeed;
use drover_control::{ControlError, ControlStream, DecodeError, Reader, Writer};
use drover_kv::SetupError;
use drover_verbs::Export;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// What [`Hello::protocol_version`] says. Another number: the server answers [`Message::Error`].
/// 2: byte strings have 32-bit lengths, exports name their descriptors. 3: keys are hashed with XXH3. 4: requests may
/// have a condition.
pub const PROTOCOL_VERSION: u16 = 4;
/// What an [`ServiceInfo`](drover_control::service::ServiceInfo) calls this system.
pub const SYSTEM: &str = "herd";
/// Kinds of our frames are this plus 1 to 15: lower ones are the channel's own.
const KIND_BASE: u16 = drover_control::kind::APPLICATION;
/// Longest [`Hello::auth`], bytes.
pub const AUTH_BYTES_MAX: usize = drover_kv::secret::SECRET_BYTES_MAX;
/// Longest text of [`Message::Error`] and [`Message::Stats`], bytes.
pub const TEXT_BYTES_MAX: usize = 32 << 10;
/// Most partitions of one server. A Welcome names a bell for each, in shared memory a descriptor; a frame of the
/// channel carries 250 of them.
pub const PARTITIONS_MAX: usize = 240;

/// How slots and replies look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Format {
    /// Ours: full keys, sequence numbers, retransmission.
    #[default]
    D = 0,
    /// The paper's: 16-byte key hashes, GET and PUT only, a lost PUT is lost.
    P = 1,
}

/// How requests travel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum FrontEnd {
    /// WRITEs into slots that the server polls.
    #[default]
    Slots = 0,
    /// Datagrams: the same bytes by SEND, for more clients than slots can be polled for.
    Datagrams = 1,
}

/// The client's first words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hello {
    /// [`PROTOCOL_VERSION`].
    pub protocol_version: u16,
    /// Wanted format.
    pub format: Format,
    /// Wanted front end.
    pub front_end: FrontEnd,
    /// Wanted slots per partition; a power of two. The server may give fewer.
    pub window: u16,
    /// Wanted bytes per slot; a multiple of 64 in 64..=1024. The server may give others.
    pub slot_bytes: u16,
    /// The client wants checksums in request bodies.
    pub crc: bool,
    /// Epoch of the session this one follows, 0 for none. For logs only.
    pub resume_epoch: u64,
    /// Whatever the server's operator asks for, at most [`AUTH_BYTES_MAX`].
    pub auth: Vec<u8>,
}

/// The server's answer: everything a client must know to compute where its requests go.
#[derive(Clone, Debug)]
pub struct Welcome {
    /// Random per server start. Another epoch = all stored items and all requests in flight are history.
    pub epoch: u64,
    /// This client, as the *server* counts. (In the authors' code each side counted for itself, and clients
    /// connecting out of order got each other's replies.)
    pub client_id: u32,
    /// How often this id has been given out before.
    pub generation: u32,
    /// Partitions; `KeyHash::partition_index(partition_count)` says whose a key is.
    pub partition_count: u16,
    /// Slots per partition.
    pub window: u16,
    /// Bytes per slot.
    pub slot_bytes: u16,
    /// The client MUST end bodies with a checksum: this fabric may show a slot's bytes in any order.
    pub crc: bool,
    /// Longest reply payload and longest atomic WRITE, bytes.
    pub mtu_bytes: u32,
    /// Longest value, bytes.
    pub item_bytes_max: u32,
    /// The key hash's secret.
    pub hash_seed: HashSeed,
    /// The worker's UD queue pair of each partition, `Wc::src_qpn` of its replies. `partition_count` u32s.
    pub reply_qpns: Vec<u32>,
    /// Where requests are written. Empty with [`FrontEnd::Datagrams`].
    pub slots: SlotExports,
}

/// Exports of a client's slots.
#[derive(Clone, Debug, Default)]
pub struct SlotExports {
    /// The slots, watched by the workers' bells.
    pub region: Export,
    /// The server's end of the UC queue pair for WRITEs to `region`.
    pub uc: Export,
}

/// Why the server answers [`Message::Error`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[repr(u16)]
pub enum ErrorCode {
    /// Anything not below; also every number this version does not know.
    Other = 0,
    /// Unknown kind, bad length, bad field.
    Malformed = 1,
    /// Another [`PROTOCOL_VERSION`].
    Version = 2,
    /// A message that is not expected now.
    OutOfOrder = 3,
    /// [`Hello::auth`] is not what the operator wants.
    Auth = 4,
    /// As many clients as there may be. Trying later is sensible.
    TooManyClients = 5,
    /// Format, front end or size not offered by this server.
    NotSupported = 6,
    /// Memory or queue pairs could not be had; an export could not be imported.
    Resources = 7,
    /// The server is going down.
    Stopping = 8,
    /// All slots are taken, but datagrams are not: the same client is welcome with [`FrontEnd::Datagrams`].
    NoSlots = 9,
}

impl ErrorCode {
    /// What a client makes of a refusal with this code.
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

/// "Whatever happened to this request, it shall not happen any more; did it?"
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resync {
    /// Whose slot.
    pub partition: u16,
    /// Slot within the window.
    pub slot: u16,
    /// The request's seq.
    pub seq: u32,
    /// Every request before r (counted per partition from 0; request r is `slot r mod window`, `seq r / window
    /// + 1`) is answered or given up: the server waits for none of them and executes none of them any more.
    pub r: u64,
}

/// The worker's answer. From now on no request of this slot with this seq or an older one executes; the slot
/// may be used again with seq + 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resynced {
    /// As asked.
    pub partition: u16,
    /// As asked.
    pub slot: u16,
    /// As asked.
    pub seq: u32,
    /// The request with exactly this seq did execute.
    pub executed: bool,
    /// With which [`Status`](crate::layout::Status), if so. `StaleEpoch` (then `executed` is true): the worker
    /// was restarted in between and nobody knows.
    pub status: u8,
    /// Seq of the last request of this slot that executed or was ruled out; now at least `seq`.
    pub last_seq: u32,
}

/// One frame's meaning.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Message {
    /// Client, first.
    Hello(Hello),
    /// Server, first.
    Welcome(Box<Welcome>),
    /// Server: one per partition, in order, front end Datagrams only.
    Partition {
        /// Name of the field.
        index: u16,
        /// The worker's UD queue pair, exported for this client alone.
        ud: Export,
    },
    /// Client, front end Slots only.
    Attach {
        /// The client's end of the UC queue pair.
        uc: Export,
    },
    /// Client: one per partition, in order.
    Replies {
        /// Name of the field.
        partition: u16,
        /// The client's UD queue pair for replies of this partition, exported for that worker alone.
        ud: Export,
    },
    /// Server: the handshake (or the bulk attachment) is complete.
    Ready,
    /// Client.
    Resync(Resync),
    /// Server.
    Resynced(Resynced),
    /// Client: once per session.
    BulkOpen {
        /// Values in flight at a time, 1..=64.
        chunk_count: u8,
    },
    /// Server.
    BulkReady {
        /// Bytes from one chunk to the next; a chunk holds any value the server allows.
        chunk_bytes: u32,
        /// How many.
        chunk_count: u8,
        /// The chunks; remote read and write.
        region: Export,
        /// The server's end of an RC queue pair for READs and WRITEs of them.
        rc: Export,
    },
    /// Client.
    BulkAttach {
        /// The client's end of it.
        rc: Export,
    },
    /// Client.
    StatsRequest,
    /// Server: lines `name value`.
    Stats {
        /// At most [`TEXT_BYTES_MAX`].
        text: String,
    },
    /// Server: what was asked cannot be. Before Ready (and with `Malformed` always) the channel closes after it.
    Error {
        /// For programs.
        code: ErrorCode,
        /// For people.
        text: String,
    },
    /// Either side: closing on purpose.
    Bye,
}

/// Why bytes are not a [`Message`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// No such kind.
    #[error("unknown control message kind {kind}")]
    UnknownKind {
        /// The number.
        kind: u16,
    },
    /// A field is missing, or says what it cannot say.
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

/// A message as a frame wants it.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// The frame's kind.
    pub kind: u16,
    /// Its body.
    pub bytes: Vec<u8>,
    /// Its descriptors.
    pub fds: Vec<Arc<OwnedFd>>,
}

impl Message {
    /// The frame's kind.
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

    /// As it travels. Texts that are too long are cut.
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

    /// Sends it.
    ///
    /// # Errors
    /// As [`ControlStream::send`].
    pub fn send(&self, control: &mut ControlStream) -> Result<(), ControlError> {
        let frame = self.encode();
        control.send(frame.kind, &frame.bytes, &frame.fds)
    }

    /// The inverse. Errors: the peer sent something else; answer [`ErrorCode::Malformed`] and close.
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

/// A byte string as all versions have it. What does not fit 16 bits is cut off.
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
