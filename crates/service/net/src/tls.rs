//! TLS as a [`Layer`]. The work is rustls'; here are what memcached calls `ssl_*`, certificates that can be read again
//! while connections last, and how a connection's reads and writes become records.

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

/// Encrypted bytes that a session keeps when the socket takes no more, unless it is told otherwise: four records. It takes
/// no further plain ones then.
const KEPT_BYTES_MAX: usize = 64 << 10;
/// Sessions that are remembered for clients that come again. A few hundred bytes each.
const SESSIONS_MAX: usize = 20 << 10;
/// Bytes that may come without a plain one among them: more than any handshake or record has, so that nobody keeps a core
/// busy with what means nothing.
const VAIN_BYTES_MAX: usize = 256 << 10;

/// Whose certificates are wanted of clients.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum ClientCertificates {
    /// Nobody's.
    #[default]
    None,
    /// Checked if the client has one.
    IfAny,
    /// Everybody's.
    Required,
}

/// What certificates and keys there are, and what is asked of clients.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TlsOptions {
    /// PEM: the server's certificate, and those that vouch for it.
    pub chain_cert: PathBuf,
    /// PEM: the key of the first.
    pub key: PathBuf,
    /// PEM: who vouches for clients.
    pub ca_cert: Option<PathBuf>,
    /// Of clients.
    pub client_certificates: ClientCertificates,
    /// Refuse TLS 1.2.
    pub only_tls13: bool,
    /// Let clients that come again go on with the session they had, which spares both ends most of the handshake.
    pub session_cache: bool,
    /// Encrypted bytes that a connection keeps when its socket takes no more; 0: four records.
    pub kept_bytes_max: usize,
}

/// What became of handshakes, on all connections together.
#[derive(Debug, Default)]
pub struct TlsCounters {
    new_sessions: AtomicU64,
    handshake_errors: AtomicU64,
}

impl TlsCounters {
    /// Sessions that were put into the cache; none without one.
    pub fn new_sessions(&self) -> u64 {
        self.new_sessions.load(Ordering::Relaxed)
    }

    /// Handshakes that failed: another protocol, no version in common, a certificate that is missing or wrong.
    pub fn handshake_errors(&self) -> u64 {
        self.handshake_errors.load(Ordering::Relaxed)
    }
}

/// The cache of sessions, which counts what is put there.
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

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file that cannot be read, or holds nothing of that kind.
    #[error("{what} {}: {why}", path.display())]
    File {
        /// What it should hold.
        what: &'static str,
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Clients' certificates are to be checked against nobody's.
    #[error("clients' certificates are wanted, but ssl_ca_cert does not say who vouches for them")]
    NoCa,
    /// Key and certificate do not fit, or a certificate is not one.
    #[error("TLS: {0}")]
    Refused(#[from] rustls::Error),
    /// The certificates that vouch for clients are no such certificates.
    #[error("ssl_ca_cert: {0}")]
    Verifier(#[from] rustls::client::VerifierBuilderError),
}

/// Makes sessions, with the certificates that were read last. Shared by all cores; locked once per connection.
#[derive(Debug)]
pub struct TlsAcceptor {
    options: TlsOptions,
    config: Mutex<Arc<ServerConfig>>,
    counters: Arc<TlsCounters>,
}

impl TlsAcceptor {
    /// Reads all files.
    pub fn new(options: TlsOptions) -> Result<TlsAcceptor, TlsError> {
        let counters = Arc::default();
        let config = Mutex::new(Arc::new(config(&options, &counters)?));
        Ok(TlsAcceptor {
            options,
            config,
            counters,
        })
    }

    /// What it was made with.
    pub fn options(&self) -> &TlsOptions {
        &self.options
    }

    /// What became of handshakes.
    pub fn counters(&self) -> &TlsCounters {
        &self.counters
    }

    /// Reads all files again. Sessions go on with what they have; on an error new ones do, too.
    pub fn reload(&self) -> Result<(), TlsError> {
        let new = Arc::new(config(&self.options, &self.counters)?);
        *self.config.lock().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    /// The same as a layer. Where no session can be made, one that ends the connection: never plain text instead.
    pub fn layer(&self) -> Box<dyn Layer> {
        match self.session() {
            Ok(session) => Box::new(session),
            Err(error) => {
                tracing::warn!("a connection ends: {error}");
                Box::new(Refusing)
            }
        }
    }

    /// The server's side of a new connection. Cost: a lock, and some KiB until the handshake is over.
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

/// One connection's TLS. What it holds is bounded: what of a record or the handshake has come, and
/// [so many bytes](TlsOptions::kept_bytes_max) that the socket did not take yet.
#[derive(Debug)]
pub struct TlsSession {
    connection: ServerConnection,
    counters: Arc<TlsCounters>,
    vain_bytes: usize,
}

impl TlsSession {
    /// Whether the client showed a certificate that we checked.
    pub fn is_client_known(&self) -> bool {
        self.connection.peer_certificates().is_some()
    }

    /// One read of the socket. `false` at its end.
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
        // Its part of the handshake; after an error, the alert.
        let sent = self.flush(socket);
        result.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        match sent {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(true),
        }
    }

    /// Writes what is kept. Errors: `WouldBlock` if some of it stays.
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

    /// `close_notify`: without it nobody can tell an end from a cut.
    fn close(&mut self, socket: BorrowedFd<'_>) {
        self.connection.send_close_notify();
        // A socket that takes nothing is closed all the same.
        let _ = self.flush(socket);
    }
}

/// In place of a session that could not be made.
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

/// A socket as rustls need it.
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
