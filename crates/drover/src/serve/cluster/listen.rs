//! The port at which other members reach this one.

use crate::advice;
use crate::cluster::Advertised;
use crate::exit::{self, Failure};
use crate::serve::settings::Settings;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};

/// The bound port, and what others know of it.
pub struct MemberPort {
    pub listener: TcpListener,
    pub advertised: Advertised,
}

/// Binds the port of `--advertise`; `None`: the server is no member.
///
/// # Errors
/// It is in use, or cannot be bound.
pub fn listen(settings: &Settings) -> Result<Option<MemberPort>, Failure> {
    let Some(advertised) = settings.cluster.advertise.as_ref() else {
        return Ok(None);
    };
    let listener = bind(advertised).map_err(|error| {
        let code = match error.kind() {
            ErrorKind::PermissionDenied => exit::NO_PERMISSION,
            _ => exit::UNAVAILABLE,
        };
        Failure::new(code, advice::of_address("--advertise", advertised, &error))
    })?;
    let advertised = advertised.clone();
    Ok(Some(MemberPort { listener, advertised }))
}

/// Listens at the host, if it is this machine's, else (it may be that of a gateway between networks) at all addresses.
fn bind(advertised: &Advertised) -> io::Result<TcpListener> {
    let port = advertised.port;
    let found = (advertised.host.as_str(), port).to_socket_addrs();
    let found: Vec<SocketAddr> = found.map_or_else(|_| Vec::new(), Iterator::collect);
    for addr in &found {
        match TcpListener::bind(addr) {
            Err(error) if error.kind() == ErrorKind::AddrNotAvailable => {}
            bound => return bound,
        }
    }
    let only_v6 = !found.is_empty() && found.iter().all(SocketAddr::is_ipv6);
    let any: IpAddr = match only_v6 {
        true => Ipv6Addr::UNSPECIFIED.into(),
        false => Ipv4Addr::UNSPECIFIED.into(),
    };
    TcpListener::bind((any, port))
}
