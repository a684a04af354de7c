//! How client commands come in: as whom, and over TLS or not.

use crate::auth::CredentialArgs;
use crate::exit::{self, Failure};
use drover_control::{ControlAddr, TlsClientOptions, TlsConnector, TlsError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Who a client command is, and whom it trusts.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct AccessArgs {
    /// As whom it connects.
    #[command(flatten)]
    pub auth: CredentialArgs,
    /// Whom it trusts.
    #[command(flatten)]
    pub tls: TlsArgs,
}

impl AccessArgs {
    /// Returns `addr` with the user to connect as, and with TLS if that was asked for.
    ///
    /// # Errors
    /// A file cannot be used, or the address has no TLS.
    pub fn of(&self, addr: ControlAddr) -> Result<ControlAddr, Failure> {
        over_tls(self.auth.of(addr)?, self.tls.read()?.as_ref())
    }
}

/// TLS of a client command.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct TlsArgs {
    /// Speak TLS with a server that was started with -Z: PEM file of the CA that signed its certificate
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Host name or IP address that the server's certificate is for [default: the host of the address]
    #[arg(long, value_name = "NAME", requires = "tls_ca")]
    tls_name: Option<String>,
    /// PEM file of this client's certificate, for a server that asks for one
    #[arg(long, value_name = "FILE", requires = "tls_ca", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// PEM file of the key of --tls-cert
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

impl TlsArgs {
    /// Whether TLS was asked for.
    pub fn is_given(&self) -> bool {
        self.tls_ca.is_some()
    }

    /// What makes the sessions; `None` without `--tls-ca`.
    ///
    /// # Errors
    /// As [`connector`].
    pub fn read(&self) -> Result<Option<Arc<TlsConnector>>, Failure> {
        let ca = self.tls_ca.as_deref();
        connector(
            ca,
            self.tls_name.clone(),
            self.tls_cert.clone().zip(self.tls_key.clone()),
        )
    }
}

/// What makes the sessions of a client that trusts `ca`; `None` without one.
///
/// # Errors
/// A file cannot be read or makes no sense, or the name is none.
pub fn connector(
    ca: Option<&Path>,
    name: Option<String>,
    certificate: Option<(PathBuf, PathBuf)>,
) -> Result<Option<Arc<TlsConnector>>, Failure> {
    let Some(ca) = ca else { return Ok(None) };
    let options = TlsClientOptions {
        name,
        certificate,
        ..TlsClientOptions::trusting(ca)
    };
    let connector = TlsConnector::new(options).map_err(|error| tls_failure(&error))?;
    Ok(Some(Arc::new(connector)))
}

/// Returns `addr` with TLS, if there is some.
///
/// # Errors
/// The address is a Unix socket's, which has no TLS.
pub fn over_tls(addr: ControlAddr, tls: Option<&Arc<TlsConnector>>) -> Result<ControlAddr, Failure> {
    if tls.is_some() && addr.carries_fds() {
        let text = format!("{addr} is a Unix socket, which has no TLS: leave --tls-ca out");
        return Err(Failure::new(exit::USAGE, text));
    }
    Ok(addr.with_tls(tls.cloned()))
}

/// Why files of certificates and keys cannot be used, with the option that names them.
pub fn tls_failure(error: &TlsError) -> Failure {
    let text = match error {
        TlsError::File { what, .. } if what.starts_with("ssl_") => {
            format!("-o {error}: name a PEM file of a certificate or key")
        }
        TlsError::File { .. } => format!("{error}: name a PEM file of a certificate or key"),
        TlsError::Refused(_) => format!("{error}: certificate and key must belong together"),
        _ => error.to_string(),
    };
    Failure::new(exit::NO_INPUT, text)
}
