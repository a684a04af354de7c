//! What listens at a TCP port that is not the one a command needs: the text names the port that a user meant.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_millis(500);

/// What speaks at a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speaks {
    /// memcached's protocol.
    Memcached,
    /// HTTP.
    Http,
    /// Something else, or nothing.
    Unknown,
}

impl Speaks {
    /// Asks the port at `addr`.
    pub fn at(addr: impl ToSocketAddrs) -> Speaks {
        match greet(addr).unwrap_or_default() {
            said if said.starts_with(b"VERSION ") => Speaks::Memcached,
            said if said.starts_with(b"HTTP/") => Speaks::Http,
            _ => Speaks::Unknown,
        }
    }
}

/// The first bytes of the answer to a request of memcached's, which HTTP servers answer, too.
fn greet(addr: impl ToSocketAddrs) -> std::io::Result<Vec<u8>> {
    let target = addr.to_socket_addrs()?.next();
    let target = target.ok_or(std::io::ErrorKind::NotFound)?;
    let mut stream = TcpStream::connect_timeout(&target, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"version\r\n\r\n")?;
    let mut said = [0; 8];
    let count = stream.read(&mut said)?;
    Ok(said[..count].to_vec())
}
