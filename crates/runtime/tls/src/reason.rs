//! [`reason`]: why a session failed, for people; [`shows_tls`], for programs.

use rustls::{AlertDescription, CertificateError, Error};
use std::io;

/// Why a method of [`TlsSession`](crate::TlsSession) failed, as far as TLS is to blame; `None` for errors of the socket.
pub fn reason(error: &io::Error) -> Option<String> {
    let error = error.get_ref()?.downcast_ref::<Error>()?;
    Some(match error {
        Error::InvalidCertificate(why) => of_certificate(why),
        Error::AlertReceived(alert) => of_alert(*alert),
        Error::NoCertificatesPresented => "the client shows no certificate (--tls-cert, --tls-key)".into(),
        Error::InvalidMessage(_) => "the other end does not speak TLS".into(),
        error => error.to_string(),
    })
}

/// Whether this error of a method of [`TlsSession`](crate::TlsSession) is one that only a peer that speaks TLS can cause.
pub fn shows_tls(error: &io::Error) -> bool {
    let error = error.get_ref().and_then(|error| error.downcast_ref::<Error>());
    error.is_some_and(|error| !matches!(error, Error::InvalidMessage(_)))
}

fn of_certificate(why: &CertificateError) -> String {
    match why {
        // The signature is bad where another CA has the same name.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "the certificate of the other end is signed by none of the trusted CAs (a client's: --tls-ca)"
                .into()
        }
        CertificateError::NotValidForName => "the certificate is for another name (--tls-name)".into(),
        CertificateError::NotValidForNameContext { expected, presented } => format!(
            "the server's certificate is for {}, not for {} (--tls-name gives the name to expect)",
            presented
                .iter()
                .map(|name| bare(name))
                .collect::<Vec<_>>()
                .join(", "),
            expected.to_str()
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the certificate of the other end has expired".into()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the certificate of the other end is not valid yet: compare the clocks".into()
        }
        CertificateError::ApplicationVerificationFailure => {
            "another server answers than that of this process".into()
        }
        why => format!("the certificate of the other end is not accepted: {why}"),
    }
}

/// The name in a text such as `DnsName("db.test")` or `IpAddress(10.0.0.1)`.
fn bare(presented: &str) -> &str {
    let inner = presented
        .split_once('(')
        .and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(presented).trim_matches('"')
}

fn of_alert(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::CertificateRequired => {
            "the server asks for a certificate of the client (--tls-cert, --tls-key)".into()
        }
        AlertDescription::UnknownCA => "the other end does not trust the CA of this end's certificate".into(),
        AlertDescription::BadCertificate | AlertDescription::CertificateExpired => {
            format!("the other end does not accept this end's certificate ({alert:?})")
        }
        AlertDescription::ProtocolVersion => "the other end speaks no TLS 1.3".into(),
        alert => format!("the other end refuses ({alert:?})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_their_kinds() {
        assert_eq!(bare("DnsName(\"db.test\")"), "db.test");
        assert_eq!(bare("IpAddress(10.0.0.1)"), "10.0.0.1");
        assert_eq!(bare("anything"), "anything");
    }
}
