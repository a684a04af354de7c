//! [`ControlListener`]: binds an address, removes the socket of a dead server, never that of a live one.
//!
//! A server holds a lock on `PATH.lock` while it lives; the system releases the lock with the process. Only the holder
//! of the lock may remove a socket file, so two servers that start at once cannot remove each other's.

use super::access::SocketAccess;
use super::addr::{ControlAddr, Endpoint};
use super::auth::Guard;
use super::frame::refusal;
use super::runtime_dir::{make_private, runtime_dir};
use super::stream::ControlStream;
use drover_rt::WakeFd;
use drover_tls::TlsAcceptor;
use rustix::fs::{FileType, FlockOperation, Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Most connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// Errors of binding an address.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// A live program listens at the address or holds the lock of its socket; or a socket file exists, and connecting
    /// to it does not fail with "connection refused", which alone proves that its server is dead.
    #[error("address in use: another server listens at {addr}")]
    InUse {
        /// Requested address.
        addr: String,
    },
    /// The path is that of a file other than a socket. It is not removed.
    #[error("{path} exists and is not a socket")]
    NotASocket {
        /// Path of the file.
        path: String,
    },
    /// A system call failed.
    #[error("{what} for {addr} failed: {source}")]
    System {
        /// What was attempted, such as "listening".
        what: &'static str,
        /// Requested address.
        addr: String,
        /// Error of the system call.
        source: io::Error,
    },
}

/// Listens for control channels at one address. Dropping it closes the socket and removes the file of a Unix socket and
/// its lock file.
#[derive(Debug)]
pub struct ControlListener {
    addr: ControlAddr,
    /// The address, as log lines show it.
    shown: Arc<str>,
    kind: Kind,
    spare: Spare,
    guard: Option<Arc<Guard>>,
    tls: Option<Arc<TlsAcceptor>>,
}

#[derive(Debug)]
enum Kind {
    Unix {
        listener: UnixListener,
        file: SocketFile,
    },
    Tcp(TcpListener),
}

impl ControlListener {
    fn new(addr: ControlAddr, kind: Kind) -> ControlListener {
        ControlListener {
            shown: addr.to_string().into(),
            addr,
            kind,
            spare: Spare::new(),
            guard: None,
            tls: None,
        }
    }

    /// Listens at `addr`. Port 0 means any free port: see [`addr`](ControlListener::addr). If the host has several
    /// addresses, it listens at the first that can be bound. A Unix socket replaces that of a dead server, and only
    /// this user (and root) can connect to it.
    ///
    /// # Errors
    /// [`ListenError`] if the address is in use, its path is a file other than a socket, or a system call fails.
    pub fn bind(addr: &ControlAddr) -> Result<ControlListener, ListenError> {
        ControlListener::bind_for(addr, &SocketAccess::default())
    }

    /// As [`bind`](ControlListener::bind); `access` says who may connect to a Unix socket.
    ///
    /// # Errors
    /// As [`bind`](ControlListener::bind); also if the socket cannot be given to that group.
    pub fn bind_for(addr: &ControlAddr, access: &SocketAccess) -> Result<ControlListener, ListenError> {
        match addr.place() {
            Endpoint::Path(path) => bind_unix(addr, path, access),
            Endpoint::HostPort { host, port } => bind_tcp(addr, host, *port),
        }
    }

    /// Lets in only clients that satisfy `guard`, if there is one.
    pub fn guarded(mut self, guard: Option<Arc<Guard>>) -> ControlListener {
        self.guard = guard;
        self
    }

    /// Speaks TLS with clients that come by TCP, if there is an `acceptor`; Unix sockets stay plain, because their files'
    /// rights say who may connect.
    pub fn with_tls(mut self, acceptor: Option<Arc<TlsAcceptor>>) -> ControlListener {
        self.tls = acceptor.filter(|_| matches!(self.kind, Kind::Tcp(_)));
        self
    }

    /// What makes the TLS sessions of its channels; `None` if they are plain.
    pub fn tls(&self) -> Option<&Arc<TlsAcceptor>> {
        self.tls.as_ref()
    }

    /// Address at which it listens: the requested one; if its port was 0, with the IP address and port that were bound.
    pub fn addr(&self) -> &ControlAddr {
        &self.addr
    }

    /// Accepts a waiting connection. Never blocks. `None` if none waits, if the connection had already ended, or if
    /// this process is out of descriptors: then the connection is refused with
    /// [`TOO_MANY_CONNECTIONS`](refusal::TOO_MANY_CONNECTIONS). In the last two cases others may still wait.
    ///
    /// # Errors
    /// The system's `accept` fails.
    pub fn accept(&self) -> io::Result<Option<ControlStream>> {
        let accepted = match self.accept_one() {
            Err(error) if is_out_of_descriptors(&error) => self.spare.lend(|| self.refuse_one()),
            other => other.map(Some),
        };
        match accepted {
            Ok(stream) => Ok(stream.map(|mut stream| {
                if let Some(guard) = &self.guard {
                    stream.guard(guard);
                }
                stream
            })),
            // A connection that ended before it was accepted is no error.
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {
                    Ok(None)
                }
                _ => Err(error),
            },
        }
    }

    fn accept_one(&self) -> io::Result<ControlStream> {
        let mut stream = match &self.kind {
            Kind::Unix { listener, .. } => ControlStream::from_unix(listener.accept()?.0)?,
            Kind::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                match &self.tls {
                    None => ControlStream::from_tcp(stream)?,
                    Some(tls) => ControlStream::from_tls(stream, tls.session().map_err(io::Error::other)?)?,
                }
            }
        };
        stream.came_in_at(Some(&self.shown));
        Ok(stream)
    }

    fn refuse_one(&self) -> io::Result<Option<ControlStream>> {
        let reason = "the server has too many open files (raise its limit: ulimit -n)";
        self.accept_one()?.refuse(refusal::TOO_MANY_CONNECTIONS, reason);
        Ok(None)
    }

    /// Descriptor to `poll` for reading: readable while a connection waits.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match &self.kind {
            Kind::Unix { listener, .. } => listener.as_fd(),
            Kind::Tcp(listener) => listener.as_fd(),
        }
    }
}

impl Drop for ControlListener {
    fn drop(&mut self) {
        if let Kind::Unix { file, .. } = &self.kind {
            file.remove();
        }
    }
}

/// A reserved descriptor, released when there are no others.
#[derive(Debug)]
struct Spare(Mutex<Option<WakeFd>>);

impl Spare {
    fn new() -> Spare {
        Spare(Mutex::new(WakeFd::new().ok()))
    }

    /// Calls `with` while the spare descriptor is closed.
    fn lend<T>(&self, with: impl FnOnce() -> T) -> T {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(spare.take());
        let result = with();
        *spare = WakeFd::new().ok();
        result
    }
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

fn bind_tcp(addr: &ControlAddr, host: &str, port: u16) -> Result<ControlListener, ListenError> {
    let bound = TcpListener::bind((host, port)).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok((listener.local_addr()?, listener))
    });
    match bound {
        Ok((local, listener)) => {
            let addr = if port == 0 { addr.at(local) } else { addr.clone() };
            Ok(ControlListener::new(addr, Kind::Tcp(listener)))
        }
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(ListenError::InUse {
            addr: addr.to_string(),
        }),
        Err(source) => Err(system("listening", addr)(source)),
    }
}

fn bind_unix(addr: &ControlAddr, path: &Path, access: &SocketAccess) -> Result<ControlListener, ListenError> {
    let dir = runtime_dir();
    if path.parent() == Some(&dir) {
        make_private(&dir).map_err(system("preparing the runtime directory", addr))?;
    }
    let file = SocketFile::lock(path).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => ListenError::InUse {
            addr: addr.to_string(),
        },
        _ => system("creating a lock file beside the socket", addr)(error),
    })?;
    remove_stale(addr, path)?;
    let listener = listen(path, access).map_err(system("listening", addr))?;
    Ok(ControlListener::new(addr.clone(), Kind::Unix { listener, file }))
}

/// Removes the socket of a dead server. We hold the lock, so only a program that does not use the lock could be alive.
fn remove_stale(addr: &ControlAddr, path: &Path) -> Result<(), ListenError> {
    let stat = match rustix::fs::lstat(path) {
        Ok(stat) => stat,
        Err(rustix::io::Errno::NOENT) => return Ok(()),
        Err(error) => return Err(system("looking at the socket", addr)(error.into())),
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
        let path = path.display().to_string();
        return Err(ListenError::NotASocket { path });
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let probe = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .and_then(|socket| rustix::net::connect(&socket, &SocketAddrUnix::new(path)?));
    if is_alive(probe).map_err(system("probing the socket", addr))? {
        return Err(ListenError::InUse {
            addr: addr.to_string(),
        });
    }
    std::fs::remove_file(path).map_err(system("removing the socket of a dead server", addr))
}

/// Whether the result of connecting to a socket shows that a program owns it. `AGAIN`: its backlog is full; `PROTOTYPE`:
/// it is not a stream.
///
/// # Errors
/// Those that show nothing, such as `ACCESS`.
fn is_alive(probe: rustix::io::Result<()>) -> io::Result<bool> {
    use rustix::io::Errno;
    match probe {
        Ok(()) | Err(Errno::AGAIN | Errno::INPROGRESS | Errno::PROTOTYPE) => Ok(true),
        Err(Errno::CONNREFUSED) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Binds, restricts access, and only then listens: other users cannot connect in between.
fn listen(path: &Path, access: &SocketAccess) -> io::Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    access.apply(path)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

fn system(what: &'static str, addr: &ControlAddr) -> impl FnOnce(io::Error) -> ListenError {
    let addr = addr.to_string();
    move |source| ListenError::System { what, addr, source }
}

/// Ownership of the socket file at `path`, by its lock.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    lock_path: PathBuf,
    _lock: OwnedFd,
}

impl SocketFile {
    /// Takes the lock.
    ///
    /// # Errors
    /// `WouldBlock` if a live process holds it.
    fn lock(path: &Path) -> io::Result<SocketFile> {
        let mut lock_path = path.as_os_str().to_owned();
        lock_path.push(".lock");
        let lock_path = PathBuf::from(lock_path);
        loop {
            let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let lock = rustix::fs::open(&lock_path, flags, Mode::RUSR | Mode::WUSR)?;
            rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
            // Its last owner may have removed the file between our open and our lock.
            let (ours, there) = (rustix::fs::fstat(&lock)?, rustix::fs::lstat(&lock_path));
            if there.is_ok_and(|there| (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)) {
                return Ok(SocketFile {
                    path: path.to_owned(),
                    lock_path,
                    _lock: lock,
                });
            }
        }
    }

    fn remove(&self) {
        // A file left behind would look like that of a dead server.
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_file(&self.lock_path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn only_what_shows_a_program_counts_as_in_use() {
        for alive in [Ok(()), Err(Errno::AGAIN), Err(Errno::PROTOTYPE)] {
            assert!(is_alive(alive).expect("an answer"), "{alive:?}");
        }
        assert!(!is_alive(Err(Errno::CONNREFUSED)).expect("an answer"));
        let denied = is_alive(Err(Errno::ACCESS)).expect_err("no answer");
        assert_eq!(denied.kind(), io::ErrorKind::PermissionDenied);
    }
}
