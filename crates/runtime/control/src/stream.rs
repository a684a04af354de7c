//! [`ControlStream`]: one end of a control channel.

use super::addr::ControlAddr;
use super::auth::{Credentials, Guard};
use super::codec::{EncodeError, Message};
use super::connect::connect;
use super::entrance::Entrance;
use super::error::{ControlError, DialError};
use super::frame::{Frame, FrameError, FrameReader, kind, refusal};
use super::heartbeat::{Beat, Heartbeat};
use super::keeper::Keeper;
use super::memory::MemoryEnd;
use super::outbound::Outbound;
use super::peer::Peer;
use super::peer_name::PeerName;
use super::socket::{PeerCred, Socket};
use super::tls;
use drover_base::{Cpu, Ns};
use drover_tls::TlsSession;
use std::io;
use std::net::TcpStream;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Bytes per read.
const CHUNK_BYTES: usize = 16 << 10;
/// Most frames of the channel itself that one [`ControlStream::recv`] answers before it returns.
const OWN_FRAMES_MAX: usize = 32;
/// Shortest wait, to avoid a busy loop just before a deadline.
const NAP_MIN: Ns = Ns::from_us(100);
/// Longest text of an error frame, bytes.
const REASON_BYTES_MAX: usize = 256;
/// What is said to a peer that proves itself where nobody asked.
const UNGUARDED: &str =
    "this server has no file of users (-Y), so it cannot prove who it is: connect without a password";

/// One end of a control channel: sends and receives frames, sends heartbeats, and blocks only in methods that say so.
///
/// `recv` costs a system call; on a hot path call it [when it is due](ControlStream::is_due), or when `poll` reports
/// the descriptor.
#[derive(Debug)]
pub struct ControlStream {
    out: Arc<Outbound>,
    name: PeerName,
    reader: FrameReader,
    heartbeat: Heartbeat,
    /// The last `recv` stopped before the socket was empty.
    more: bool,
    ended: bool,
    /// The handshake, while the ends prove to each other who they are.
    entrance: Option<Box<Entrance>>,
}

impl ControlStream {
    /// Creates two connected ends within this process, without a socket. They carry descriptors.
    pub fn pair() -> (ControlStream, ControlStream) {
        let (a, b) = MemoryEnd::pair();
        (
            ControlStream::new(Socket::Memory(a)),
            ControlStream::new(Socket::Memory(b)),
        )
    }

    /// Connects to the server at `addr`; if that has [TLS](ControlAddr::with_tls), begins its handshake, and if it has
    /// [credentials](ControlAddr::with_credentials), begins to [authenticate](ControlStream::authenticate): both go on in
    /// [`recv`](ControlStream::recv). Blocks for at most `timeout` (at least 1 ms) per resolved address, and while the name
    /// is resolved.
    ///
    /// # Errors
    /// [`DialError`] if no server listens, the connection is not established in time, a system call fails, or other
    /// users can write to the [runtime directory](super::runtime_dir()) that contains the socket.
    pub fn connect(addr: &ControlAddr, timeout: Ns) -> Result<ControlStream, DialError> {
        let mut stream = ControlStream::new(connect(addr, timeout.to_duration())?);
        if let Some(credentials) = addr.credentials() {
            stream.authenticate(credentials.clone());
        }
        Ok(stream)
    }

    /// Makes a connected Unix socket one end of a control channel.
    ///
    /// # Errors
    /// The socket cannot be made nonblocking.
    pub fn from_unix(stream: UnixStream) -> io::Result<ControlStream> {
        stream.set_nonblocking(true)?;
        Ok(ControlStream::new(Socket::Unix(stream)))
    }

    /// Makes a connected TCP socket one end of a control channel.
    ///
    /// # Errors
    /// The socket cannot be configured.
    pub fn from_tcp(stream: TcpStream) -> io::Result<ControlStream> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(ControlStream::new(Socket::Tcp(stream)))
    }

    /// Makes a connected TCP socket one end of a control channel, whose TLS `session` does.
    ///
    /// # Errors
    /// The socket cannot be configured.
    pub fn from_tls(stream: TcpStream, session: TlsSession) -> io::Result<ControlStream> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(ControlStream::new(Socket::tls(stream, session)))
    }

    fn new(socket: Socket) -> ControlStream {
        ControlStream {
            name: PeerName::new(Peer::of(&socket)),
            out: Arc::new(Outbound::new(socket)),
            reader: FrameReader::new(),
            heartbeat: Heartbeat::default(),
            more: false,
            ended: false,
            entrance: None,
        }
    }

    /// Begins to prove to the server at the other end that this one knows the secret of `credentials`, and demands the
    /// same of it. [`recv`](ControlStream::recv) goes on with it; frames that are sent before it is complete wait.
    pub fn authenticate(&mut self, credentials: Arc<Credentials>) {
        let (entrance, hello) = Entrance::prove(credentials);
        self.entrance = Some(Box::new(entrance));
        // Only reading reports a broken channel.
        let _ = self.out.send(hello.kind, &hello.body, &[]);
    }

    /// Lets no frame in from the client at the other end, nor out to it, until `guard` is satisfied.
    pub fn guard(&mut self, guard: &Arc<Guard>) {
        self.entrance = Some(Box::new(Entrance::guard(guard.clone(), self.name.peer())));
    }

    /// Whether a handshake with a client is under way, so that nothing is known of it yet.
    pub(crate) fn is_unproven(&self) -> bool {
        let is_guarded = self
            .entrance
            .as_ref()
            .is_some_and(|entrance| entrance.is_servers());
        is_guarded || self.out.socket.is_handshaking()
    }

    /// Time at which the guard next requires a [`recv`](ControlStream::recv), even if nothing arrived.
    pub(crate) fn guard_look(&self) -> Ns {
        self.entrance
            .as_ref()
            .map_or(Ns::MAX, |entrance| entrance.next_look())
    }

    /// Sends a frame, or queues it if the peer is slow. Never blocks. If the channel is broken or closed, the frame is
    /// dropped; only [`recv`](ControlStream::recv) reports that, with the peer's reason if it gave one.
    ///
    /// # Errors
    /// [`ControlError`] if the frame exceeds a limit or has descriptors and the channel is TCP. If the peer does not
    /// read and the queue is full, [`ControlError::Stalled`], and the channel is closed.
    pub fn send(&mut self, kind: u16, body: &[u8], fds: &[Arc<OwnedFd>]) -> Result<(), ControlError> {
        let sent = match &mut self.entrance {
            None => self.out.send(kind, body, fds),
            Some(entrance) => entrance.hold(kind, body, fds, self.out.socket.carries_fds()),
        };
        if let Err(why @ ControlError::Stalled { .. }) = &sent {
            self.log_end(why);
            self.end();
        }
        sent
    }

    /// Encodes `message` and sends it as one frame.
    ///
    /// # Errors
    /// As [`send`](ControlStream::send).
    pub fn send_message<M: Message>(&mut self, message: &M) -> Result<(), ControlError> {
        let mut writer = super::Writer::new();
        message.encode(&mut writer);
        let (body, fds) = writer.finish().map_err(|error| match error {
            EncodeError::TooLong { bytes } => ControlError::TooLong { bytes },
            EncodeError::TooManyFds { count } => ControlError::TooManyFds { count },
        })?;
        self.send(M::KIND, &body, &fds)
    }

    /// Sends `code` (see [`refusal`]) and up to the first 256 bytes of `reason`, and closes the channel. The peer's
    /// `recv` returns them as [`ControlError::Refused`], after the frames sent before; they are lost if the socket
    /// cannot take them at once.
    pub fn refuse(mut self, code: u16, reason: &str) {
        self.turn_away(code, reason);
    }

    /// As [`refuse`](ControlStream::refuse); the owner drops the stream.
    pub(crate) fn turn_away(&mut self, code: u16, reason: &str) {
        if self.name.is_client() && code != refusal::SHUTTING_DOWN {
            tracing::info!("{} refused: {reason}", self.name);
        }
        self.last_words(code, reason);
    }

    fn last_words(&mut self, code: u16, reason: &str) {
        let mut end = reason.len().min(REASON_BYTES_MAX);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        let mut writer = super::Writer::new();
        writer.u16(code).u16(end as u16).raw(&reason.as_bytes()[..end]);
        if let Ok((body, _)) = writer.finish() {
            // The channel is closed in either case.
            let _ = self.out.send(kind::ERROR, &body, &[]);
        }
        self.end();
    }

    /// Takes the next frame that is not a heartbeat, if one has arrived. Never blocks. Also answers the pings that it
    /// finds; when nothing is left to read, also writes queued frames and, if the heartbeat is due at `now`, checks the
    /// peer and sends a ping if needed. If it returns `None` and [`has_more`](ControlStream::has_more) is true, it
    /// stopped after 32 heartbeats: call it again.
    ///
    /// # Errors
    /// [`ControlError`] when the channel ends. It is closed then: later calls return [`ControlError::Closed`].
    pub fn recv(&mut self, now: Ns) -> Result<Option<Frame>, ControlError> {
        if self.ended {
            return Err(ControlError::Closed);
        }
        let got = self.try_recv(now);
        if let Err(why) = &got {
            self.log_end(why);
        }
        match &got {
            Ok(_) => {}
            Err(ControlError::Frame(error)) => {
                let reason = error.to_string();
                self.last_words(refusal::BAD_FRAME, &reason);
            }
            Err(ControlError::Unproven { why }) => self.last_words(refusal::AUTH, why),
            Err(ControlError::Tls { why }) => {
                // A client without TLS reads the reason, and nothing that was meant for others.
                self.out.forget();
                self.last_words(refusal::TLS, why);
            }
            Err(_) => self.end(),
        }
        got
    }

    fn try_recv(&mut self, now: Ns) -> Result<Option<Frame>, ControlError> {
        self.more = true;
        for _ in 0..OWN_FRAMES_MAX {
            let Some(frame) = self.next_frame()? else {
                self.more = false;
                self.out.flush();
                self.enter(None, now)?;
                self.check_heartbeat(now)?;
                return Ok(None);
            };
            self.heartbeat.heard();
            match frame.kind {
                kind::PING => self.out.beat(kind::PONG),
                kind::PONG => {}
                kind::ERROR => return Err(refused(&frame)),
                _ if self.entrance.is_some() => self.enter(Some(&frame), now)?,
                kind::AUTH_HELLO..=kind::AUTH_ACCEPT => {
                    return Err(ControlError::Unproven { why: UNGUARDED });
                }
                _ => return Ok(Some(frame)),
            }
        }
        Ok(None)
    }

    /// Goes on with the handshake, if there is one, and sends what waited for its end.
    fn enter(&mut self, frame: Option<&Frame>, now: Ns) -> Result<(), ControlError> {
        let Some(entrance) = &mut self.entrance else {
            return Ok(());
        };
        if frame.is_some() {
            entrance.bind(self.out.socket.channel_binding());
        }
        let (answer, is_open) = entrance.step(frame, now)?;
        if let Some(answer) = answer {
            self.out.send(answer.kind, &answer.body, &[])?;
        }
        if is_open && let Some(entrance) = self.entrance.take() {
            for held in entrance.into_held() {
                self.out.send(held.kind, &held.body, &held.fds)?;
            }
        }
        Ok(())
    }

    /// The next frame of any kind, from the buffer or the socket; `None` when the socket is empty.
    fn next_frame(&mut self) -> Result<Option<Frame>, ControlError> {
        if let Some(frame) = self.reader.next()? {
            return Ok(Some(frame));
        }
        // Simulators poll hundreds of channels every few microseconds: avoid even allocating a buffer.
        if self.out.socket.is_surely_empty() {
            return Ok(None);
        }
        let mut chunk = [0; CHUNK_BYTES];
        loop {
            if let Some(frame) = self.reader.next()? {
                return Ok(Some(frame));
            }
            let mut fds = Vec::new();
            let got = match self.out.socket.read(&mut chunk, &mut fds) {
                Ok(got) => got,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(broken(error)),
            };
            if got.fds_lost {
                return Err(FrameError::LostFds.into());
            }
            if got.len == 0 {
                return Err(if self.reader.is_mid_frame() {
                    ControlError::ClosedMidFrame
                } else {
                    ControlError::Closed
                });
            }
            self.reader.push(&chunk[..got.len], fds)?;
        }
    }

    fn check_heartbeat(&mut self, now: Ns) -> Result<(), ControlError> {
        if !self.heartbeat.is_due(now) {
            return Ok(());
        }
        match self.heartbeat.poll(now, self.out.frames_sent()) {
            Beat::Fine => {}
            Beat::SendPing => self.out.beat(kind::PING),
            Beat::Dead => return Err(ControlError::Silent),
        }
        Ok(())
    }

    /// Blocks until a frame that is not a heartbeat arrives, at most until `deadline`. For set-up and bulk transfers,
    /// not for hot paths.
    ///
    /// # Errors
    /// [`ControlError::Timeout`] after `deadline`, and then the channel stays open; else as
    /// [`recv`](ControlStream::recv).
    pub fn recv_until<C: Cpu>(&mut self, cpu: &C, deadline: Ns) -> Result<Frame, ControlError> {
        let start = cpu.refresh();
        // Count the time slept, in case the clock does not advance by itself (a simulated one does not).
        let mut slept = Ns::ZERO;
        loop {
            let now = cpu.refresh().max(start + slept);
            if let Some(frame) = self.recv(now)? {
                return Ok(frame);
            }
            if now >= deadline {
                return Err(ControlError::Timeout);
            }
            let next_look = self.heartbeat.next_look().min(self.guard_look());
            let nap = deadline.min(next_look).since(now).max(NAP_MIN);
            if !self.wait(nap) {
                slept += nap;
            }
        }
    }

    /// Blocks until [`recv`](ControlStream::recv) may find work, at most `timeout`. Returns false on timeout.
    pub fn wait(&self, timeout: Ns) -> bool {
        self.ended
            || self.more
            || self
                .out
                .socket
                .wait(self.out.wants_write(), timeout.to_duration())
    }

    /// Whether the heartbeat requires a [`recv`](ControlStream::recv) at `now` even if nothing arrived. Costs a
    /// comparison.
    #[inline]
    pub fn is_due(&self, now: Ns) -> bool {
        self.heartbeat.is_due(now)
    }

    /// Time at which the heartbeat next requires a [`recv`](ControlStream::recv), even if nothing arrived by then; zero
    /// before the first `recv`.
    pub fn next_look(&self) -> Ns {
        self.heartbeat.next_look()
    }

    /// Starts a thread that sends this end's pings while [`recv`](ControlStream::recv) is not called. Keep the result:
    /// it stops the thread when it is dropped.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn keeper(&self) -> io::Result<Keeper> {
        Keeper::start(&self.out)
    }

    /// Whether the last [`recv`](ControlStream::recv) may have left frames unread: call it again before you `poll`.
    pub fn has_more(&self) -> bool {
        self.more && !self.ended
    }

    /// Descriptor for `poll`; `None` for an end of a [`pair`](ControlStream::pair).
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.out.socket.fd()
    }

    /// Whether frames wait for the peer to read: then `poll` for writing, too.
    pub fn wants_write(&self) -> bool {
        self.out.wants_write()
    }

    /// Whether the channel carries descriptors: not over TCP.
    pub fn carries_fds(&self) -> bool {
        self.out.socket.carries_fds()
    }

    /// The other end.
    pub fn peer(&self) -> Peer {
        self.name.peer()
    }

    /// The other end, for log lines.
    pub fn name(&self) -> &PeerName {
        &self.name
    }

    /// Adds the id of the client at the other end to its [`name`](ControlStream::name): "client 5".
    pub fn identify(&mut self, id: &str) {
        self.name.identify(id);
    }

    pub(crate) fn came_in_at(&mut self, listener: Option<&Arc<str>>) {
        self.name.came_in_at(listener);
    }

    /// Servers log why a client's channel has ended; a client's own end is reported by the owner of the stream.
    #[cold]
    fn log_end(&self, why: &ControlError) {
        match (self.name.is_client(), why.is_orderly()) {
            (false, _) => {}
            (true, true) => tracing::debug!("{} has left: {why}", self.name),
            (true, false) => tracing::info!("{} dropped: {why}", self.name),
        }
    }

    /// Credentials of the peer; `None` unless the channel is a Unix socket and the system knows them.
    pub fn peer_cred(&self) -> Option<PeerCred> {
        self.out.socket.peer_cred()
    }

    /// Whether this end is closed: by this side, or because [`recv`](ControlStream::recv) found that the channel ended.
    pub fn is_closed(&self) -> bool {
        self.ended
    }

    /// Closes the channel in both directions, without blocking; dropping the stream does the same. Writes as many
    /// queued bytes as the socket takes at once; the rest is lost. The peer receives what was written, perhaps with the
    /// last frame cut, then the end of the stream.
    pub fn close(&mut self) {
        self.end();
    }

    fn end(&mut self) {
        if !self.ended {
            self.ended = true;
            self.out.flush();
            self.out.socket.shutdown();
        }
    }
}

impl Drop for ControlStream {
    fn drop(&mut self) {
        self.end();
    }
}

/// The error for a socket that cannot be read.
fn broken(source: io::Error) -> ControlError {
    match (source.kind(), tls::failure(&source)) {
        (_, Some(why)) => ControlError::Tls { why },
        (io::ErrorKind::ConnectionReset, None) => ControlError::Closed,
        (io::ErrorKind::UnexpectedEof, None) => ControlError::ClosedInHandshake,
        _ => ControlError::System {
            what: "reading the control channel",
            source,
        },
    }
}

/// The error for a peer's error frame, with printable text.
fn refused(frame: &Frame) -> ControlError {
    let mut reader = super::Reader::new(&frame.body, &[]);
    let code = reader.u16().unwrap_or(0);
    let len = usize::from(reader.u16().unwrap_or(0)).min(REASON_BYTES_MAX);
    let text = reader.raw(len.min(reader.remaining())).unwrap_or(&[]);
    let printable = |c: char| if c.is_control() { '?' } else { c };
    let reason = String::from_utf8_lossy(text).chars().map(printable).collect();
    ControlError::Refused { code, reason }
}
