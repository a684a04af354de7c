//! [`ServiceUrl`]: which service of several members is meant, and where its etcd is.

use crate::keys::is_name;
use crate::{EtcdOptions, EtcdTls, OpenError, parameters};
use drover_tls::TlsClientOptions;
use std::fmt;
use std::str::FromStr;

/// etcd's port for clients, where none is named.
const ETCD_PORT: u16 = 2379;

/// What the parameters begin with. A password may have a question mark, too.
const PARAMETERS: &str = "?tls-";

/// `etcd://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...]/NAME[?tls-ca=FILE[&tls-cert=FILE&tls-key=FILE][&tls-name=NAME]]`. With
/// `tls-ca` etcd is reached over TLS: its certificate must be signed by a CA in that file, and be for `tls-name` or else the host. Names
/// of files have no `&` and no `%`.
#[derive(Clone, PartialEq, Eq)]
pub struct ServiceUrl {
    user: Option<(String, String)>,
    /// Members of etcd, as `HOST:PORT`.
    endpoints: Vec<String>,
    service: String,
    /// Files of certificates and keys; `None`: no TLS.
    tls: Option<TlsClientOptions>,
}

/// A text is no [`ServiceUrl`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadServiceUrl {
    /// It names no hosts, or no service.
    #[error(
        "expected etcd://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...]/NAME[?tls-ca=FILE...], with a NAME of 1 to 40 letters, digits, '-', \
         '_' or '.'"
    )]
    Form,
    /// Something is wrong with the parameters behind the question mark.
    #[error(
        "{0}: expected ?tls-ca=FILE[&tls-cert=FILE&tls-key=FILE][&tls-name=NAME], without & and % in the names of files"
    )]
    Parameters(String),
}

impl ServiceUrl {
    /// What such addresses begin with.
    pub const SCHEME: &'static str = "etcd://";

    /// `text`, which may be no such URL, without what may be user and password, so that it can be repeated in a log.
    pub fn without_login(text: &str) -> String {
        match text.rsplit_once('@') {
            None => text.to_owned(),
            Some((_, rest)) => format!("...@{rest}"),
        }
    }

    /// Name of the service.
    pub fn service(&self) -> &str {
        &self.service
    }

    /// Members of etcd, as `HOST:PORT`.
    pub fn endpoints(&self) -> &[String] {
        &self.endpoints
    }

    /// Whether etcd is reached over TLS.
    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// How etcd is reached. Any of its members will do. Reads the files that the URL names.
    ///
    /// # Errors
    /// [`OpenError::Tls`]: a file cannot be used.
    pub fn options(&self) -> Result<EtcdOptions, OpenError> {
        let scheme = if self.has_tls() { "https" } else { "http" };
        let urls = self.endpoints.iter().map(|it| format!("{scheme}://{it}"));
        Ok(EtcdOptions {
            user: self.user.clone(),
            endpoints: urls.collect(),
            tls: self.tls.as_ref().map(EtcdTls::read).transpose()?,
            ..EtcdOptions::new(&self.service, &[])
        })
    }
}

/// Without user and password.
impl fmt::Display for ServiceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (endpoints, service) = (self.endpoints.join(","), &self.service);
        write!(f, "{}{endpoints}/{service}", ServiceUrl::SCHEME)?;
        match &self.tls {
            Some(tls) => write!(f, "?{}", parameters::shown(tls)),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for ServiceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ServiceUrl {
    type Err = BadServiceUrl;

    fn from_str(text: &str) -> Result<ServiceUrl, BadServiceUrl> {
        use BadServiceUrl::{Form, Parameters};
        let rest = text.strip_prefix(ServiceUrl::SCHEME).ok_or(Form)?;
        let (rest, parameters) = match rest.find(PARAMETERS) {
            Some(index) => (&rest[..index], Some(&rest[index + 1..])),
            None => (rest, None),
        };
        let (hosts, service) = rest.rsplit_once('/').ok_or(Form)?;
        let (user, hosts) = match hosts.rsplit_once('@') {
            Some((user, hosts)) => (Some(user.split_once(':').ok_or(Form)?), hosts),
            None => (None, hosts),
        };
        let endpoints = hosts.split(',').map(endpoint).collect::<Option<Vec<String>>>();
        let endpoints = endpoints.filter(|_| is_name(service)).ok_or(Form)?;
        let tls = parameters.map(parameters::parse).transpose();
        Ok(ServiceUrl {
            user: user.map(|(user, password)| (user.to_owned(), password.to_owned())),
            endpoints,
            service: service.to_owned(),
            tls: tls.map_err(Parameters)?,
        })
    }
}

/// `HOST:PORT` with etcd's port, if none is named; `None`: this is no host.
fn endpoint(text: &str) -> Option<String> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
        _ => (text, ETCD_PORT),
    };
    let is_host = !host.is_empty() && host.chars().all(|c| c.is_ascii_graphic() && c != '/');
    is_host.then(|| format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_members_of_etcd_and_a_service() {
        for (text, shown) in [
            ("etcd://10.0.0.1:2379/cache", "etcd://10.0.0.1:2379/cache"),
            ("etcd://a,b:7/x.y-z_1", "etcd://a:2379,b:7/x.y-z_1"),
            ("etcd://[::1]:7/x", "etcd://[::1]:7/x"),
            ("etcd://[::1]/x", "etcd://[::1]:2379/x"),
            ("etcd://me:a:b@c@a/x", "etcd://a:2379/x"),
            ("etcd://me:why?@a/x", "etcd://a:2379/x"),
            (
                "etcd://me:why?@a,b/x?tls-ca=/etc/ca@1.pem&tls-name=etcd",
                "etcd://a:2379,b:2379/x?tls-ca=/etc/ca@1.pem&tls-name=etcd",
            ),
        ] {
            let url: ServiceUrl = text.parse().expect(text);
            assert_eq!(format!("{url} {url:?}"), format!("{shown} {shown}"));
            assert_eq!(shown.parse::<ServiceUrl>().expect(shown).to_string(), shown);
        }
        let url: ServiceUrl = "etcd://me:a:b@c@a,b:7/x".parse().expect("a URL");
        let options = url.options().expect("no files");
        assert_eq!(options.user, Some(("me".to_owned(), "a:b@c".to_owned())));
        assert_eq!(options.endpoints, ["http://a:2379", "http://b:7"]);
        assert_eq!(options.service, "x");
    }

    #[test]
    fn a_text_that_is_no_url_is_repeated_without_its_password() {
        for (text, shown) in [
            ("etcd://a,b/", "etcd://a,b/"),
            ("etcd://me:secret@/x", "...@/x"),
            ("etcd://me:se@cret@a", "...@a"),
            ("http://me:secret@a/x", "...@a/x"),
            ("me:secret@a/x", "...@a/x"),
        ] {
            assert_eq!(ServiceUrl::without_login(text), shown);
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "etcd://",
            "etcd:///x",
            "etcd://a",
            "etcd://a/",
            "etcd://a/b/c",
            "etcd://a:x/b",
            "etcd://a,,b/c",
            "http://a/b",
            "etcd://u@a/b",
            "etcd://a/\u{e4}",
            "etcd://a/b?",
            "etcd://a/b?ca=c",
        ] {
            assert_eq!(text.parse::<ServiceUrl>(), Err(BadServiceUrl::Form), "{text}");
        }
        let error = "etcd://a/b?tls-ca=c&x="
            .parse::<ServiceUrl>()
            .expect_err("x is unknown");
        assert_eq!(
            error.to_string(),
            "\"x\" is no parameter: expected ?tls-ca=FILE[&tls-cert=FILE&tls-key=FILE][&tls-name=NAME], without & and % in the names of files"
        );
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named() {
        let folder = std::env::temp_dir().join(format!("drover-url-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let empty = folder.join("empty.pem");
        std::fs::write(&empty, "").expect("a file");
        for (path, why) in [
            ("/nowhere/ca.pem", "No such file"),
            (empty.to_str().expect("UTF-8"), "no certificate in it"),
        ] {
            let url: ServiceUrl = format!("etcd://a/x?tls-ca={path}").parse().expect("a URL");
            let error = url.options().err().expect("no certificate").to_string();
            assert!(error.starts_with(&format!("tls-ca={path}: ")), "{error}");
            assert!(error.contains(why), "{error}");
        }
    }
}
