//! [`ControlAddr`]: the address of a server's control channel, as people write it.
//!
//! | text | carrier |
//! |---|---|
//! | `shm:NAME` | the Unix socket `NAME.sock` in the [runtime directory](super::runtime_dir()) |
//! | `shm:/path.sock`, `unix:/path.sock` | that Unix socket |
//! | `tcp://host:port`, `rdma://host:port?device=..&gid=..` | TCP (IPv6 addresses in brackets) |
//!
//! The scheme selects the fabric of the data path; both Unix schemes carry descriptors.

use super::auth::Credentials;
use super::runtime_dir::runtime_dir;
use drover_tls::TlsConnector;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

/// Longest path of a Unix socket, bytes, without the final zero.
const PATH_BYTES_MAX: usize = 107;
/// Longest `NAME`, bytes.
const NAME_BYTES_MAX: usize = 48;

/// The part of a control address before the colon: kind of socket and fabric of the data path.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scheme {
    /// `shm:`: shared memory; the control channel is a Unix socket, given by its name in the [runtime
    /// directory](super::runtime_dir()) or by its path.
    Shm,
    /// `unix:`: as [`Shm`](Scheme::Shm), but the socket is always given by its path.
    Unix,
    /// `tcp:`: a TCP socket; it selects no fabric, so drover's clients use it for statistics only.
    Tcp,
    /// `rdma:`: an RDMA device; the control channel is a TCP socket.
    Rdma,
}

impl Scheme {
    /// Name as written in addresses, such as `shm`.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Shm => "shm",
            Scheme::Unix => "unix",
            Scheme::Tcp => "tcp",
            Scheme::Rdma => "rdma",
        }
    }
}

/// Location of the socket of a control channel.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Endpoint {
    /// Path of a Unix socket.
    Path(PathBuf),
    /// Host and port of a TCP socket.
    HostPort {
        /// Host name or address; IPv6 without brackets.
        host: String,
        /// TCP port.
        port: u16,
    },
}

/// Address of a server's control channel: scheme, socket and options, and perhaps whom to connect as and whom to trust,
/// which no text shows. It displays as the text that was parsed; if a method built it, as a text that parses to it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ControlAddr {
    scheme: Scheme,
    place: Endpoint,
    options: Vec<(String, String)>,
    text: String,
    credentials: Option<Arc<Credentials>>,
    tls: Option<Arc<TlsConnector>>,
}

/// Errors of parsing an address.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddrError {
    /// The address does not begin with a known scheme.
    #[error("{text}: an address begins with shm:, unix:, tcp:// or rdma://")]
    Scheme {
        /// The address as written.
        text: String,
    },
    /// The `NAME` of `shm:NAME` is empty, too long, begins with a dot or has other characters than the allowed ones.
    #[error(
        "{text}: a name has 1 to {NAME_BYTES_MAX} letters, digits, '-', '_' or '.', and does not begin with '.'"
    )]
    Name {
        /// The address as written.
        text: String,
    },
    /// The path of the socket is relative, too long or contains a zero byte.
    #[error("{text}: a socket path is absolute and at most {PATH_BYTES_MAX} bytes long (this is {bytes})")]
    Path {
        /// The address as written.
        text: String,
        /// Length of the path in bytes.
        bytes: usize,
    },
    /// The host or the port is missing or malformed.
    #[error("{text}: expected host:port, with IPv6 addresses in brackets")]
    HostPort {
        /// The address as written.
        text: String,
    },
    /// Options are not of the form `key=value`.
    #[error("{text}: options are written ?key=value&key=value")]
    Options {
        /// The address as written.
        text: String,
    },
}

impl ControlAddr {
    /// Parses an address; `shm:NAME` means the socket `NAME.sock` in `dir`. [`FromStr`] uses the [runtime
    /// directory](super::runtime_dir()).
    ///
    /// # Errors
    /// [`AddrError`] for the first fault found.
    pub fn parse_in(text: &str, dir: &Path) -> Result<ControlAddr, AddrError> {
        let owned = || text.to_owned();
        let no_scheme = || AddrError::Scheme { text: owned() };
        let (scheme, rest) = text.split_once(':').ok_or_else(no_scheme)?;
        let (scheme, place, options) = match scheme {
            "shm" if !rest.starts_with('/') => (Scheme::Shm, named(text, rest, dir)?, Vec::new()),
            "shm" => (Scheme::Shm, path(text, PathBuf::from(rest))?, Vec::new()),
            "unix" => (Scheme::Unix, path(text, PathBuf::from(rest))?, Vec::new()),
            "tcp" | "rdma" => {
                let rest = rest.strip_prefix("//").ok_or_else(no_scheme)?;
                let (authority, query) = rest.split_once('?').unwrap_or((rest, ""));
                let scheme = if scheme == "tcp" {
                    Scheme::Tcp
                } else {
                    Scheme::Rdma
                };
                (scheme, endpoint(text, authority)?, options(text, query)?)
            }
            _ => return Err(no_scheme()),
        };
        let text = owned();
        Ok(ControlAddr {
            scheme,
            place,
            options,
            text,
            credentials: None,
            tls: None,
        })
    }

    /// Returns the address `tcp://addr`, without options.
    pub fn tcp(addr: std::net::SocketAddr) -> ControlAddr {
        ControlAddr {
            scheme: Scheme::Tcp,
            place: Endpoint::HostPort {
                host: addr.ip().to_string(),
                port: addr.port(),
            },
            options: Vec::new(),
            text: format!("tcp://{addr}"),
            credentials: None,
            tls: None,
        }
    }

    /// Returns this address with host and port replaced by `endpoint`, for example by the address to which a listener
    /// at port 0 was bound. An address that is a path is returned unchanged.
    pub fn at(&self, endpoint: std::net::SocketAddr) -> ControlAddr {
        let there = ControlAddr {
            scheme: self.scheme,
            options: self.options.clone(),
            credentials: self.credentials.clone(),
            tls: self.tls.clone(),
            ..ControlAddr::tcp(endpoint)
        };
        match self.place {
            Endpoint::HostPort { .. } => there.spelled(&endpoint.to_string()),
            Endpoint::Path(_) => self.clone(),
        }
    }

    /// Returns this address with option `key=value`, which replaces an earlier value of `key`. An address that is a
    /// path has no options and is returned unchanged.
    pub fn with_option(&self, key: &str, value: &str) -> ControlAddr {
        let Endpoint::HostPort { .. } = self.place else {
            return self.clone();
        };
        let mut addr = self.clone();
        addr.options.retain(|(k, _)| k != key);
        addr.options.push((key.to_owned(), value.to_owned()));
        let rest = self.text.split_once("://").map_or("", |(_, rest)| rest);
        let authority = rest.split_once('?').map_or(rest, |(authority, _)| authority);
        addr.spelled(authority)
    }

    /// Sets the text according to the other fields.
    fn spelled(mut self, authority: &str) -> ControlAddr {
        let query: Vec<String> = self.options.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let mark = if query.is_empty() { "" } else { "?" };
        self.text = format!("{}://{authority}{mark}{}", self.scheme.name(), query.join("&"));
        self
    }

    /// Returns this address with the user to connect as; `None`: nobody in particular.
    pub fn with_credentials(mut self, credentials: Option<Arc<Credentials>>) -> ControlAddr {
        self.credentials = credentials;
        self
    }

    /// The user to connect as, where a server lets in its users only.
    pub fn credentials(&self) -> Option<&Arc<Credentials>> {
        self.credentials.as_ref()
    }

    /// Returns this address with TLS, whose sessions `tls` makes; `None`: without TLS. Unix sockets never have it.
    pub fn with_tls(mut self, tls: Option<Arc<TlsConnector>>) -> ControlAddr {
        self.tls = tls;
        self
    }

    /// What makes the TLS sessions of clients; `None` if the control channel is plain.
    pub fn tls(&self) -> Option<&Arc<TlsConnector>> {
        self.tls.as_ref().filter(|_| !self.carries_fds())
    }

    /// Scheme, which selects the fabric of the data path.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Location of the control channel's socket.
    pub fn place(&self) -> &Endpoint {
        &self.place
    }

    /// The value of option `key`, written `?key=value`; the first one if there are several, `None` if there is none. An
    /// address that is a path has no options: there `?` belongs to the path.
    pub fn option(&self, key: &str) -> Option<&str> {
        self.options
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, value)| value.as_str())
    }

    /// The keys of all options, in the order written.
    pub fn option_keys(&self) -> impl Iterator<Item = &str> {
        self.options.iter().map(|(key, _)| key.as_str())
    }

    /// Whether file descriptors can be sent over the control channel: over Unix sockets, not over TCP.
    pub fn carries_fds(&self) -> bool {
        matches!(self.place, Endpoint::Path(_))
    }
}

fn named(text: &str, name: &str, dir: &Path) -> Result<Endpoint, AddrError> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let length = 1..=NAME_BYTES_MAX;
    if !length.contains(&name.len()) || name.starts_with('.') || !name.chars().all(good) {
        return Err(AddrError::Name {
            text: text.to_owned(),
        });
    }
    path(text, dir.join(format!("{name}.sock")))
}

fn path(text: &str, path: PathBuf) -> Result<Endpoint, AddrError> {
    let bytes = path.as_os_str().len();
    if !path.is_absolute() || bytes > PATH_BYTES_MAX || text.contains('\0') {
        let text = text.to_owned();
        return Err(AddrError::Path { text, bytes });
    }
    Ok(Endpoint::Path(path))
}

fn endpoint(text: &str, authority: &str) -> Result<Endpoint, AddrError> {
    let bad = || AddrError::HostPort {
        text: text.to_owned(),
    };
    let (host, port) = authority.rsplit_once(':').ok_or_else(bad)?;
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    let host = match bare {
        Some(v6) => v6.parse::<std::net::Ipv6Addr>().map_err(|_| bad())?.to_string(),
        None if host.is_empty() || host.contains([':', '[', ']', '/', '@', ' ', '\0']) => return Err(bad()),
        None => host.to_owned(),
    };
    // `u16::from_str` also takes a sign.
    if !port.bytes().all(|b| b.is_ascii_digit()) {
        return Err(bad());
    }
    let port = port.parse().map_err(|_| bad())?;
    Ok(Endpoint::HostPort { host, port })
}

fn options(text: &str, query: &str) -> Result<Vec<(String, String)>, AddrError> {
    let bad = || AddrError::Options {
        text: text.to_owned(),
    };
    let pair = |part: &str| match part.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(bad()),
    };
    query
        .split('&')
        .filter(|part| !part.is_empty())
        .map(pair)
        .collect()
}

impl FromStr for ControlAddr {
    type Err = AddrError;
    fn from_str(text: &str) -> Result<ControlAddr, AddrError> {
        ControlAddr::parse_in(text, &runtime_dir())
    }
}

impl fmt::Display for ControlAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ControlAddr, AddrError> {
        ControlAddr::parse_in(text, Path::new("/run/drover"))
    }

    #[test]
    fn paths() {
        for (text, scheme, path) in [
            ("shm:bench", Scheme::Shm, "/run/drover/bench.sock"),
            ("shm:a.b-c_9", Scheme::Shm, "/run/drover/a.b-c_9.sock"),
            ("shm:/run/x.sock", Scheme::Shm, "/run/x.sock"),
            ("unix:/run/with space", Scheme::Unix, "/run/with space"),
        ] {
            let addr = parse(text).expect(text);
            assert_eq!(addr.scheme(), scheme, "{text}");
            assert_eq!(addr.place(), &Endpoint::Path(PathBuf::from(path)), "{text}");
            assert_eq!(addr.to_string(), text);
            assert!(addr.carries_fds());
        }
    }

    #[test]
    fn hosts() {
        for (text, scheme, host, port) in [
            ("tcp://localhost:7", Scheme::Tcp, "localhost", 7),
            ("tcp://127.0.0.1:65535", Scheme::Tcp, "127.0.0.1", 65535),
            ("tcp://[::1]:80", Scheme::Tcp, "::1", 80),
            (
                "rdma://node7:7471?device=mlx5_0&gid=3",
                Scheme::Rdma,
                "node7",
                7471,
            ),
        ] {
            let addr = parse(text).expect(text);
            let place = Endpoint::HostPort {
                host: host.to_owned(),
                port,
            };
            assert_eq!((addr.scheme(), addr.place()), (scheme, &place), "{text}");
            assert_eq!(addr.to_string(), text);
            assert!(!addr.carries_fds());
        }
        let rdma = parse("rdma://node7:7471?device=mlx5_0&gid=3").expect("address");
        assert_eq!(
            (rdma.option("device"), rdma.option("gid")),
            (Some("mlx5_0"), Some("3"))
        );
        assert_eq!(rdma.option("port"), None);
        assert_eq!(rdma.option_keys().collect::<Vec<_>>(), ["device", "gid"]);
    }

    #[test]
    fn an_address_moves_to_the_endpoint_that_was_bound() {
        let endpoint = "[::1]:99".parse().expect("an endpoint");
        for (text, moved) in [
            ("tcp://localhost:0", "tcp://[::1]:99"),
            (
                "rdma://h:0?device=rxe0&gid=1",
                "rdma://[::1]:99?device=rxe0&gid=1",
            ),
            ("unix:/a.sock", "unix:/a.sock"),
        ] {
            let there = parse(text).expect(text).at(endpoint);
            assert_eq!(there.to_string(), moved);
            assert_eq!(there, parse(moved).expect(moved), "what it prints means the same");
        }
    }

    #[test]
    fn an_option_is_added_or_replaced() {
        for (text, with) in [
            ("rdma://[::1]:7", "rdma://[::1]:7?gid=2"),
            ("rdma://h:7?gid=1&device=x", "rdma://h:7?device=x&gid=2"),
            ("unix:/a.sock", "unix:/a.sock"),
        ] {
            let addr = parse(text).expect(text).with_option("gid", "2");
            assert_eq!(addr.to_string(), with);
            assert_eq!(addr, parse(with).expect(with), "what it prints means the same");
        }
    }

    #[test]
    fn refused() {
        let long_name = format!("shm:{}", "n".repeat(NAME_BYTES_MAX + 1));
        let long_path = format!("unix:/{}", "p".repeat(PATH_BYTES_MAX));
        for text in [
            "",
            "bench",
            "http://x:1",
            "shm:",
            "shm:.hidden",
            "shm:a/b",
            "shm:../x",
            "shm:a b",
            "shm:\u{e9}",
            &long_name,
            "unix:",
            "unix:relative",
            &long_path,
            "unix:/nul\0",
            "tcp:localhost:1",
            "tcp://",
            "tcp://host",
            "tcp://host:",
            "tcp://:1",
            "tcp://host:65536",
            "tcp://host:+1",
            "tcp://::1:80",
            "tcp://[::1]",
            "tcp://[host]:1",
            "tcp://a/b:1",
            "rdma://h:1?gid",
            "rdma://h:1?=3",
        ] {
            assert!(parse(text).is_err(), "{text:?} was accepted");
        }
    }
}
