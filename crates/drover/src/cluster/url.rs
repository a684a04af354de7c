//! [`ServiceUrl`]: which service of several members is meant, and where its etcd is.

use drover_cluster_etcd::EtcdOptions;
use std::fmt;
use std::str::FromStr;

const SCHEME: &str = "etcd://";
/// etcd's port for clients, where none is named.
const ETCD_PORT: u16 = 2379;

/// `etcd://HOST[:PORT][,HOST[:PORT]...]/NAME`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceUrl {
    /// Members of etcd, as `HOST:PORT`; any that answers will do.
    endpoints: Vec<String>,
    service: String,
}

impl ServiceUrl {
    /// Name of the service.
    pub fn service(&self) -> &str {
        &self.service
    }

    /// Members of etcd, as `HOST:PORT`.
    pub fn endpoints(&self) -> &[String] {
        &self.endpoints
    }

    /// How etcd is reached, without a user.
    pub fn options(&self) -> EtcdOptions {
        let urls: Vec<String> = self.endpoints.iter().map(|it| format!("http://{it}")).collect();
        let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
        EtcdOptions::new(&self.service, &urls)
    }
}

impl fmt::Display for ServiceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.endpoints.join(","), self.service)
    }
}

impl FromStr for ServiceUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<ServiceUrl, String> {
        let expected = || "expected etcd://HOST:PORT[,HOST:PORT...]/NAME".to_owned();
        let rest = text.strip_prefix(SCHEME).ok_or_else(expected)?;
        let (hosts, service) = rest.split_once('/').ok_or_else(expected)?;
        let endpoints = hosts.split(',').map(endpoint).collect::<Option<Vec<String>>>();
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if !(1..=40).contains(&service.len()) || !service.chars().all(allowed) {
            return Err(format!(
                "{service:?} cannot be a service's name: 1 to 40 letters, digits, '-', '_' or '.'"
            ));
        }
        Ok(ServiceUrl {
            endpoints: endpoints.ok_or_else(expected)?,
            service: service.to_owned(),
        })
    }
}

/// `HOST:PORT` with etcd's port, if none is named; `None`: this is no host.
fn endpoint(text: &str) -> Option<String> {
    let is_host = |host: &str| !host.is_empty() && host.chars().all(|c| c.is_ascii_graphic() && c != '@');
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
        _ => (text, ETCD_PORT),
    };
    is_host(host).then(|| format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_etcds_members_and_a_service() {
        for (text, shown) in [
            ("etcd://10.0.0.1:2379/cache", "etcd://10.0.0.1:2379/cache"),
            ("etcd://a,b:7/x.y-z_1", "etcd://a:2379,b:7/x.y-z_1"),
            ("etcd://[::1]:7/x", "etcd://[::1]:7/x"),
            ("etcd://[::1]/x", "etcd://[::1]:2379/x"),
        ] {
            let url: ServiceUrl = text.parse().expect(text);
            assert_eq!(url.to_string(), shown);
            assert_eq!(url.options().endpoints.len(), url.endpoints().len());
        }
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
        ] {
            assert!(text.parse::<ServiceUrl>().is_err(), "{text}");
        }
    }
}
