//! [`Authority`]: a CA of one test, and what it signs, as files.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use std::path::{Path, PathBuf};

/// A CA that lives as long as a test. Its files are in a folder of the caller's.
pub struct Authority {
    folder: PathBuf,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// Files of a certificate and of its key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// PEM file of the certificate.
    pub chain: PathBuf,
    /// PEM file of the key.
    pub key: PathBuf,
}

impl Authority {
    /// Makes a CA, whose certificate is a file in `folder`.
    pub fn new(folder: &Path) -> Authority {
        let mut params = named("ca");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // CAs of one name would be told apart by their signatures alone.
        let name = folder.display().to_string();
        params.distinguished_name.push(DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key"));
        let issuer = issuer.expect("a certificate");
        std::fs::create_dir_all(folder).expect("a folder");
        std::fs::write(folder.join("ca.pem"), issuer.pem()).expect("a file");
        let folder = folder.to_owned();
        Authority { folder, issuer }
    }

    /// PEM file of the CA's certificate.
    pub fn ca(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// Signs a certificate for `name`, a host or an IP address. It replaces one whose files have the same `stem`.
    pub fn issue(&self, stem: &str, name: &str) -> Identity {
        self.sign(stem, named(name))
    }

    /// As [`issue`](Authority::issue), but the certificate expired in 2001.
    pub fn issue_expired(&self, stem: &str, name: &str) -> Identity {
        let mut params = named(name);
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(2001, 1, 1);
        self.sign(stem, params)
    }

    fn sign(&self, stem: &str, params: CertificateParams) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let identity = Identity {
            chain: self.folder.join(format!("{stem}.pem")),
            key: self.folder.join(format!("{stem}.key")),
        };
        std::fs::write(&identity.chain, certificate.pem()).expect("a file");
        std::fs::write(&identity.key, key.serialize_pem()).expect("a file");
        identity
    }
}

fn named(name: &str) -> CertificateParams {
    CertificateParams::new(vec![name.to_owned()]).expect("a name")
}
