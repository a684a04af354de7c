//! Files that may change while the server runs: who may come in, and the certificates of TLS.

use super::OpsSettings;
use super::auth::AuthFile;
use crate::exit::{self, Failure};
use drover_net::TlsAcceptor;

/// Files as they were read last. Shared by all threads.
#[derive(Debug, Default)]
pub struct Files {
    /// `-Y`; `None`: everybody may come in.
    pub auth: Option<AuthFile>,
    /// `-Z`.
    pub tls: Option<TlsAcceptor>,
}

impl Files {
    /// Reads them for the first time.
    pub fn read(settings: &OpsSettings) -> Result<Files, Failure> {
        let auth = settings
            .auth_file
            .value
            .as_deref()
            .map(AuthFile::read)
            .transpose()?;
        let tls = settings.tls.clone().map(TlsAcceptor::new).transpose();
        Ok(Files {
            auth,
            tls: tls.map_err(|error| Failure::new(exit::NO_INPUT, error))?,
        })
    }

    /// Reads them again, and says how that went. What cannot be read stays as it was.
    pub fn reload(&self) {
        let auth = self.auth.as_ref().map(AuthFile::reload);
        let tls = self
            .tls
            .as_ref()
            .map(|tls| tls.reload().map_err(|error| error.to_string()));
        for (what, result) in [
            ("the file of users (-Y)", auth),
            ("certificates and key (-Z)", tls),
        ] {
            match result {
                None => {}
                Some(Ok(())) => tracing::info!("SIGHUP: {what}: read again"),
                Some(Err(why)) => tracing::error!("SIGHUP: {what}: the old one stays: {why}"),
            }
        }
        if self.auth.is_none() && self.tls.is_none() {
            tracing::info!("SIGHUP: no file to read again");
        }
    }
}
