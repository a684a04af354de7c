//! [`OwnServer`]: trust in the server of this process, for its own clients.

use crate::{TlsAcceptor, provider};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use std::sync::Arc;

/// Accepts the certificate that an acceptor of this process shows, and no other. Names and dates do not matter: the
/// process has the key itself. That the other end has it, too, is checked as always.
#[derive(Debug)]
pub(crate) struct OwnServer {
    acceptor: Arc<TlsAcceptor>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl OwnServer {
    pub(crate) fn new(acceptor: Arc<TlsAcceptor>) -> OwnServer {
        OwnServer {
            acceptor,
            algorithms: provider().signature_verification_algorithms,
        }
    }
}

impl ServerCertVerifier for OwnServer {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match *end_entity == self.acceptor.certificate() {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
