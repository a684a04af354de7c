//! [`TlsSession`]: maps the reads and writes of one connection to records.

use crate::TlsCounters;
use rustls::Connection;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::sync::Arc;

/// Maximum input without a plain byte: more than any handshake or record has. It stops peers from keeping a core busy
/// with empty records.
const VAIN_BYTES_MAX: usize = 256 << 10;
/// Label of the key that names a channel [RFC9266 §2].
const CHANNEL_BINDING: &[u8] = b"EXPORTER-Channel-Binding";
/// Bytes of a [channel binding](TlsSession::channel_binding) [RFC9266 §2].
pub const CHANNEL_BINDING_BYTES: usize = 32;

/// One end of a connection's TLS. Its memory is bounded: the received part of a record or handshake, and the encrypted
/// bytes that the socket has not taken.
///
/// The caller hands a nonblocking socket to every call; errors other than `WouldBlock` and `Interrupted` end the
/// connection, and [`reason`](crate::reason) explains them.
#[derive(Debug)]
pub struct TlsSession {
    connection: Connection,
    counters: Arc<TlsCounters>,
    vain_bytes: usize,
}

impl TlsSession {
    pub(crate) fn new(connection: Connection, counters: Arc<TlsCounters>) -> TlsSession {
        TlsSession {
            connection,
            counters,
            vain_bytes: 0,
        }
    }

    /// Whether the peer has sent a certificate that was found valid; false before the end of the handshake, and at a
    /// server with [`ClientCertificates::None`](crate::ClientCertificates::None).
    pub fn is_peer_known(&self) -> bool {
        self.connection.peer_certificates().is_some()
    }

    /// Whether this end is the client's.
    pub fn is_client(&self) -> bool {
        matches!(self.connection, Connection::Client(_))
    }

    /// Whether the handshake is under way: no plain byte is sent before its end.
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Bytes that both ends of this channel know and that no other channel has; `None` before the end of the handshake.
    /// A proof that covers them proves nothing on another channel, so nobody in between can pass it on.
    pub fn channel_binding(&self) -> Option<[u8; CHANNEL_BINDING_BYTES]> {
        let bytes = [0; CHANNEL_BINDING_BYTES];
        let exported = self
            .connection
            .export_keying_material(bytes, CHANNEL_BINDING, None);
        exported.ok().filter(|_| !self.is_handshaking())
    }

    /// Reads from the socket, decrypts into `into` and returns the number of plain bytes; 0 at the end of input,
    /// announced or not. Also sends what the handshake owes.
    ///
    /// # Errors
    /// `WouldBlock` if there is no input now.
    pub fn read<S: Read + Write>(&mut self, socket: &mut S, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.connection.reader().read(into) {
                Ok(count) => {
                    self.vain_bytes = 0;
                    return Ok(count);
                }
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                Err(_) => {}
            }
            if !self.receive(socket)? {
                return Ok(0);
            }
        }
    }

    /// One read of the socket. Returns `false` at its end.
    fn receive<S: Read + Write>(&mut self, socket: &mut S) -> io::Result<bool> {
        let count = self.connection.read_tls(socket)?;
        if count == 0 {
            return Ok(false);
        }
        self.vain_bytes += count;
        if self.vain_bytes > VAIN_BYTES_MAX {
            return Err(io::Error::new(
                ErrorKind::InvalidData,
                "much came that means nothing",
            ));
        }
        let shakes_hands = self.connection.is_handshaking();
        let result = self.connection.process_new_packets();
        if shakes_hands && result.is_err() {
            self.counters.handshake_failed();
        }
        // Sends our part of the handshake; after an error, the alert.
        let sent = self.flush(socket);
        result.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        match sent {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(true),
        }
    }

    /// Takes bytes from the front of `from` and returns their number. Writes to the socket what the socket has space
    /// for, bytes kept from earlier calls first; the rest it keeps.
    ///
    /// # Errors
    /// `WouldBlock` if it took nothing.
    pub fn write(&mut self, socket: &mut impl Write, from: &[IoSlice<'_>]) -> io::Result<usize> {
        self.flush(socket)?;
        let count = self.connection.writer().write_vectored(from)?;
        match self.flush(socket) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(count), // what stays is asked for by `wants_write`
        }
    }

    /// Writes kept bytes.
    ///
    /// # Errors
    /// `WouldBlock` if some remain.
    pub fn flush(&mut self, socket: &mut impl Write) -> io::Result<()> {
        while self.connection.wants_write() {
            if self.connection.write_tls(socket)? == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }

    /// Whether bytes are left to send to the socket.
    pub fn wants_write(&self) -> bool {
        self.connection.wants_write()
    }

    /// Sends `close_notify`, if the socket has space for it: without it the peer cannot tell an end from a truncation.
    pub fn close(&mut self, socket: &mut impl Write) {
        self.connection.send_close_notify();
        // A socket that takes nothing is closed all the same.
        let _ = self.flush(socket);
    }
}
