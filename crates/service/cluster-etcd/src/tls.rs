//! [`EtcdTls`]: certificates and a key, read once, because a process may lose the right to read them before it reconnects.

use crate::OpenError;
use crate::parameters::{self, shown};
use drover_tls::{TlsClientOptions, TlsConnector, TlsError};
use etcd_client::{Certificate, Identity, TlsOptions};
use std::path::Path;
use std::time::Duration;

/// Whom a client of etcd trusts, and who it is itself.
#[derive(Clone)]
pub struct EtcdTls {
    /// PEM, as the etcd client takes it.
    ca: Vec<u8>,
    /// Certificate and key of this client, if it has them; PEM.
    identity: Option<(Vec<u8>, Vec<u8>)>,
    /// The same, for handshakes of our own.
    connector: TlsConnector,
}

impl EtcdTls {
    /// Reads the files.
    ///
    /// # Errors
    /// One cannot be read or has no certificate or key in it, the key is another certificate's, or the name is none.
    pub fn read(options: &TlsClientOptions) -> Result<EtcdTls, OpenError> {
        // This checks them: the etcd client ignores certificates that it cannot read, and notices a bad key when it connects.
        let connector = TlsConnector::new(options.clone()).map_err(|error| unusable(options, error))?;
        let identity = options.certificate.as_ref().map(|(certificate, key)| {
            Ok::<_, OpenError>((
                bytes(parameters::CERTIFICATE, certificate)?,
                bytes(parameters::KEY, key)?,
            ))
        });
        Ok(EtcdTls {
            ca: bytes(parameters::CA, &options.ca)?,
            identity: identity.transpose()?,
            connector,
        })
    }

    /// What the etcd client is told; its handshakes take at most `timeout`.
    pub(crate) fn options(&self, timeout: Duration) -> TlsOptions {
        let mut options = TlsOptions::new()
            .ca_certificate(Certificate::from_pem(&self.ca))
            .timeout(timeout);
        if let Some((certificate, key)) = &self.identity {
            options = options.identity(Identity::from_pem(certificate, key));
        }
        if let Some(name) = &self.connector.options().name {
            options = options.domain_name(name);
        }
        options
    }

    /// Makes sessions with the same certificates.
    pub(crate) fn connector(&self) -> &TlsConnector {
        &self.connector
    }
}

fn bytes(parameter: &str, path: &Path) -> Result<Vec<u8>, OpenError> {
    std::fs::read(path).map_err(|error| OpenError::Tls {
        parameters: format!("{parameter}={}", path.display()),
        why: error.to_string(),
    })
}

/// The error, with the parameters that it is about.
fn unusable(options: &TlsClientOptions, error: TlsError) -> OpenError {
    match error {
        TlsError::File { what, path, why } => OpenError::Tls {
            // They are called as the flags of other connections.
            parameters: format!("{}={}", what.trim_start_matches("--"), path.display()),
            why,
        },
        error => OpenError::Tls {
            parameters: shown(options),
            why: error.to_string(),
        },
    }
}
