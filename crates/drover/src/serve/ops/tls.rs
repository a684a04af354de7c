//! `-Z` and memcached's `-o ssl_*`.

use crate::exit::{self, Failure};
use drover_tls::{ClientCertificates, TlsOptions};
use std::path::PathBuf;

/// TLS options of `-o`: names and values.
pub type Words = Vec<(String, String)>;

/// Parses the `ssl_` words of `-o`; `None` without `-Z`.
///
/// # Errors
/// A word is not an option or its value is invalid, words are given without `-Z`, or certificate or key is missing.
pub fn options(enabled: bool, words: &Words) -> Result<Option<TlsOptions>, Failure> {
    let refuse = |text: String| Err(Failure::new(exit::USAGE, text));
    let mut options = TlsOptions {
        kept_bytes_max: KEPT_BYTES,
        ..TlsOptions::default()
    };
    for (name, value) in words {
        let path = || PathBuf::from(value);
        match name.as_str() {
            _ if !enabled => return refuse(format!("-o {name} needs -Z")),
            "ssl_session_cache" => options.session_cache = true,
            _ if value.is_empty() => return refuse(format!("-o {name}: expected {name}=VALUE")),
            "ssl_chain_cert" => options.chain_cert = path(),
            "ssl_key" => options.key = path(),
            "ssl_ca_cert" => options.ca_cert = Some(path()),
            "ssl_verify_mode" => options.client_certificates = verify_mode(value)?,
            "ssl_min_version" => options.only_tls13 = only_tls13(value)?,
            "ssl_wbuf_size" => options.kept_bytes_max = kept_bytes(value)?,
            "ssl_keyformat" if value == "1" => {} // PEM, of which there is no other
            _ => return refuse(format!("-o {name}: no such option")),
        }
    }
    let missing = |path: &PathBuf| path.as_os_str().is_empty();
    match enabled {
        false => Ok(None),
        true if missing(&options.chain_cert) || missing(&options.key) => {
            refuse("-Z needs -o ssl_chain_cert=FILE,ssl_key=FILE".to_string())
        }
        true => Ok(Some(options)),
    }
}

/// The options among the words of another command's `-o`, which has no others; `None` without `-Z`.
///
/// # Errors
/// As [`options`].
pub fn options_of(enabled: bool, list: &[String]) -> Result<Option<TlsOptions>, Failure> {
    let words = list
        .iter()
        .map(|word| word.trim())
        .filter(|word| !word.is_empty());
    let words = words.map(|word| word.split_once('=').unwrap_or((word, "")));
    let words: Words = words
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    options(enabled, &words)
}

/// Encrypted bytes buffered for a slow client: memcached's buffer, one record.
const KEPT_BYTES: usize = 16 << 10;

/// Parses a number of KiB, memcached's unit.
fn kept_bytes(value: &str) -> Result<usize, Failure> {
    match value.parse::<usize>() {
        Ok(kib) if (1..=1024).contains(&kib) => Ok(kib << 10),
        _ => Err(Failure::new(exit::USAGE, "-o ssl_wbuf_size: from 1 to 1024 KiB")),
    }
}

/// Parses OpenSSL's number, as memcached does.
fn verify_mode(value: &str) -> Result<ClientCertificates, Failure> {
    match value {
        "0" => Ok(ClientCertificates::None),
        "1" | "3" => Ok(ClientCertificates::IfAny),
        "2" => Ok(ClientCertificates::Required),
        _ => {
            let text = "-o ssl_verify_mode: 0 none, 1 if the client has a certificate, 2 required";
            Err(Failure::new(exit::USAGE, text))
        }
    }
}

/// Parses a version name or memcached's number. Versions before 1.2 are never used, even if allowed.
fn only_tls13(value: &str) -> Result<bool, Failure> {
    match value {
        "0" | "1" | "2" | "tlsv1.0" | "tlsv1.1" | "tlsv1.2" => Ok(false),
        "3" | "tlsv1.3" => Ok(true),
        _ => Err(Failure::new(
            exit::USAGE,
            "-o ssl_min_version: tlsv1.2 or tlsv1.3, or memcached's numbers of them, 2 and 3",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(enabled: bool, text: &str) -> Result<Option<TlsOptions>, String> {
        let pairs = text.split(',').filter_map(|word| word.split_once('='));
        let words = pairs.map(|(name, value)| (name.into(), value.into())).collect();
        options(enabled, &words).map_err(|failure| failure.text)
    }

    #[test]
    fn as_memcached_has_them() {
        let got = asked(
            true,
            "ssl_chain_cert=/c,ssl_key=/k,ssl_ca_cert=/a,ssl_verify_mode=2,ssl_min_version=3,\
             ssl_session_cache=,ssl_wbuf_size=64",
        );
        let want = TlsOptions {
            chain_cert: "/c".into(),
            key: "/k".into(),
            ca_cert: Some("/a".into()),
            client_certificates: ClientCertificates::Required,
            only_tls13: true,
            session_cache: true,
            kept_bytes_max: 64 << 10,
        };
        assert_eq!(got, Ok(Some(want)));
        assert_eq!(asked(false, ""), Ok(None));
        let plain = asked(true, "ssl_chain_cert=/c,ssl_key=/k").expect("enough");
        assert!(
            plain.is_some_and(|tls| !tls.only_tls13 && tls.client_certificates == ClientCertificates::None)
        );
    }

    #[test]
    fn what_does_not_fit() {
        let why = |enabled, text| asked(enabled, text).expect_err(text);
        assert_eq!(
            why(true, "ssl_key=/k"),
            "-Z needs -o ssl_chain_cert=FILE,ssl_key=FILE"
        );
        assert_eq!(why(false, "ssl_key=/k"), "-o ssl_key needs -Z");
        assert_eq!(why(true, "ssl_key="), "-o ssl_key: expected ssl_key=VALUE");
        assert_eq!(why(true, "ssl_ciphers=x"), "-o ssl_ciphers: no such option");
        assert!(why(true, "ssl_verify_mode=9").starts_with("-o ssl_verify_mode: "));
        assert!(why(true, "ssl_min_version=sslv3").starts_with("-o ssl_min_version: "));
        assert!(why(true, "ssl_wbuf_size=0").starts_with("-o ssl_wbuf_size: "));
        assert_eq!(why(true, "ssl_keyformat=2"), "-o ssl_keyformat: no such option");
    }
}
