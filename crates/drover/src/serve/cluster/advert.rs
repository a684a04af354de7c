//! What a member says of itself: where it is reached, and its share.

use crate::cluster::{ADMIN, Advertised, MEMBER, MEMCACHED};
use crate::exit::{self, Failure};
use crate::serve::settings::Settings;
use drover_cluster::{ADDRESSES_MAX, Advert};
use drover_control::{ControlAddr, Endpoint, Scheme};
use drover_net::Address;
use std::net::{IpAddr, SocketAddr};

/// Listeners of a member.
pub struct Listeners<'a> {
    /// For native clients.
    pub native: Vec<ControlAddr>,
    /// For memcached's clients.
    pub memcached: Vec<Address>,
    /// The admin port.
    pub admin: Option<SocketAddr>,
    /// Where others reach this machine.
    pub advertised: &'a Advertised,
}

/// What the member `name` says of itself. Its weight is its memory, in MiB.
///
/// # Errors
/// The name is none, or the addresses are too long.
pub fn advert(settings: &Settings, name: &str, listeners: &Listeners<'_>) -> Result<Advert, Failure> {
    let cores = settings.capacity.threads.value;
    let weight = u32::try_from(settings.capacity.memory_mib.value).unwrap_or(u32::MAX);
    Advert::new(name, weight, listeners.addresses(cores)).map_err(|error| {
        let flag = if settings.cluster.member_name.as_ref().is_some() {
            "--member-name"
        } else {
            "host name"
        };
        Failure::new(
            exit::USAGE,
            format!("{flag}: {error}: --member-name chooses a name, --advertise the host"),
        )
    })
}

impl Listeners<'_> {
    /// The addresses, most important first; those beyond the most that a member may have are left out.
    fn addresses(&self, cores: usize) -> Vec<String> {
        let advertised = self.advertised;
        let mut addresses = vec![format!("{MEMBER}{advertised}?cores={cores}")];
        let memcached = self.memcached.iter().find_map(|address| match address {
            Address::Tcp(addr) => self.reached(*addr),
            Address::Unix(_) => None,
        });
        let others = [
            memcached.map(|place| format!("{MEMCACHED}{place}")),
            self.admin
                .and_then(|addr| self.reached(addr))
                .map(|place| format!("{ADMIN}{place}")),
        ];
        let others: Vec<String> = others.into_iter().flatten().collect();
        let natives = self.native.iter().filter_map(|addr| self.native(addr));
        addresses.extend(natives.take(ADDRESSES_MAX - 1 - others.len()));
        addresses.extend(others);
        addresses
    }

    /// Where others reach a listener; `None`: they do not.
    fn reached(&self, addr: SocketAddr) -> Option<String> {
        let is_here = |ip: IpAddr| ip.to_canonical().is_loopback();
        let host: Option<IpAddr> = self.advertised.host.parse().ok();
        match addr.ip() {
            _ if addr.port() == 0 => None,
            ip if ip.is_unspecified() => Some(self.advertised.at(addr.port())),
            ip if is_here(ip) && !host.is_some_and(is_here) => None,
            _ => Some(addr.to_string()),
        }
    }

    /// The address of a listener for native clients; `None`: data does not go there, or others do not reach it.
    fn native(&self, addr: &ControlAddr) -> Option<String> {
        match (addr.scheme(), addr.place()) {
            (Scheme::Tcp, _) => None,
            (Scheme::Rdma, Endpoint::HostPort { host, port }) => {
                let host: IpAddr = host.trim_matches(['[', ']']).parse().ok()?;
                self.reached(SocketAddr::new(host, *port))
                    .map(|place| format!("rdma://{place}"))
            }
            _ => Some(addr.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(host: &str, memcached: &[&str], admin: Option<&str>, native: &[&str]) -> Vec<String> {
        let advertised: Advertised = host.parse().expect("a host");
        let listeners = Listeners {
            native: native
                .iter()
                .map(|text| text.parse().expect("an address"))
                .collect(),
            memcached: memcached
                .iter()
                .map(|text| Address::Tcp(text.parse().expect("an address")))
                .collect(),
            admin: admin.map(|text| text.parse().expect("an address")),
            advertised: &advertised,
        };
        listeners.addresses(2)
    }

    #[test]
    fn what_others_reach_is_advertised() {
        assert_eq!(
            addresses(
                "10.0.0.1",
                &["0.0.0.0:11211"],
                Some("10.0.0.1:9150"),
                &["shm:drover", "unix:/run/x.sock"]
            ),
            [
                "member://10.0.0.1:11212?cores=2",
                "shm:drover",
                "memcached://10.0.0.1:11211",
                "http://10.0.0.1:9150"
            ]
        );
        assert_eq!(
            addresses(
                "10.0.0.1",
                &["127.0.0.1:11211"],
                Some("127.0.0.1:9150"),
                &["rdma://0.0.0.0:1", "shm:d"]
            ),
            ["member://10.0.0.1:11212?cores=2", "rdma://10.0.0.1:1", "shm:d"]
        );
        assert_eq!(
            addresses("127.0.0.2", &["127.0.0.2:7"], None, &["tcp://127.0.0.2:8"]),
            ["member://127.0.0.2:11212?cores=2", "memcached://127.0.0.2:7"]
        );
    }
}
