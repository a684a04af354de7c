//! [`Listener`]: a listening socket.

use rustix::fs::{FileType, Gid, Mode, chmod, chown, lstat, unlink};
use rustix::net::sockopt;
use rustix::net::{AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Tag and kind of the listener that accepted a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin {
    /// Tag of the listener, set by [`Listener::tagged`]; 0 by default.
    pub tag: u32,
    /// True for TCP, false for a Unix socket.
    pub is_tcp: bool,
}

/// Failure to listen at an address.
#[derive(Debug)]
#[non_exhaustive]
pub enum ListenError {
    /// Another socket, probably a live server's, uses the address.
    InUse {
        /// Address that is in use.
        addr: String,
    },
    /// The path is a file other than a socket; we do not remove it.
    NotASocket {
        /// Path of that file.
        path: PathBuf,
    },
    /// The descriptor is not a listening stream socket of TCP or of Unix.
    NotAListener,
    /// A system call failed.
    System {
        /// Name of the call or socket option that failed; `the path` for a path that no Unix socket can have.
        what: &'static str,
        /// The address, or a description of an inherited socket.
        addr: String,
        /// Error that the call returned.
        source: io::Error,
    },
}

impl std::fmt::Display for ListenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ListenError::InUse { addr } => write!(f, "address in use: another server listens at {addr}"),
            ListenError::NotASocket { path } => write!(f, "{} exists and is not a socket", path.display()),
            ListenError::NotAListener => {
                f.write_str("an inherited descriptor is not a listening stream socket")
            }
            ListenError::System { what, addr, source } => write!(f, "{what} for {addr} failed: {source}"),
        }
    }
}

impl std::error::Error for ListenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ListenError::System { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// A listening socket. Dropping it closes the socket and removes the socket file that [`unix`](Listener::unix) created,
/// unless another file has taken its place.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    addr: Arc<Address>,
    tag: u32,
    /// Path, device and inode of the file that we created.
    file: Option<(PathBuf, (u64, u64))>,
}

/// Address of a [`Listener`] or of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// TCP address.
    Tcp(SocketAddr),
    /// Path of a Unix socket; empty if it has no name in the file system (unnamed or abstract).
    Unix(PathBuf),
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Tcp(addr) => addr.fmt(f),
            Address::Unix(path) => path.display().fmt(f),
        }
    }
}

impl Listener {
    /// Listens at a TCP address; port 0 means any free port, which [`address`](Listener::address) returns. An IPv6
    /// address takes no IPv4 connections. `backlog`: maximum number of connections waiting to be accepted; Linux lowers
    /// it to `net.core.somaxconn`.
    ///
    /// # Errors
    /// The address is in use, or a system call failed.
    pub fn tcp(addr: SocketAddr, backlog: i32) -> Result<Listener, ListenError> {
        let system = |what| system(what, addr.to_string());
        let family = if addr.is_ipv6() {
            AddressFamily::INET6
        } else {
            AddressFamily::INET
        };
        let fd = socket(family).map_err(system("socket"))?;
        // A restarted server may take its address while old connections linger.
        sockopt::set_socket_reuseaddr(&fd, true).map_err(system("SO_REUSEADDR"))?;
        if addr.is_ipv6() {
            // Otherwise 0.0.0.0 and :: could not be used together.
            sockopt::set_ipv6_v6only(&fd, true).map_err(system("IPV6_V6ONLY"))?;
        }
        rustix::net::bind(&fd, &addr).map_err(|errno| in_use_or(errno, "bind", addr.to_string()))?;
        rustix::net::listen(&fd, backlog).map_err(|errno| in_use_or(errno, "listen", addr.to_string()))?;
        Listener::of(fd)
    }

    /// Listens on a Unix socket at `path`, whose file gets the mode `mode` (0o700: only the owner) and the group `group`
    /// (`None`: that of the process). Replaces the socket file of a dead server. `backlog`: as for
    /// [`tcp`](Listener::tcp).
    ///
    /// # Errors
    /// A live server uses the path (or the attempt to connect to it does not show that it is dead), the path is a file
    /// other than a socket, or a system call failed.
    pub fn unix(
        path: &Path,
        (mode, group): (u32, Option<u32>),
        backlog: i32,
    ) -> Result<Listener, ListenError> {
        let shown = path.display().to_string();
        let system = |what| system(what, shown.clone());
        clear_stale(path)?;
        let fd = socket(AddressFamily::UNIX).map_err(system("socket"))?;
        let addr = SocketAddrUnix::new(path).map_err(system("the path"))?;
        rustix::net::bind(&fd, &addr).map_err(|errno| in_use_or(errno, "bind", shown.clone()))?;
        // No client can connect before `listen`, so both apply from the start.
        if let Some(group) = group {
            chown(path, None, Some(Gid::from_raw(group))).map_err(system("chown"))?;
        }
        chmod(path, Mode::from_raw_mode(mode)).map_err(system("chmod"))?;
        let made = lstat(path).map_err(system("stat"))?;
        rustix::net::listen(&fd, backlog).map_err(system("listen"))?;
        let mut listener = Listener::of(fd)?;
        listener.file = Some((path.to_path_buf(), (made.st_dev, made.st_ino)));
        Ok(listener)
    }

    /// Takes over a listening socket that another program (a service manager) made, and makes it non-blocking and
    /// close-on-exec. The file of a Unix socket stays when the listener is dropped.
    ///
    /// # Errors
    /// The descriptor is not a listening stream socket of TCP or of Unix, or a system call failed.
    pub fn inherited(fd: OwnedFd) -> Result<Listener, ListenError> {
        let listening = sockopt::socket_acceptconn(&fd).unwrap_or(false);
        if !listening || sockopt::socket_type(&fd) != Ok(SocketType::STREAM) {
            return Err(ListenError::NotAListener);
        }
        let set = |errno: rustix::io::Errno| system("fcntl", "an inherited socket".to_owned())(errno);
        rustix::io::ioctl_fionbio(&fd, true).map_err(set)?;
        rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC).map_err(set)?;
        Listener::of(fd)
    }

    /// Sets the tag in the [`Origin`] of each connection, by which the owner can tell its listeners apart.
    pub fn tagged(mut self, tag: u32) -> Listener {
        self.tag = tag;
        self
    }

    fn of(fd: OwnedFd) -> Result<Listener, ListenError> {
        let name = rustix::net::getsockname(&fd).map_err(system("getsockname", "a listener".to_owned()))?;
        let addr = address_of(&name).ok_or(ListenError::NotAListener)?;
        if matches!(addr, Address::Tcp(_)) {
            // Accepted sockets inherit it. Nagle's algorithm with delayed acknowledgements costs 40 ms a reply.
            let _ = sockopt::set_tcp_nodelay(&fd, true);
            let _ = sockopt::set_socket_keepalive(&fd, true);
        }
        Ok(Listener {
            fd,
            addr: Arc::new(addr),
            tag: 0,
            file: None,
        })
    }

    /// Address that the listener is bound to; for TCP, with the actual port where port 0 was asked for.
    pub fn address(&self) -> &Address {
        &self.addr
    }

    /// [`Origin`] of connections that this listener accepts.
    pub fn origin(&self) -> Origin {
        Origin {
            tag: self.tag,
            is_tcp: matches!(*self.addr, Address::Tcp(_)),
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Accepts the next waiting connection.
    pub(crate) fn accept(&self) -> rustix::io::Result<(OwnedFd, Option<Address>)> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (socket, peer) = rustix::net::acceptfrom_with(&self.fd, flags)?;
        Ok((socket, peer.and_then(|peer| address_of(&peer))))
    }

    pub(crate) fn shared_address(&self) -> Arc<Address> {
        self.addr.clone()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some((path, made)) = &self.file
            && lstat(path).is_ok_and(|there| (there.st_dev, there.st_ino) == *made)
        {
            let _ = unlink(path);
        }
    }
}

fn socket(family: AddressFamily) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    rustix::net::socket_with(family, SocketType::STREAM, flags, None)
}

/// Removes the socket file of a dead server.
fn clear_stale(path: &Path) -> Result<(), ListenError> {
    let Ok(there) = lstat(path) else { return Ok(()) };
    if FileType::from_raw_mode(there.st_mode) != FileType::Socket {
        return Err(ListenError::NotASocket {
            path: path.to_path_buf(),
        });
    }
    let probe = || rustix::net::connect(socket(AddressFamily::UNIX)?, &SocketAddrUnix::new(path)?);
    match probe() {
        Err(rustix::io::Errno::CONNREFUSED) => {
            let _ = unlink(path); // if it cannot be removed, `bind` says why
            Ok(())
        }
        Err(rustix::io::Errno::NOENT) => Ok(()),
        // Connected, or alive and too busy to accept.
        _ => Err(ListenError::InUse {
            addr: path.display().to_string(),
        }),
    }
}

/// Converts a socket name to an [`Address`].
pub(crate) fn address_of(name: &SocketAddrAny) -> Option<Address> {
    if let Ok(addr) = SocketAddr::try_from(name.clone()) {
        return Some(Address::Tcp(addr));
    }
    let addr = SocketAddrUnix::try_from(name.clone()).ok()?;
    let path = addr.path_bytes().unwrap_or_default();
    Some(Address::Unix(PathBuf::from(
        String::from_utf8_lossy(path).as_ref(),
    )))
}

fn system(what: &'static str, addr: String) -> impl FnOnce(rustix::io::Errno) -> ListenError {
    move |errno| ListenError::System {
        what,
        addr,
        source: errno.into(),
    }
}

fn in_use_or(errno: rustix::io::Errno, what: &'static str, addr: String) -> ListenError {
    match errno {
        rustix::io::Errno::ADDRINUSE => ListenError::InUse { addr },
        errno => system(what, addr)(errno),
    }
}
