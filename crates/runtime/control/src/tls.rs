//! [`TlsSocket`]: a TCP socket whose bytes are encrypted, behind the interface of the others.

use drover_tls::{CHANNEL_BINDING_BYTES, TlsSession, reason};
use std::io::{self, ErrorKind, IoSlice, Read};
use std::net::TcpStream;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// First byte of every frame, and of no record of TLS.
const FIRST_OF_FRAME: u8 = b'D';
/// Most bytes of a plain client that are read before it is answered: all that it can have sent before it hears anything.
const PLAIN_BYTES_MAX: usize = 64 << 10;

/// What the peer reads that sent a frame where a record was due.
const PLAIN_CLIENT: &str = "this address speaks TLS (-Z): trust the CA of its certificate, by --tls-ca FILE or, in \
                            programs, Options::tls";
const PLAIN_SERVER: &str =
    "the server does not speak TLS at this address: leave --tls-ca out, or start it with -Z";

/// A connected TCP socket and its session. The reading and the writing half share it.
#[derive(Debug)]
pub(crate) struct TlsSocket {
    stream: TcpStream,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    session: TlsSession,
    /// The first byte of the peer was one of TLS.
    is_tls: bool,
    /// The peer is a plain client: it is told so in plain bytes, and nothing else.
    is_plain: bool,
}

/// Failures for which rustls is not to blame.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Failure(&'static str);

/// What was wrong with TLS, if `error` is about that.
pub(crate) fn failure(error: &io::Error) -> Option<String> {
    let ours = error.get_ref().and_then(|error| error.downcast_ref::<Failure>());
    ours.map(Failure::to_string).or_else(|| reason(error))
}

impl TlsSocket {
    /// Begins the handshake if `session` is a client's.
    pub(crate) fn new(stream: TcpStream, session: TlsSession) -> TlsSocket {
        let state = State {
            session,
            is_tls: false,
            is_plain: false,
        };
        let socket = TlsSocket {
            stream,
            state: Mutex::new(state),
        };
        socket.flush();
        socket
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A session that panicked is never in the middle of a record that it could repeat.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Encrypts as many bytes as the socket and the session take. `WouldBlock` if that is none, as before the end of the
    /// handshake.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.lock();
        let mut socket = &self.stream;
        if state.is_plain {
            return io::Write::write(&mut socket, bytes);
        }
        if state.session.is_handshaking() {
            return Err(ErrorKind::WouldBlock.into());
        }
        match uninterrupted(|| state.session.write(&mut socket, &[IoSlice::new(bytes)]))? {
            0 => Err(ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }

    /// Goes on with the handshake, and decrypts what has arrived. 0 means end of stream; `UnexpectedEof` is one during
    /// the handshake.
    pub(crate) fn read(&self, out: &mut [u8]) -> io::Result<usize> {
        let mut state = self.lock();
        if !state.is_tls {
            self.look_at_first(&mut state)?;
        }
        let read = uninterrupted(|| state.session.read(&mut &self.stream, out));
        let is_over = match &read {
            Ok(count) => *count == 0,
            Err(error) => matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe),
        };
        match is_over && state.session.is_handshaking() {
            true => Err(ErrorKind::UnexpectedEof.into()),
            false => read,
        }
    }

    /// Finds out whether the peer speaks TLS: a frame gets an answer that its sender understands.
    fn look_at_first(&self, state: &mut State) -> io::Result<()> {
        let mut first = [0];
        state.is_tls = self.stream.peek(&mut first)? == 0 || first[0] != FIRST_OF_FRAME;
        if state.is_tls {
            return Ok(());
        }
        if state.session.is_client() {
            return Err(io::Error::other(Failure(PLAIN_SERVER)));
        }
        state.is_plain = true;
        // What is left unread would make the system take back the answer.
        let mut unread = [0; 4096];
        for _ in 0..PLAIN_BYTES_MAX / unread.len() {
            if !matches!((&self.stream).read(&mut unread), Ok(1..)) {
                break;
            }
        }
        Err(io::Error::other(Failure(PLAIN_CLIENT)))
    }

    /// Writes what the session has kept, as far as the socket takes it. The next read reports a broken connection.
    pub(crate) fn flush(&self) {
        let _ = self.lock().session.flush(&mut &self.stream);
    }

    /// Whether to wait for space in the socket; `has_frames`: frames wait to be written.
    pub(crate) fn wants_write(&self, has_frames: bool) -> bool {
        let state = self.lock();
        state.session.wants_write() || has_frames && !state.session.is_handshaking()
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.lock().session.is_handshaking()
    }

    pub(crate) fn channel_binding(&self) -> Option<[u8; CHANNEL_BINDING_BYTES]> {
        self.lock().session.channel_binding()
    }

    /// Announces the end of the stream.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        if !state.is_plain {
            state.session.close(&mut &self.stream);
        }
    }
}

/// Calls `attempt` until no signal interrupts it.
fn uninterrupted<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match attempt() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}
