//! Files that may change while the server runs: users and passwords, and TLS certificates.

use super::OpsSettings;
use crate::access::tls_failure;
use crate::auth::Doors;
use crate::exit::Failure;
use crate::serve::memcached::unix_time_s;
use drover_base::sync::{AtomicU64, Ordering};
use drover_tls::{TlsAcceptor, TlsOptions};
use std::sync::Arc;

/// Contents of the files of users and certificates, as last read. All threads share one.
#[derive(Debug, Default)]
pub struct Files {
    /// `-Y`: users; `None`: clients need not log in.
    pub auth: Option<Arc<Doors>>,
    /// `-Z`: TLS of memcached's sockets; `None`: no TLS.
    pub tls: Option<TlsAcceptor>,
    /// `-Z`: TLS of control channels, from the same files.
    pub native_tls: Option<Arc<TlsAcceptor>>,
    /// Time when the certificates were last read, in seconds since 1970.
    tls_read_s: AtomicU64,
}

impl Files {
    /// Reads the files that `settings` name, for the first time.
    ///
    /// # Errors
    /// A file cannot be read or is invalid.
    pub fn read(settings: &OpsSettings) -> Result<Files, Failure> {
        let auth = settings
            .auth_file
            .value
            .as_deref()
            .map(Doors::read)
            .transpose()?
            .map(Arc::new);
        let tls = settings.tls.value.clone().map(TlsAcceptor::new).transpose();
        Ok(Files {
            tls: tls.map_err(|error| tls_failure(&error))?,
            ..Files::of_native(auth, settings.tls.value.clone())?
        })
    }

    /// Reads the files of a process that has no sockets for memcached's clients.
    ///
    /// # Errors
    /// A file cannot be read or is invalid.
    pub fn of_native(auth: Option<Arc<Doors>>, tls: Option<TlsOptions>) -> Result<Files, Failure> {
        let tls = tls.map(|tls| TlsAcceptor::new(tls.of_control_channels()));
        let tls = tls.transpose().map_err(|error| tls_failure(&error))?;
        Ok(Files {
            auth,
            tls: None,
            native_tls: tls.map(Arc::new),
            tls_read_s: AtomicU64::new(unix_time_s()),
        })
    }

    /// Reads certificates and key again; `None` without TLS. An error is one line with the reason; the old files then
    /// stay in use.
    pub fn reload_tls(&self) -> Option<Result<(), String>> {
        let acceptors = self.tls.iter().chain(self.native_tls.as_deref());
        let done = acceptors.map(TlsAcceptor::reload).reduce(Result::and)?;
        if done.is_ok() {
            self.tls_read_s.store(unix_time_s(), Ordering::Relaxed);
        }
        Some(done.map_err(|error| error.to_string()))
    }

    /// Seconds since the certificates were last read successfully; without TLS, since the server's start.
    pub fn tls_age_s(&self) -> u64 {
        unix_time_s().saturating_sub(self.tls_read_s.load(Ordering::Relaxed))
    }

    /// Reads all files again and logs the results. The old content of a file that cannot be read or is invalid stays in
    /// use.
    pub fn reload(&self) {
        let auth = self.auth.as_ref().map(|doors| doors.reload());
        let tls = self.reload_tls();
        for (what, result) in [
            ("the file of users (-Y)", auth),
            ("certificates and key (-Z)", tls),
        ] {
            match result {
                None => {}
                Some(Ok(())) => tracing::info!("SIGHUP: reloaded {what}"),
                Some(Err(why)) => tracing::error!("SIGHUP: cannot reload {what}, keeping the old one: {why}"),
            }
        }
        if self.auth.is_none() && self.native_tls.is_none() {
            tracing::info!("SIGHUP: no file to reload");
        }
    }
}
