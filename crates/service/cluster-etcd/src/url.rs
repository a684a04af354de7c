//! [`ServiceUrl`]: which service of several members is meant, and where its etcd is.

use crate::EtcdOptions;
use crate::keys::is_name;
use std::fmt;
use std::str::FromStr;

/// etcd's port for clients, where none is named.
const ETCD_PORT: u16 = 2379;

/// `etcd://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...]/NAME`.
#[derive(Clone, PartialEq, Eq)]
pub struct ServiceUrl {
    user: Option<(String, String)>,
    /// Members of etcd, as `HOST:PORT`.
    endpoints: Vec<String>,
    service: String,
}

/// A text is no [`ServiceUrl`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "expected etcd://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...]/NAME, with a NAME of 1 to 40 letters, digits, '-', '_' or '.'"
)]
pub struct BadServiceUrl;

impl ServiceUrl {
    /// What such addresses begin with.
    pub const SCHEME: &'static str = "etcd://";

    /// Name of the service.
    pub fn service(&self) -> &str {
        &self.service
    }

    /// Members of etcd, as `HOST:PORT`.
    pub fn endpoints(&self) -> &[String] {
        &self.endpoints
    }

    /// How etcd is reached. Any of its members will do.
    pub fn options(&self) -> EtcdOptions {
        let urls: Vec<String> = self.endpoints.iter().map(|it| format!("http://{it}")).collect();
        let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
        EtcdOptions {
            user: self.user.clone(),
            ..EtcdOptions::new(&self.service, &urls)
        }
    }
}

/// Without user and password.
impl fmt::Display for ServiceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (endpoints, service) = (self.endpoints.join(","), &self.service);
        write!(f, "{}{endpoints}/{service}", ServiceUrl::SCHEME)
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
        let rest = text.strip_prefix(ServiceUrl::SCHEME).ok_or(BadServiceUrl)?;
        let (hosts, service) = rest.rsplit_once('/').ok_or(BadServiceUrl)?;
        let (user, hosts) = match hosts.rsplit_once('@') {
            Some((user, hosts)) => (Some(user.split_once(':').ok_or(BadServiceUrl)?), hosts),
            None => (None, hosts),
        };
        let endpoints = hosts.split(',').map(endpoint).collect::<Option<Vec<String>>>();
        let endpoints = endpoints.filter(|_| is_name(service)).ok_or(BadServiceUrl)?;
        Ok(ServiceUrl {
            user: user.map(|(user, password)| (user.to_owned(), password.to_owned())),
            endpoints,
            service: service.to_owned(),
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
        ] {
            let url: ServiceUrl = text.parse().expect(text);
            assert_eq!(format!("{url} {url:?}"), format!("{shown} {shown}"));
        }
        let url: ServiceUrl = "etcd://me:a:b@c@a,b:7/x".parse().expect("a URL");
        let options = url.options();
        assert_eq!(options.user, Some(("me".to_owned(), "a:b@c".to_owned())));
        assert_eq!(options.endpoints, ["http://a:2379", "http://b:7"]);
        assert_eq!(options.service, "x");
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
        ] {
            assert_eq!(text.parse::<ServiceUrl>(), Err(BadServiceUrl), "{text}");
        }
    }
}
