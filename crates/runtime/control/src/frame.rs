//! Frames in wire format, and the reader that accepts them in any chunking.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// First 4 bytes of every frame: the text `DRVC`, as a little-endian number.
pub const MAGIC: u32 = u32::from_le_bytes(*b"DRVC");
/// Version of the framing. Messages inside have versions of their own.
pub const VERSION: u16 = 1;
/// Bytes of a frame's header.
pub const HEADER_BYTES: usize = 16;
/// Longest body of a frame, bytes.
pub const BODY_BYTES_MAX: usize = 64 << 10;
/// Maximum number of descriptors of one frame: enough for one wake-up descriptor from each of 240 workers. It is below
/// the 253 that Linux passes at once, so a peer that sends too many is noticed.
pub const FDS_MAX: usize = 250;

/// Kinds of frames defined by the channel itself.
pub mod kind {
    /// Heartbeat that asks for a [`PONG`]. No body.
    pub const PING: u16 = 1;
    /// Answer to a [`PING`]. No body.
    pub const PONG: u16 = 2;
    /// Refusal: code `u16`, length `u16`, text. The sender closes the channel after it.
    pub const ERROR: u16 = 3;
    /// One [`Export`](drover_verbs::Export): of a queue pair to connect to, or of a region.
    pub const EXPORT: u16 = 4;
    /// The sender's queue pair is connected. No body.
    pub const READY: u16 = 5;
    /// Query about the service: [`ServiceQuery`](crate::service::ServiceQuery).
    pub const SERVICE_QUERY: u16 = 6;
    /// Answer to [`SERVICE_QUERY`]: [`ServiceInfo`](crate::service::ServiceInfo).
    pub const SERVICE_INFO: u16 = 7;
    /// Selects the shard that the channel is for: [`SelectShard`](crate::service::SelectShard).
    pub const SELECT_SHARD: u16 = 8;
    /// Query for statistics: [`StatsQuery`](crate::service::StatsQuery).
    pub const STATS_QUERY: u16 = 9;
    /// Answer to [`STATS_QUERY`]: [`StatsReply`](crate::service::StatsReply).
    pub const STATS_REPLY: u16 = 10;
    /// A client names its user: see [`auth`](crate::auth), like the next three.
    pub const AUTH_HELLO: u16 = 11;
    /// A guarded server asks for a proof.
    pub const AUTH_CHALLENGE: u16 = 12;
    /// The client's proof.
    pub const AUTH_PROOF: u16 = 13;
    /// The server's proof.
    pub const AUTH_ACCEPT: u16 = 14;
    /// The first kind that applications may use.
    pub const APPLICATION: u16 = 16;
}

/// Codes of error frames. Applications use [`refusal::APPLICATION`] and above.
pub mod refusal {
    /// The received bytes are not a frame.
    pub const BAD_FRAME: u16 = 1;
    /// The server has reached its limit of connections or of open files.
    pub const TOO_MANY_CONNECTIONS: u16 = 2;
    /// The server is shutting down.
    pub const SHUTTING_DOWN: u16 = 3;
    /// The body of a frame does not match its kind, or the frame is not allowed here.
    pub const BAD_MESSAGE: u16 = 4;
    /// The peer has not proved who it is, or this end was asked to and cannot.
    pub const AUTH: u16 = 5;
    /// The peer does not speak TLS, and this end requires it: sent in plain bytes.
    pub const TLS: u16 = 6;
    /// The first code that applications may use.
    pub const APPLICATION: u16 = 64;
}

/// One message and the descriptors received with it.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// Kind of the message: see [`kind`].
    pub kind: u16,
    /// Body, at most [`BODY_BYTES_MAX`] bytes.
    pub body: Vec<u8>,
    /// File descriptors received with it, at most [`FDS_MAX`].
    pub fds: Vec<Arc<OwnedFd>>,
}

/// Errors of a malformed frame. The connection cannot continue, because the start of the next frame is unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The frame does not begin with [`MAGIC`]: the peer uses another protocol.
    #[error("not a drover control channel (starts with {found:#010x})")]
    Magic {
        /// The 4 bytes received in its place, little-endian.
        found: u32,
    },
    /// The peer uses another version of the framing.
    #[error("the peer uses version {theirs} of the control channel, this end version {VERSION}")]
    Version {
        /// The peer's version of the framing.
        theirs: u16,
    },
    /// The header announces a body longer than [`BODY_BYTES_MAX`].
    #[error("a frame of {bytes} bytes, at most {BODY_BYTES_MAX} are allowed")]
    TooLong {
        /// Length of the body that the header announces, bytes.
        bytes: usize,
    },
    /// The peer announced or sent more than [`FDS_MAX`] descriptors.
    #[error("more than {FDS_MAX} descriptors at once")]
    TooManyFds,
    /// Fewer descriptors arrived than the frame announced.
    #[error("a frame announced {announced} descriptors but {arrived} arrived")]
    MissingFds {
        /// Number of descriptors that the header announces.
        announced: usize,
        /// Number of descriptors received.
        arrived: usize,
    },
    /// The system dropped descriptors: too many were sent, or our limit of open files was reached.
    #[error("descriptors were lost on the way: more than {FDS_MAX} sent, or too many open files here")]
    LostFds,
    /// Reserved bits are set.
    #[error("reserved header bits are set")]
    Reserved,
}

/// A frame's header, decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Kind of the frame.
    pub kind: u16,
    /// Length of the body in bytes, at most [`BODY_BYTES_MAX`].
    pub body_bytes: usize,
    /// Number of descriptors, at most [`FDS_MAX`].
    pub fd_count: usize,
}

impl Header {
    /// Encodes the header.
    ///
    /// # Panics
    /// If `body_bytes` or `fd_count` exceeds its limit: callers check what they send.
    pub fn encode(self) -> [u8; HEADER_BYTES] {
        assert!(
            self.body_bytes <= BODY_BYTES_MAX,
            "a body of {} bytes",
            self.body_bytes
        );
        assert!(self.fd_count <= FDS_MAX, "{} descriptors", self.fd_count);
        let mut out = [0; HEADER_BYTES];
        out[..4].copy_from_slice(&MAGIC.to_le_bytes());
        out[4..6].copy_from_slice(&VERSION.to_le_bytes());
        out[6..8].copy_from_slice(&self.kind.to_le_bytes());
        out[8..12].copy_from_slice(&(self.body_bytes as u32).to_le_bytes());
        out[12..14].copy_from_slice(&(self.fd_count as u16).to_le_bytes());
        out
    }

    /// Checks and decodes a header.
    ///
    /// # Errors
    /// [`FrameError`] for the first fault found.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Header, FrameError> {
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
        if u32_at(0) != MAGIC {
            return Err(FrameError::Magic { found: u32_at(0) });
        }
        if u16_at(4) != VERSION {
            return Err(FrameError::Version { theirs: u16_at(4) });
        }
        let body_bytes = u32_at(8) as usize;
        if body_bytes > BODY_BYTES_MAX {
            return Err(FrameError::TooLong { bytes: body_bytes });
        }
        let fd_count = usize::from(u16_at(12));
        if fd_count > FDS_MAX {
            return Err(FrameError::TooManyFds);
        }
        if u16_at(14) != 0 {
            return Err(FrameError::Reserved);
        }
        Ok(Header {
            kind: u16_at(6),
            body_bytes,
            fd_count,
        })
    }
}

/// Splits a byte stream into frames. Pure: it receives bytes and descriptors and owns no socket.
///
/// Call [`next`](FrameReader::next) until it returns `None` before you [`push`](FrameReader::push) more: then it never
/// holds more than one incomplete frame and one chunk.
#[derive(Debug, Default)]
pub struct FrameReader {
    bytes: Vec<u8>,
    /// Offset before which bytes belong to frames already taken.
    start: usize,
    fds: VecDeque<Arc<OwnedFd>>,
}

impl FrameReader {
    /// Creates a reader that has received nothing.
    pub fn new() -> FrameReader {
        FrameReader::default()
    }

    /// Adds a chunk of the stream and the descriptors received with it.
    ///
    /// # Errors
    /// [`FrameError::TooManyFds`] if frames not taken yet have more than [`FDS_MAX`] descriptors in all.
    pub fn push(
        &mut self,
        bytes: &[u8],
        fds: impl IntoIterator<Item = Arc<OwnedFd>>,
    ) -> Result<(), FrameError> {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
        self.fds.extend(fds);
        if self.fds.len() > FDS_MAX {
            self.fds.clear();
            return Err(FrameError::TooManyFds);
        }
        Ok(())
    }

    /// Takes the next complete frame; `None` until more of the stream is pushed.
    ///
    /// # Errors
    /// [`FrameError`]; after that the stream is unusable.
    #[allow(clippy::should_implement_trait, reason = "it can fail and go on later")]
    pub fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(header) = self.header()? else {
            return Ok(None);
        };
        let body_start = self.start + HEADER_BYTES;
        let Some(body) = self.bytes.get(body_start..body_start + header.body_bytes) else {
            // An incomplete frame keeps the descriptors that it announced; surplus ones are closed.
            self.fds.truncate(header.fd_count);
            return Ok(None);
        };
        if self.fds.len() < header.fd_count {
            return Err(FrameError::MissingFds {
                announced: header.fd_count,
                arrived: self.fds.len(),
            });
        }
        let frame = Frame {
            kind: header.kind,
            body: body.to_vec(),
            fds: self.fds.drain(..header.fd_count).collect(),
        };
        self.start = body_start + header.body_bytes;
        Ok(Some(frame))
    }

    /// The header at the front, if it is complete.
    fn header(&mut self) -> Result<Option<Header>, FrameError> {
        let rest = &self.bytes[self.start..];
        if let Some(magic) = rest.first_chunk::<4>() {
            let found = u32::from_le_bytes(*magic);
            if found != MAGIC {
                return Err(FrameError::Magic { found });
            }
        }
        if rest.is_empty() {
            self.fds.clear();
        }
        rest.first_chunk::<HEADER_BYTES>().map(Header::decode).transpose()
    }

    /// Whether bytes are left after the frames taken so far: an incomplete frame, once [`next`](FrameReader::next) has
    /// returned `None`.
    pub fn is_mid_frame(&self) -> bool {
        self.bytes.len() > self.start
    }

    /// Number of bytes in the buffer, including frames taken since the last [`push`](FrameReader::push). For tests of
    /// the memory bound.
    pub fn held_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Number of descriptors that belong to no frame taken so far.
    pub fn held_fds(&self) -> usize {
        self.fds.len()
    }
}

/// Fuzzing entry: feeds `input` after its first byte, which is the chunk size minus 1, to a [`FrameReader`] and checks
/// the reader's guarantees. Returns the number of frames decoded before the end or the first error.
///
/// # Panics
/// If a guarantee is violated.
pub fn fuzz_frames(input: &[u8]) -> usize {
    let Some((&chunk, stream)) = input.split_first() else {
        return 0;
    };
    let mut reader = FrameReader::new();
    let (mut frame_count, mut frame_bytes) = (0, 0);
    for piece in stream.chunks(usize::from(chunk) + 1) {
        if reader.push(piece, []).is_err() {
            return frame_count;
        }
        assert!(reader.held_bytes() <= HEADER_BYTES + BODY_BYTES_MAX + piece.len());
        loop {
            match reader.next() {
                Ok(Some(frame)) => {
                    assert!(frame.body.len() <= BODY_BYTES_MAX && frame.fds.is_empty());
                    frame_count += 1;
                    frame_bytes += HEADER_BYTES + frame.body.len();
                    assert!(frame_bytes <= stream.len());
                }
                Ok(None) => break,
                Err(_) => return frame_count,
            }
        }
    }
    frame_count
}
