//! A lying proxy: it changes some of a server's answers in transit, to see whether a client's test, or a comparison,
//! notices.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A change that a lying proxy makes to a server's answers, to see whether a client notices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lie {
    /// Name of the change on the command line.
    pub name: &'static str,
    find: &'static [u8],
    put: Put,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Put {
    /// Replaces the found bytes by these.
    Bytes(&'static [u8]),
    /// Changes the byte before the found bytes.
    ByteBefore,
}

/// All changes that the proxy can make.
pub const LIES: &[Lie] = &[
    lie("stored", b"STORED\r\n", Put::Bytes(b"NOT_STORED\r\n")),
    lie("refused", b"NOT_STORED\r\n", Put::Bytes(b"STORED\r\n")),
    lie("value", b"\r\nEND\r\n", Put::ByteBefore),
    lie("deleted", b"DELETED\r\n", Put::Bytes(b"NOT_FOUND\r\n")),
    lie("exists", b"EXISTS\r\n", Put::Bytes(b"STORED\r\n")),
    lie("touched", b"TOUCHED\r\n", Put::Bytes(b"NOT_FOUND\r\n")),
    lie("hit", b"HD ", Put::Bytes(b"NS ")),
    lie("opaque", b" O7", Put::Bytes(b" O8")),
    lie("quiet", b"MN\r\n", Put::Bytes(b"HD\r\nMN\r\n")),
    lie("line", b"\r\n", Put::ByteBefore),
];

const fn lie(name: &'static str, find: &'static [u8], put: Put) -> Lie {
    Lie { name, find, put }
}

impl Lie {
    /// The change called `name`; `None` if there is none.
    pub fn named(name: &str) -> Option<Lie> {
        LIES.iter().copied().find(|lie| lie.name == name)
    }

    /// Returns `answer` with every `every`-th place changed; `seen` counts places.
    fn apply(&self, answer: &[u8], every: u64, seen: &AtomicU64) -> Vec<u8> {
        let mut told = Vec::with_capacity(answer.len() + 16);
        let mut at = 0;
        while at < answer.len() {
            if !answer[at..].starts_with(self.find) {
                told.push(answer[at]);
                at += 1;
                continue;
            }
            let is_its_turn = (seen.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(every);
            at += self.find.len();
            match (is_its_turn, self.put) {
                (true, Put::Bytes(bytes)) => told.extend_from_slice(bytes),
                (true, Put::ByteBefore) => {
                    if let Some(last) = told.last_mut() {
                        *last = if *last == b'9' { b'8' } else { b'9' };
                    }
                    told.extend_from_slice(self.find);
                }
                (false, _) => told.extend_from_slice(self.find),
            }
        }
        told
    }
}

/// Forwards every connection of `listener` to `server`, and changes some of the places in the server's answers where
/// the lie fits: one in `every` (1: each, 0: none), counted over all connections. A place that arrives in two reads
/// stays unchanged. Returns only on failure; if `server` cannot be reached, only that client's connection is closed.
///
/// # Errors
/// If no connection can be accepted or no descriptor is left.
pub fn serve(listener: &TcpListener, server: SocketAddr, lie: Lie, every: u64) -> io::Result<()> {
    let seen = Arc::new(AtomicU64::new(0));
    loop {
        let (client, _) = listener.accept()?;
        let Ok(server) = TcpStream::connect(server) else {
            continue;
        };
        let seen = Arc::clone(&seen);
        let (mut to_server, mut from_client) = (server.try_clone()?, client.try_clone()?);
        std::thread::spawn(move || {
            let _ = pass(&mut from_client, &mut to_server, |bytes| bytes.to_vec());
            let _ = to_server.shutdown(std::net::Shutdown::Write);
        });
        let (mut from_server, mut to_client) = (server, client);
        std::thread::spawn(move || {
            let _ = pass(&mut from_server, &mut to_client, |bytes| {
                lie.apply(bytes, every, &seen)
            });
            let _ = to_client.shutdown(std::net::Shutdown::Both);
        });
    }
}

fn pass(from: &mut TcpStream, to: &mut TcpStream, change: impl Fn(&[u8]) -> Vec<u8>) -> io::Result<()> {
    to.set_nodelay(true)?;
    let mut space = vec![0; 64 << 10];
    loop {
        match from.read(&mut space)? {
            0 => return Ok(()),
            n => to.write_all(&change(&space[..n]))?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn altered(name: &str, every: u64, answer: &str) -> String {
        let lie = Lie::named(name).expect("there is such a lie");
        let told = lie.apply(answer.as_bytes(), every, &AtomicU64::new(0));
        String::from_utf8(told).expect("text")
    }

    #[test]
    fn one_in_so_many_places_is_changed() {
        assert_eq!(
            altered("stored", 2, "STORED\r\nSTORED\r\nMN\r\n"),
            "STORED\r\nNOT_STORED\r\nMN\r\n"
        );
        assert_eq!(
            altered("value", 1, "VALUE k 0 2\r\nab\r\nEND\r\n"),
            "VALUE k 0 2\r\na9\r\nEND\r\n"
        );
        assert_eq!(altered("line", 3, "OK\r\nOK\r\nOK\r\n"), "OK\r\nOK\r\nO9\r\n");
    }
}
