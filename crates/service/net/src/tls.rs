//! TLS as a [`Layer`], by rustls. This module has memcached's `ssl_*` options, certificates that can be reloaded while
//! connections last, and the mapping of a connection's reads and writes to records.

use crate::Layer;
use rustix::net::{RecvFlags, SendFlags};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{
    NoServerSessionStorage, ServerSessionMemoryCache, StoresServerSessions, WebPkiClientVerifier,
};
use rustls::{RootCertStore, ServerConfig, ServerConnection, SupportedProtocolVersion};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use drover_base::sync::{AtomicU64, Ordering};

/// Default of [`kept_bytes_max`](TlsOptions::kept_bytes_max): encrypted bytes that a session buffers when the socket
/// takes no more, four records. At this limit it takes no further plain bytes.
const KEPT_BYTES_MAX: usize = 64 << 10;
/// Number of sessions cached for returning clients. A few hundred bytes each.
const SESSIONS_MAX: usize = 20 << 10;
/// Maximum input without a plain byte: more than any handshake or record has. It stops clients from keeping a core busy
/// with empty records.
const VAIN_BYTES_MAX: usize = 256 << 10;

/// Whether a client must show a certificate.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum ClientCertificates {
    /// No certificate is requested.
    #[default]
    None,
    /// A certificate is requested. A client without one can connect, a client with an invalid one cannot.
    IfAny,
    /// Only clients with a valid certificate can connect.
    Required,
}

/// Files, and rules for clients, of a [`TlsAcceptor`].
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TlsOptions {
    /// PEM file: the server's certificate and its chain.
    pub chain_cert: PathBuf,
    /// PEM file: the key of the server's certificate.
    pub key: PathBuf,
    /// PEM file: CA certificates that client certificates are checked against. Required if client certificates are
    /// requested, otherwise unused.
    pub ca_cert: Option<PathBuf>,
    /// Whether a client must show a certificate.
    pub client_certificates: ClientCertificates,
    /// Whether TLS 1.2 is refused.
    pub only_tls13: bool,
    /// Whether returning clients may resume their session, which saves both ends most of the handshake. The cache holds
    /// 20480 sessions and is emptied by a [reload](TlsAcceptor::reload).
    pub session_cache: bool,
    /// Maximum number of encrypted bytes that a connection buffers when its socket takes no more; 0: 64 KiB.
    pub kept_bytes_max: usize,
}

/// Counters of handshakes, over all connections of a [`TlsAcceptor`].
#[derive(Debug, Default)]
pub struct TlsCounters {
    new_sessions: AtomicU64,
    handshake_errors: AtomicU64,
}

impl TlsCounters {
    /// Number of sessions ever put into the cache; 0 without a cache.
    pub fn new_sessions(&self) -> u64 {
        self.new_sessions.load(Ordering::Relaxed)
    }

    /// Number of failed handshakes: another protocol, no common version, a missing or wrong certificate. A client that
    /// hangs up during the handshake does not count.
    pub fn handshake_errors(&self) -> u64 {
        self.handshake_errors.load(Ordering::Relaxed)
    }
}

/// Session cache that counts insertions.
#[derive(Debug)]
struct CountingCache {
    cache: Arc<ServerSessionMemoryCache>,
    counters: Arc<TlsCounters>,
}

impl StoresServerSessions for CountingCache {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        let kept = self.cache.put(key, value);
        self.counters
            .new_sessions
            .fetch_add(u64::from(kept), Ordering::Relaxed);
        kept
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.cache.get(key)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.cache.take(key)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

/// Reason why TLS could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read, or has no certificate or key in it.
    #[error("{what} {}: {why}", path.display())]
    File {
        /// Option that names the file, such as `ssl_key`.
        what: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with the file.
        why: String,
    },
    /// Client certificates are requested, but no CA certificates are given.
    #[error("client certificates are requested, but ssl_ca_cert is not set")]
    NoCa,
    /// rustls refuses: key and certificate do not match, a certificate (also a CA's) is invalid, or it cannot make a
    /// session.
    #[error("TLS: {0}")]
    Refused(#[from] rustls::Error),
    /// rustls cannot check clients against the CA certificates.
    #[error("ssl_ca_cert: {0}")]
    Verifier(#[from] rustls::client::VerifierBuilderError),
}

/// Makes the TLS sessions of a server's connections, with the certificates read last; it accepts no sockets. Shared by
/// all cores; locked once per connection.
#[derive(Debug)]
pub struct TlsAcceptor {
    options: TlsOptions,
    config: Mutex<Arc<ServerConfig>>,
    counters: Arc<TlsCounters>,
}

impl TlsAcceptor {
    /// Reads the files that `options` name.
    ///
    /// # Errors
    /// A file is missing or invalid, the files do not match, or client certificates are requested without `ca_cert`.
    pub fn new(options: TlsOptions) -> Result<TlsAcceptor, TlsError> {
        let counters = Arc::default();
        let config = Mutex::new(Arc::new(config(&options, &counters)?));
        Ok(TlsAcceptor {
            options,
            config,
            counters,
        })
    }

    /// The options given to [`new`](TlsAcceptor::new).
    pub fn options(&self) -> &TlsOptions {
        &self.options
    }

    /// Counters of handshakes over all sessions, also those before a reload.
    pub fn counters(&self) -> &TlsCounters {
        &self.counters
    }

    /// Reloads all files of the options and empties the session cache. Existing sessions keep their certificates; on an
    /// error nothing changes.
    ///
    /// # Errors
    /// As [`new`](TlsAcceptor::new).
    pub fn reload(&self) -> Result<(), TlsError> {
        let new = Arc::new(config(&self.options, &self.counters)?);
        *self.config.lock().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    /// A layer with a new session, for one connection. If no session can be made, the layer ends the connection: plain
    /// text is never the fallback.
    pub fn layer(&self) -> Box<dyn Layer> {
        match self.session() {
            Ok(session) => Box::new(session),
            Err(error) => {
                tracing::warn!("closing a new connection: no TLS session: {error}");
                Box::new(Refusing)
            }
        }
    }

    /// The server's side of TLS for one new connection, with the certificates read last. Cost: a lock, and some KiB
    /// until the handshake is over.
    ///
    /// # Errors
    /// rustls cannot make a session.
    pub fn session(&self) -> Result<TlsSession, TlsError> {
        let config = self.config.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut connection = ServerConnection::new(config)?;
        let kept_bytes_max = match self.options.kept_bytes_max {
            0 => KEPT_BYTES_MAX,
            bytes => bytes,
        };
        connection.set_buffer_limit(Some(kept_bytes_max));
        Ok(TlsSession {
            connection,
            counters: self.counters.clone(),
            vain_bytes: 0,
        })
    }
}

fn config(options: &TlsOptions, counters: &Arc<TlsCounters>) -> Result<ServerConfig, TlsError> {
    const BOTH: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13, &rustls::version::TLS12];
    let versions = if options.only_tls13 { &BOTH[..1] } else { BOTH };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = certificates("ssl_chain_cert", &options.chain_cert)?;
    let key = PrivateKeyDer::from_pem_file(&options.key)
        .map_err(|error| unreadable("ssl_key", &options.key, error.to_string()))?;
    let builder = ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(versions)?;
    let builder = match verifier(options, provider)? {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(chain, key)?;
    if options.session_cache {
        config.session_storage = Arc::new(CountingCache {
            cache: ServerSessionMemoryCache::new(SESSIONS_MAX),
            counters: counters.clone(),
        });
        config.send_tls13_tickets = 1;
    } else {
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(config)
}

fn verifier(
    options: &TlsOptions,
    provider: Arc<rustls::crypto::CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
    let wanted = options.client_certificates;
    if wanted == ClientCertificates::None {
        return Ok(None);
    }
    let path = options.ca_cert.as_ref().ok_or(TlsError::NoCa)?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates("ssl_ca_cert", path)? {
        roots.add(certificate)?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    Ok(Some(match wanted {
        ClientCertificates::IfAny => builder.allow_unauthenticated().build()?,
        _ => builder.build()?,
    }))
}

fn certificates(what: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(found) if found.is_empty() => Err(unreadable(what, path, "no certificate in it".into())),
        Ok(found) => Ok(found),
        Err(error) => Err(unreadable(what, path, error.to_string())),
    }
}

fn unreadable(what: &'static str, path: &Path, why: String) -> TlsError {
    let path = path.to_owned();
    TlsError::File { what, path, why }
}

/// One connection's TLS session. Its memory is bounded: the received part of a record or handshake, and up to
/// [`kept_bytes_max`](TlsOptions::kept_bytes_max) bytes that the socket has not taken.
#[derive(Debug)]
pub struct TlsSession {
    connection: ServerConnection,
    counters: Arc<TlsCounters>,
    vain_bytes: usize,
}

impl TlsSession {
    /// Whether the client has sent a certificate that was found valid; false before the end of the handshake and with
    /// [`ClientCertificates::None`].
    pub fn is_client_known(&self) -> bool {
        self.connection.peer_certificates().is_some()
    }

    /// One read of the socket. Returns `false` at its end.
    fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<bool> {
        let count = self.connection.read_tls(&mut TlsSocket(socket))?;
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
            self.counters.handshake_errors.fetch_add(1, Ordering::Relaxed);
        }
        // Sends our part of the handshake; after an error, the alert.
        let sent = self.flush(socket);
        result.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        match sent {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(true),
        }
    }

    /// Writes buffered bytes.
    ///
    /// # Errors
    /// `WouldBlock` if some remain.
    fn flush(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        while self.connection.wants_write() {
            if self.connection.write_tls(&mut TlsSocket(socket))? == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }
}

impl Layer for TlsSession {
    fn read(&mut self, socket: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<usize> {
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

    fn write(&mut self, socket: BorrowedFd<'_>, from: &[IoSlice<'_>]) -> io::Result<usize> {
        self.flush(socket)?;
        let count = self.connection.writer().write_vectored(from)?;
        match self.flush(socket) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(count), // what stays is asked for by `wants_write`
        }
    }

    fn wants_write(&self) -> bool {
        self.connection.wants_write()
    }

    /// Sends `close_notify`: without it the peer cannot tell an end from a truncation.
    fn close(&mut self, socket: BorrowedFd<'_>) {
        self.connection.send_close_notify();
        // A socket that takes nothing is closed all the same.
        let _ = self.flush(socket);
    }
}

/// Layer used when no session could be made.
struct Refusing;

impl Layer for Refusing {
    fn read(&mut self, _: BorrowedFd<'_>, _: &mut [u8]) -> io::Result<usize> {
        Err(ErrorKind::ConnectionAborted.into())
    }

    fn write(&mut self, _: BorrowedFd<'_>, _: &[IoSlice<'_>]) -> io::Result<usize> {
        Err(ErrorKind::ConnectionAborted.into())
    }

    fn wants_write(&self) -> bool {
        false
    }
}

/// A socket with the traits that rustls needs.
struct TlsSocket<'a>(BorrowedFd<'a>);

impl Read for TlsSocket<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let (count, _) = rustix::net::recv(self.0, into, RecvFlags::empty())?;
        Ok(count)
    }
}

impl Write for TlsSocket<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(self.0, from, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
