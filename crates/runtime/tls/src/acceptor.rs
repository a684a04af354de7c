//! [`TlsAcceptor`]: memcached's `ssl_*` options, and certificates that can be reloaded while connections last.

use crate::counters::CountingCache;
use crate::{TlsCounters, TlsError, TlsSession, files, provider};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ServerConfig, ServerConnection, SupportedProtocolVersion};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Default of [`kept_bytes_max`](TlsOptions::kept_bytes_max): four records.
const KEPT_BYTES_MAX: usize = 64 << 10;

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
    /// Maximum number of encrypted bytes that a connection buffers when its socket takes no more; at this limit it takes
    /// no further plain bytes. 0: 64 KiB.
    pub kept_bytes_max: usize,
}

impl TlsOptions {
    /// These options for control channels, both of whose ends are drover: TLS 1.3 alone, whose exported keys identify a
    /// channel, and no cache, because a channel lasts as long as its session.
    pub fn of_control_channels(self) -> TlsOptions {
        TlsOptions {
            only_tls13: true,
            session_cache: false,
            kept_bytes_max: 0,
            ..self
        }
    }
}

/// What was read last.
#[derive(Clone, Debug)]
struct Loaded {
    config: Arc<ServerConfig>,
    /// The server's own certificate.
    certificate: CertificateDer<'static>,
}

/// Makes the TLS sessions of a server's connections, with the certificates read last; it accepts no sockets. Shared by
/// all cores; locked once per connection.
#[derive(Debug)]
pub struct TlsAcceptor {
    options: TlsOptions,
    loaded: Mutex<Loaded>,
    counters: Arc<TlsCounters>,
}

impl TlsAcceptor {
    /// Reads the files that `options` name.
    ///
    /// # Errors
    /// A file is missing or invalid, the files do not match, or client certificates are requested without `ca_cert`.
    pub fn new(options: TlsOptions) -> Result<TlsAcceptor, TlsError> {
        let counters = Arc::default();
        let loaded = Mutex::new(load(&options, &counters)?);
        Ok(TlsAcceptor {
            options,
            loaded,
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
        let new = load(&self.options, &self.counters)?;
        *self.loaded.lock().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    /// The server's side of TLS for one new connection, with the certificates read last. Cost: a lock, and some KiB
    /// until the handshake is over.
    ///
    /// # Errors
    /// rustls cannot make a session.
    pub fn session(&self) -> Result<TlsSession, TlsError> {
        let mut connection = ServerConnection::new(self.loaded().config)?;
        let kept_bytes_max = match self.options.kept_bytes_max {
            0 => KEPT_BYTES_MAX,
            bytes => bytes,
        };
        connection.set_buffer_limit(Some(kept_bytes_max));
        Ok(TlsSession::new(connection.into(), self.counters.clone()))
    }

    /// The server's certificate, as read last.
    pub(crate) fn certificate(&self) -> CertificateDer<'static> {
        self.loaded().certificate
    }

    fn loaded(&self) -> Loaded {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn load(options: &TlsOptions, counters: &Arc<TlsCounters>) -> Result<Loaded, TlsError> {
    const BOTH: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13, &rustls::version::TLS12];
    let versions = if options.only_tls13 { &BOTH[..1] } else { BOTH };
    let provider = provider();
    let chain = files::certificates("ssl_chain_cert", &options.chain_cert)?;
    let certificate = chain[0].clone();
    let key = files::key("ssl_key", &options.key)?;
    let builder = ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(versions)?;
    let builder = match verifier(options, provider)? {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(chain, key)?;
    if options.session_cache {
        config.session_storage = Arc::new(CountingCache::new(counters.clone()));
        config.send_tls13_tickets = 1;
    } else {
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    let config = Arc::new(config);
    Ok(Loaded { config, certificate })
}

fn verifier(
    options: &TlsOptions,
    provider: Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
    let wanted = options.client_certificates;
    if wanted == ClientCertificates::None {
        return Ok(None);
    }
    let path = options.ca_cert.as_ref().ok_or(TlsError::NoCa)?;
    let roots = files::roots("ssl_ca_cert", path)?;
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    Ok(Some(match wanted {
        ClientCertificates::IfAny => builder.allow_unauthenticated().build()?,
        _ => builder.build()?,
    }))
}
