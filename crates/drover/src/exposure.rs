//! Which listeners others can reach, and that they let in nobody without a proof.

use crate::exit::{self, Failure};
use drover_control::{ControlAddr, Endpoint};
use std::fmt::Display;
use std::net::{IpAddr, ToSocketAddrs};

/// What guards the listeners of a server.
#[derive(Clone, Copy, Debug)]
pub struct Exposure {
    /// `--insecure`: the network keeps strangers away.
    pub is_insecure: bool,
    /// `-Y`: clients prove to be users.
    pub has_users: bool,
}

impl Exposure {
    /// Checks a listener at `ip`, which was asked for by `flag` and `addr`. `tls`: it has TLS.
    ///
    /// # Errors
    /// Others can reach it, and nothing keeps them out.
    pub fn check(&self, flag: &str, addr: &dyn Display, ip: IpAddr, tls: Tls) -> Result<(), Failure> {
        if self.is_insecure || self.has_users || tls == Tls::On || ip.to_canonical().is_loopback() {
            return Ok(());
        }
        let or_tls = match tls {
            Tls::Off => " or -Z",
            Tls::On | Tls::None => "",
        };
        let text = format!(
            "{flag} {addr}: other machines reach this address, and nothing keeps strangers out: -Y FILE{or_tls}; or \
             --insecure, if the network does"
        );
        Err(Failure::new(exit::USAGE, text))
    }

    /// Checks the address of a control channel. A host that has no address is left to those who bind it.
    ///
    /// # Errors
    /// As [`check`](Exposure::check).
    pub fn check_control(&self, flag: &str, addr: &ControlAddr, tls: Tls) -> Result<(), Failure> {
        let Endpoint::HostPort { host, port } = addr.place() else {
            return Ok(());
        };
        let found = (host.as_str(), *port).to_socket_addrs().into_iter().flatten();
        let mut found = found.map(|found| found.ip());
        found.try_for_each(|ip| self.check(flag, addr, ip, tls))
    }
}

/// Whether a listener has TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tls {
    /// It has.
    On,
    /// It could have, with `-Z`.
    Off,
    /// It cannot.
    None,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_are_kept_out_beyond_this_machine() {
        let open = Exposure {
            is_insecure: false,
            has_users: false,
        };
        let check = |exposure: Exposure, ip: &str, tls| {
            let checked = exposure.check("-l", &ip, ip.parse().expect("an address"), tls);
            checked.map_err(|failure| (failure.code, failure.text))
        };
        for ip in ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(check(open, ip, Tls::None), Ok(()), "{ip}");
        }
        for ip in ["0.0.0.0", "::", "10.0.0.1", "::ffff:10.0.0.1", "2001:db8::1"] {
            assert!(check(open, ip, Tls::None).is_err(), "{ip}");
            assert_eq!(check(open, ip, Tls::On), Ok(()), "{ip}");
            let [insecure, users] = [(true, false), (false, true)].map(|(is_insecure, has_users)| Exposure {
                is_insecure,
                has_users,
            });
            assert_eq!(check(insecure, ip, Tls::Off), Ok(()));
            assert_eq!(check(users, ip, Tls::Off), Ok(()));
        }
        let text = "-l 10.0.0.1: other machines reach this address, and nothing keeps strangers out: -Y FILE or -Z; or \
                    --insecure, if the network does";
        assert_eq!(check(open, "10.0.0.1", Tls::Off), Err((64, text.to_owned())));
    }

    #[test]
    fn addresses_of_control_channels() {
        let open = Exposure {
            is_insecure: false,
            has_users: false,
        };
        let is_good = |text: &str| {
            let addr = text.parse().expect("an address");
            open.check_control("--fabric", &addr, Tls::None).is_ok()
        };
        assert!(is_good("shm:x") && is_good("rdma://127.0.0.1:1") && is_good("tcp://localhost:1"));
        assert!(!is_good("rdma://10.0.0.1:1") && !is_good("tcp://[::]:1"));
    }
}
