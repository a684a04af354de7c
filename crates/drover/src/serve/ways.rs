//! Listeners of a server for memcached clients: TCP, a Unix socket.

use super::listen;
use super::settings::{Origin, Settings, split_plain};
use crate::advice;
use crate::exit::{self, Failure};
use crate::exposure::Tls;
use drover_net::{Address, ListenError, Listener};
use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;

/// Environment variable that names a file for the bound ports, as with memcached: for tests that use any free port (`-p
/// -1`).
const PORT_FILE: &str = "MEMCACHED_PORT_FILENAME";

/// Listens for memcached clients and returns the `inherited` listeners and its own: the Unix socket of `-s`, if given,
/// and the TCP addresses of `-l`. It opens no TCP address if the port is 0. If there are inherited listeners and no port
/// was given, it opens only addresses that have their own port. If the environment has `MEMCACHED_PORT_FILENAME`, it writes the bound TCP ports to that file.
///
/// # Errors
/// An address is malformed, in use or cannot be bound, or the file cannot be written.
pub fn open_all(settings: &Settings, inherited: Vec<Listener>) -> Result<Vec<Listener>, Failure> {
    let backlog = settings.sockets.backlog.value.min(i32::MAX as u32) as i32;
    let own_ports_only = !inherited.is_empty() && settings.sockets.port.origin == Origin::Default;
    let (exposure, has_tls) = (listen::exposure(settings), settings.ops.tls.value.is_some());
    for listener in &inherited {
        if let Address::Tcp(addr) = listener.address() {
            let tls = if has_tls { Tls::On } else { Tls::Off };
            exposure.check("socket of the service manager", &addr, addr.ip(), tls)?;
        }
    }
    let mut listeners = inherited;
    if let Some(path) = &settings.sockets.unix_socket.value {
        let access = settings.sockets.access()?;
        let listener = Listener::unix(path, (access.mode, access.group), backlog);
        let named: (_, &dyn Display) = ("-s", &path.display());
        listeners.push(listener.map_err(|error| failure(settings, named, &error))?);
    }
    for (addr, tag) in tcp_addresses(settings, own_ports_only)? {
        let tls = match (has_tls, tag) {
            (true, PLAIN) => Tls::None,
            (true, _) => Tls::On,
            (false, _) => Tls::Off,
        };
        exposure.check("-l", &addr, addr.ip(), tls)?;
        let listener =
            Listener::tcp(addr, backlog).map_err(|error| failure(settings, ("-l", &addr), &error))?;
        listeners.push(listener.tagged(tag));
    }
    if let Some(path) = std::env::var_os(PORT_FILE) {
        write_ports(Path::new(&path), &listeners).map_err(|error| {
            let text = advice::of_file(PORT_FILE, Path::new(&path), &error);
            Failure::new(exit::OS_ERROR, text)
        })?;
    }
    Ok(listeners)
}

/// The addresses of `listeners`, as the log says them.
pub fn addresses(listeners: &[Listener]) -> Vec<String> {
    let addresses = listeners.iter().map(Listener::address);
    addresses.map(|address| format!("memcached {address}")).collect()
}

/// Tag of listeners whose connections never use TLS, even with `-Z`: addresses with the prefix `notls:`.
pub const PLAIN: u32 = 1;

/// The addresses of `-l` and their tags; `-p` is the default port, unless addresses without their own are left out.
fn tcp_addresses(settings: &Settings, own_ports_only: bool) -> Result<Vec<(SocketAddr, u32)>, Failure> {
    let port = match settings.sockets.port.value {
        0 => return Ok(Vec::new()),
        -1 => 0,
        port => port as u16,
    };
    let mut addrs = Vec::new();
    for text in &settings.sockets.listen.value {
        let bad = |why: &str| Failure::new(exit::USAGE, format!("-l {text}: {why}"));
        let (addr, tag) = match split_plain(text) {
            ("", addr) => (addr, 0),
            (_, addr) => (addr, PLAIN),
        };
        let (host, own_port) =
            host_and_port(addr).ok_or_else(|| bad("expected an address, or address:port"))?;
        let port = match own_port {
            Some(own) => own,
            None if own_ports_only => continue,
            None => port,
        };
        let found = (host, port).to_socket_addrs();
        let found: Vec<SocketAddr> = found.map_or(Vec::new(), Iterator::collect);
        if found.is_empty() {
            return Err(bad(
                "no such host: name an address of this machine (`ip address` shows them)",
            ));
        }
        addrs.extend(found.into_iter().map(|addr| (addr, tag)));
    }
    addrs.dedup();
    Ok(addrs)
}

/// Parses `host`, `host:port`, `IPv6`, `[IPv6]` or `[IPv6]:port`.
fn host_and_port(text: &str) -> Option<(&str, Option<u16>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, after) = rest.split_once(']')?;
        return match after {
            "" => Some((host, None)),
            _ => Some((host, Some(after.strip_prefix(':')?.parse().ok()?))),
        };
    }
    match text.split_once(':') {
        Some((_, rest)) if rest.contains(':') => Some((text, None)),
        Some((host, own)) => Some((host, Some(own.parse().ok()?))),
        None if text.is_empty() => None,
        None => Some((text, None)),
    }
}

/// Writes under another name and renames, so that no reader sees half the file.
fn write_ports(path: &Path, listeners: &[Listener]) -> std::io::Result<()> {
    let mut half = path.as_os_str().to_owned();
    half.push(".lck");
    let mut file = std::fs::File::create(&half)?;
    for listener in listeners {
        if let Address::Tcp(addr) = listener.address() {
            let family = if addr.is_ipv6() { "INET6" } else { "INET" };
            writeln!(file, "TCP {family}: {}", addr.port())?;
        }
    }
    std::fs::rename(&half, path)
}

/// Why there is no listener at `address`, which option `flag` names.
fn failure(settings: &Settings, (flag, address): (&str, &dyn Display), error: &ListenError) -> Failure {
    let (code, text) = match error {
        ListenError::InUse { .. } => {
            let step = match settings.sockets.port.origin {
                Origin::Default => "it is memcached's port by default: -p chooses another one, -p 0 none",
                _ => "stop that one, or choose another",
            };
            let text = match flag {
                "-s" => format!("-s {address}: {error}: {step}"),
                _ => format!("-p, or -l {address}: {error}: {step}"),
            };
            (exit::UNAVAILABLE, text)
        }
        ListenError::System { source, .. } => {
            let code = match source.kind() {
                ErrorKind::PermissionDenied => exit::NO_PERMISSION,
                _ => exit::UNAVAILABLE,
            };
            let text = match flag {
                "-s" => advice::of_file(flag, Path::new(&address.to_string()), source),
                _ => advice::of_address(flag, address, source),
            };
            (code, text)
        }
        _ => {
            let step = "remove it, or choose another path";
            (exit::UNAVAILABLE, format!("{flag} {address}: {error}: {step}"))
        }
    };
    Failure::new(code, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::Args;
    use drover_systems::System;

    #[test]
    fn inherited_sockets_take_the_place_of_the_default_port_only() {
        for (listen, own_count) in [("127.0.0.1", 0), ("127.0.0.1:0", 1), ("notls:127.0.0.1:0", 1)] {
            let mut args = Args::default();
            args.sockets.listen = Some(vec![listen.to_owned()]);
            let (settings, _) = Settings::resolve::<System>(&args).expect("settings");
            let inherited = Listener::tcp("127.0.0.1:0".parse().expect("an address"), 1).expect("a listener");
            let all = open_all(&settings, vec![inherited]).expect("listeners");
            assert_eq!(all.len(), 1 + own_count, "{listen}");
        }
    }

    #[test]
    fn addresses_with_and_without_ports() {
        for (text, expected) in [
            ("127.0.0.1", Some(("127.0.0.1", None))),
            ("localhost:7", Some(("localhost", Some(7)))),
            ("::1", Some(("::1", None))),
            ("[::1]", Some(("::1", None))),
            ("[::1]:7", Some(("::1", Some(7)))),
            ("", None),
            ("host:", None),
            ("host:x", None),
            ("[::1", None),
            ("[::1]7", None),
        ] {
            assert_eq!(host_and_port(text), expected, "{text}");
        }
    }
}
