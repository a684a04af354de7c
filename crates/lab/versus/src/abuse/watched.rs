//! [`Watched`]: the server under abuse, seen from outside: its memory, its descriptors, and connections to it.

use super::{failed, patience, until};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, ipproto, socket_with};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Settings of a server and a scenario that limit the server's resident memory, which may be at most the sum of:
///
/// | part | bytes |
/// |---|---|
/// | items and index | 1.25 times `-m` |
/// | program, stacks, allocator overhead | 16 MiB |
/// | each worker | its budgets for slow requests and slow replies, and 4 MiB |
/// | each connection | 3 KiB |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// The server's option `-m`: memory for items, MiB.
    pub memory_mib: u64,
    /// The server's option `-t`: number of workers.
    pub workers: u64,
    /// Sum of a worker's two budgets, for slow requests and for slow replies, MiB: 64, unless `-I` requires more.
    pub budgets_mib: u64,
    /// Maximum number of connections that the scenario has open at a time.
    pub connections: u64,
}

impl Bounds {
    /// Maximum resident memory that the server may have, bytes: the sum of all parts in the table above.
    pub fn bytes(&self) -> u64 {
        let mib = self.memory_mib + self.memory_mib / 4 + 16 + self.workers * (self.budgets_mib + 4);
        (mib << 20) + self.connections * (3 << 10)
    }
}

/// Observer of a running server process that it did not start and does not end: checks its resident memory and its
/// number of open file descriptors, and opens connections to it.
pub struct Watched {
    address: SocketAddr,
    pid: u32,
    bounds: Bounds,
    /// Number of descriptors without clients.
    descriptors: usize,
    /// Maximum memory seen, bytes.
    most: AtomicU64,
    /// Number of connections made, to distribute them over source addresses.
    connected: AtomicU32,
}

/// Connections per source address: far fewer than it has ports.
const PER_SOURCE: u32 = 5000;

impl Watched {
    /// Observes the process `pid`, which must listen at `address`, a port of 127.0.0.1, and have no clients yet. Waits
    /// until its number of open descriptors has stayed the same for about 0.1 s, and keeps that number for
    /// [`settle`](Watched::settle).
    ///
    /// # Errors
    /// If there is no such process, or its descriptors do not become steady.
    pub fn new(address: SocketAddr, pid: u32, bounds: Bounds) -> Result<Watched, String> {
        let watched = Watched {
            address,
            pid,
            bounds,
            descriptors: descriptors(pid)?,
            most: 0.into(),
            connected: 0.into(),
        };
        // Earlier connections that probed the port may not be closed yet.
        let descriptors = watched.steady()?;
        Ok(Watched {
            descriptors,
            ..watched
        })
    }

    /// Waits until the number of descriptors has stayed the same for a while, and returns it.
    fn steady(&self) -> Result<usize, String> {
        let (mut last, mut same) = (0, 0);
        until("its descriptors are steady", || {
            let now = descriptors(self.pid)?;
            same = if now == last { same + 1 } else { 0 };
            last = now;
            Ok(same > 50)
        })?;
        Ok(last)
    }

    /// Opens a blocking connection whose reads and writes fail after the [time limit](super::set_patience) without
    /// progress.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub fn connect(&self) -> Result<TcpStream, String> {
        let nth = self.connected.fetch_add(1, Ordering::Relaxed);
        let source = Ipv4Addr::new(127, 0, 1 + (nth / PER_SOURCE % 200) as u8, 1);
        let stream = open(source, self.address).map_err(failed("connecting"))?;
        stream.set_nodelay(true).map_err(failed("TCP_NODELAY"))?;
        stream
            .set_read_timeout(Some(patience()))
            .map_err(failed("SO_RCVTIMEO"))?;
        stream
            .set_write_timeout(Some(patience()))
            .map_err(failed("SO_SNDTIMEO"))?;
        Ok(stream)
    }

    /// Opens a non-blocking connection with a minimal receive buffer.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub fn connect_narrow(&self) -> Result<TcpStream, String> {
        let stream = self.connect_nonblocking()?;
        set_socket_recv_buffer_size(&stream, 4096).map_err(|error| format!("SO_RCVBUF: {error}"))?;
        Ok(stream)
    }

    /// Opens a non-blocking connection.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub fn connect_nonblocking(&self) -> Result<TcpStream, String> {
        let stream = self.connect()?;
        stream.set_nonblocking(true).map_err(failed("O_NONBLOCK"))?;
        Ok(stream)
    }

    /// Address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Bytes of memory that the server has for items: [`Bounds::memory_mib`] in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.bounds.memory_mib << 20
    }

    /// Checks that the server's resident memory is within [`Bounds::bytes`].
    ///
    /// # Errors
    /// If it is not, or the process has ended.
    pub fn check_memory(&self) -> Result<(), String> {
        let (now, bound) = (resident_bytes(self.pid)?, self.bounds.bytes());
        self.most.fetch_max(now, Ordering::Relaxed);
        if now > bound {
            return Err(format!(
                "its memory is {} MiB, beyond {} MiB",
                now >> 20,
                bound >> 20
            ));
        }
        Ok(())
    }

    /// Checks that the memory is within the bound, and waits until the server has as many open descriptors as when
    /// [`new`](Watched::new) returned. To be called when all clients have closed their connections. The error text
    /// begins with `when`.
    ///
    /// # Errors
    /// If the memory exceeds the bound, the number of descriptors still differs after the
    /// [time limit](super::set_patience), or the process has ended.
    pub fn settle(&self, when: &str) -> Result<(), String> {
        self.check_memory()?;
        let mut now = 0;
        until("descriptors", || {
            now = descriptors(self.pid)?;
            Ok(now == self.descriptors)
        })
        .map_err(|_| format!("{when}, it has {now} descriptors, not {}", self.descriptors))
    }

    /// Stops the server process (SIGSTOP) and never continues it, so that it serves no client any more: a mistake
    /// planted to test the checks.
    ///
    /// # Errors
    /// If the signal cannot be sent.
    pub fn stop(&self) -> Result<(), String> {
        let pid = Pid::from_raw(self.pid.cast_signed()).ok_or("no process is 0")?;
        kill_process(pid, Signal::STOP).map_err(|error| format!("SIGSTOP: {error}"))
    }

    /// Text with the highest resident memory that [`check_memory`](Watched::check_memory) has found so far, and its
    /// bound, in MiB.
    pub fn seen(&self) -> String {
        format!(
            "memory at most {} MiB of {}",
            self.most.load(Ordering::Relaxed) >> 20,
            self.bounds.bytes() >> 20
        )
    }
}

fn open(source: Ipv4Addr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = socket_with(
        AddressFamily::INET,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        Some(ipproto::TCP),
    )?;
    bind(&socket, &SocketAddrV4::new(source, 0))?;
    connect(&socket, &to)?;
    Ok(socket.into())
}

fn descriptors(pid: u32) -> Result<usize, String> {
    let folder = format!("/proc/{pid}/fd");
    Ok(fs::read_dir(&folder).map_err(failed(&folder))?.count())
}

/// Resident memory of a process, bytes.
fn resident_bytes(pid: u32) -> Result<u64, String> {
    let file = format!("/proc/{pid}/statm");
    let text = fs::read_to_string(&file).map_err(failed(&file))?;
    let pages = text.split(' ').nth(1).and_then(|word| word.parse::<u64>().ok());
    Ok(pages.ok_or("statm has changed")? * rustix::param::page_size() as u64)
}
