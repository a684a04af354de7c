//! [`TlsConnector`]: whom a client trusts.

use crate::own_server::OwnServer;
use crate::{ClientCertificates, TlsAcceptor, TlsError, TlsSession, files, provider};
use rustls::client::WantsClientCert;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ConfigBuilder, RootCertStore};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;

/// Maximum number of encrypted bytes that a connection buffers when its socket takes no more.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// Whom a client trusts, and who it is itself.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub struct TlsClientOptions {
    /// PEM file: certificates of CAs, one of which must have signed the server's; or the server's own, if it signed
    /// itself.
    pub ca: PathBuf,
    /// Host name or IP address that the server's certificate must be for; `None`: the host of the address.
    pub name: Option<String>,
    /// PEM files of the client's certificate and of its key, for servers that ask for one.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

impl TlsClientOptions {
    /// Trusts the CAs in the file `ca`; no other name than that of the address, no certificate of the client's own.
    pub fn trusting(ca: impl Into<PathBuf>) -> TlsClientOptions {
        TlsClientOptions {
            ca: ca.into(),
            ..TlsClientOptions::default()
        }
    }
}

/// Makes the TLS sessions of a client, which speak TLS 1.3 alone. Two are equal if they were made from the same options.
#[derive(Clone)]
pub struct TlsConnector {
    options: TlsClientOptions,
    config: Arc<ClientConfig>,
}

impl TlsConnector {
    /// Reads the files that `options` name.
    ///
    /// # Errors
    /// A file is missing or invalid, the client's key does not fit its certificate, or the name is none.
    pub fn new(options: TlsClientOptions) -> Result<TlsConnector, TlsError> {
        options.name.as_deref().map(server_name).transpose()?;
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(files::roots("--tls-ca", &options.ca)?);
        TlsConnector::with(options, builder)
    }

    /// A client that accepts no server: how its handshake fails shows whether the server speaks TLS at all.
    ///
    /// # Errors
    /// rustls refuses, which would be a bug.
    pub fn trusting_nobody() -> Result<TlsConnector, TlsError> {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(RootCertStore::empty());
        TlsConnector::with(TlsClientOptions::default(), builder)
    }

    /// A client of the server whose sessions `acceptor` makes, in the same process: it trusts that server's certificate,
    /// as it is at the time, and no other, whatever name it is for. Where clients are asked for a certificate, it shows the
    /// server's, as it is now.
    ///
    /// # Errors
    /// The certificate cannot be read again.
    pub fn to_own_server(acceptor: Arc<TlsAcceptor>) -> Result<TlsConnector, TlsError> {
        let own = acceptor.options();
        let is_asked = own.client_certificates != ClientCertificates::None;
        let options = TlsClientOptions {
            certificate: is_asked.then(|| (own.chain_cert.clone(), own.key.clone())),
            ..TlsClientOptions::trusting(own.chain_cert.clone())
        };
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(OwnServer::new(acceptor)));
        TlsConnector::with(options, builder)
    }

    /// Adds the client's certificate, if it has one.
    fn with(
        options: TlsClientOptions,
        builder: ConfigBuilder<ClientConfig, WantsClientCert>,
    ) -> Result<TlsConnector, TlsError> {
        let config = match &options.certificate {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                let chain = files::certificates("--tls-cert", chain)?;
                builder.with_client_auth_cert(chain, files::key("--tls-key", key)?)?
            }
        };
        let config = Arc::new(config);
        Ok(TlsConnector { options, config })
    }

    /// The options given to [`new`](TlsConnector::new).
    pub fn options(&self) -> &TlsClientOptions {
        &self.options
    }

    /// The client's side of TLS for a new connection to `host`. Cost: some KiB, and the keys of the first message.
    ///
    /// # Errors
    /// `host` is neither a host name nor an IP address, and the options give no other name.
    pub fn session(&self, host: &str) -> Result<TlsSession, TlsError> {
        let name = self.options.name.as_deref().unwrap_or(host);
        let mut connection = ClientConnection::new(self.config.clone(), server_name(name)?)?;
        connection.set_buffer_limit(Some(KEPT_BYTES_MAX));
        Ok(TlsSession::new(connection.into(), Arc::default()))
    }
}

fn server_name(name: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(name.to_owned()).map_err(|_| TlsError::Name {
        name: name.to_owned(),
    })
}

/// Not the client's key.
impl fmt::Debug for TlsConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TlsConnector").field(&self.options).finish()
    }
}

impl PartialEq for TlsConnector {
    fn eq(&self, other: &TlsConnector) -> bool {
        self.options == other.options
    }
}

impl Eq for TlsConnector {}

impl Hash for TlsConnector {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.options.hash(state);
    }
}
