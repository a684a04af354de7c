//! Certificates and keys in PEM files.

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};

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
    /// The name that the server's certificate must have is neither a host name nor an IP address.
    #[error("TLS: {name} is neither a host name nor an IP address, which a certificate could be for")]
    Name {
        /// The name.
        name: String,
    },
    /// rustls refuses: key and certificate do not match, a certificate (also a CA's) is invalid, or it cannot make a
    /// session.
    #[error("TLS: {0}")]
    Refused(#[from] rustls::Error),
    /// rustls cannot check clients against the CA certificates.
    #[error("ssl_ca_cert: {0}")]
    Verifier(#[from] rustls::client::VerifierBuilderError),
}

/// The certificates in the file at `path`, which option `what` names; at least one.
pub(crate) fn certificates(
    what: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(found) if found.is_empty() => Err(unreadable(what, path, "no certificate in it".into())),
        Ok(found) => Ok(found),
        Err(error) => Err(unreadable(what, path, error.to_string())),
    }
}

/// The certificates in a file, as those of whom its reader trusts.
pub(crate) fn roots(what: &'static str, path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(what, path)? {
        roots.add(certificate)?;
    }
    Ok(roots)
}

/// The key in a file.
pub(crate) fn key(what: &'static str, path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| unreadable(what, path, error.to_string()))
}

fn unreadable(what: &'static str, path: &Path, why: String) -> TlsError {
    let path = path.to_owned();
    TlsError::File { what, path, why }
}
