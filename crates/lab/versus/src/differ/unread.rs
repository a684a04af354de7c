//! [`Unread`]: the number of bytes that a server has not read yet. With it, each piece of a stream is read before the
//! next one is sent, so the drawn cuts determine a server's reads, not the scheduling of two processes.
//!
//! The kernel's socket diagnosis reports it, [linux uapi/linux/inet_diag.h]: for one connection, in a few microseconds.

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;

/// Header of a netlink message: length, type, flags, number, sender.
const HEADER_BYTES: usize = 16;
/// `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const TCP: u8 = 6;
/// Offset of the expiry and of the unread bytes after it: family, state, timer, retransmissions and a socket's names
/// precede them.
const EXPIRES_AT: usize = HEADER_BYTES + 4 + 48;

/// Query socket to ask the kernel how many bytes a local TCP connection's receiver has not read yet.
#[derive(Debug)]
pub struct Unread {
    netlink: OwnedFd,
}

impl Unread {
    /// Opens the query socket.
    ///
    /// # Errors
    /// If the query socket cannot be opened. A kernel without such queries fails only in [`bytes`](Unread::bytes).
    pub fn new() -> io::Result<Unread> {
        let netlink = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            Some(netlink::SOCK_DIAG),
        )?;
        Ok(Unread { netlink })
    }

    /// Number of bytes sent on `ours` that its peer, on this machine, has not read. `None`: the peer has closed.
    ///
    /// # Errors
    /// If the kernel does not support or refuses the query.
    pub fn bytes(&self, ours: &TcpStream) -> io::Result<Option<u32>> {
        // A closed connection has no peer any more.
        let Ok(there) = ours.peer_addr() else {
            return Ok(None);
        };
        let question = question(there, ours.local_addr()?);
        rustix::net::send(&self.netlink, &question, SendFlags::empty())?;
        let mut answer = [0_u8; 512];
        let (len, _) = rustix::net::recv(&self.netlink, &mut answer[..], RecvFlags::empty())?;
        let answer = &answer[..len];
        let word = |at: usize| answer.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
        let kind = answer
            .get(4..6)
            .map(|kind| u16::from_ne_bytes([kind[0], kind[1]]));
        match (kind, word(EXPIRES_AT + 4), word(HEADER_BYTES)) {
            (Some(BY_FAMILY), Some(unread), _) => Ok(Some(unread)),
            (Some(NLMSG_ERROR), _, Some(errno)) if errno.wrapping_neg() as i32 == ENOENT => Ok(None),
            (Some(NLMSG_ERROR), _, Some(errno)) => {
                Err(io::Error::from_raw_os_error(errno.wrapping_neg() as i32))
            }
            _ => Err(io::Error::other(
                "malformed reply from the kernel's socket diagnosis",
            )),
        }
    }
}

const ENOENT: i32 = 2;

/// The query for the connection between `here` and `there`, seen from `here`.
fn question(here: SocketAddr, there: SocketAddr) -> [u8; 72] {
    const AF_INET: u8 = 2;
    const AF_INET6: u8 = 10;
    let mut bytes = [0; 72];
    bytes[..4].copy_from_slice(&72_u32.to_ne_bytes());
    bytes[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    let body = &mut bytes[HEADER_BYTES..];
    body[0] = if here.is_ipv4() { AF_INET } else { AF_INET6 };
    body[1] = TCP;
    // All states.
    body[4..8].copy_from_slice(&u32::MAX.to_ne_bytes());
    body[8..10].copy_from_slice(&here.port().to_be_bytes());
    body[10..12].copy_from_slice(&there.port().to_be_bytes());
    for (at, address) in [(12, here.ip()), (28, there.ip())] {
        match address {
            IpAddr::V4(v4) => body[at..at + 4].copy_from_slice(&v4.octets()),
            IpAddr::V6(v6) => body[at..at + 16].copy_from_slice(&v6.octets()),
        }
    }
    // Any cookie.
    body[48..56].copy_from_slice(&u64::MAX.to_ne_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    #[test]
    fn what_was_sent_is_unread_until_it_is_read() {
        let Ok(unread) = Unread::new() else { return };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut ours = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        let (mut theirs, _) = listener.accept().expect("ours");
        // Some kernels lack this feature.
        let Ok(before) = unread.bytes(&ours) else { return };
        assert_eq!(before, Some(0));
        ours.write_all(b"seven..").expect("there is space");
        assert_eq!(unread.bytes(&ours).expect("it answered before"), Some(7));
        theirs.read_exact(&mut [0; 5]).expect("they are there");
        assert_eq!(unread.bytes(&ours).expect("it answered before"), Some(2));
        drop((theirs, listener));
    }
}
