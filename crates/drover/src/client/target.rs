//! [`Target`]: what a client command asks, by its address.

use drover_client::ServiceUrl;
use drover_control::{AddrError, ControlAddr};
use std::fmt;
use std::str::FromStr;

/// A server, or a service of several members.
#[derive(Clone, Debug)]
pub enum Target {
    /// One server.
    Server(ControlAddr),
    /// The members that etcd knows.
    Service(ServiceUrl),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Server(addr) => addr.fmt(f),
            Target::Service(url) => url.fmt(f),
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        if text.starts_with(ServiceUrl::SCHEME) {
            let url = text.parse().map_err(|error| format!("{error}"));
            return url.map(Target::Service);
        }
        let addr = text.parse().map_err(|error: AddrError| error.to_string());
        addr.map(Target::Server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_one_servers_or_a_services() {
        for text in ["shm:drover", "rdma://h:1", "etcd://a:2379,b:7/cache"] {
            let target: Target = text.parse().expect(text);
            assert_eq!(target.to_string(), text);
            let is_service = matches!(target, Target::Service(_));
            assert_eq!(is_service, text.starts_with("etcd://"));
        }
        for text in ["", "etcd://a", "http://a/b"] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }
}
