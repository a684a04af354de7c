//! Preparation of a fresh server before its first stream.

use std::io::{self, BufRead, BufReader, Error, Write};
use std::net::{SocketAddr, TcpStream};

/// Maximum of the small numbers in drawn commands (lengths, counts, `C1`). A command damaged on purpose may compare any
/// of them with an item's version (CAS).
pub const NUMBER_MAX: usize = 1000;
/// Number of items after which every core of a server with a few cores has versions beyond [`NUMBER_MAX`].
const ITEMS: usize = 8 * NUMBER_MAX;
/// In May 2033: an absolute time, not a number of seconds.
const MOMENT_UNIX_S: u64 = 2_000_000_000;
/// Answer of a gateway to a flag about times.
const REFUSAL: &str = "CLIENT_ERROR invalid flag";

/// Stores 8,000 items on a fresh server, so that no later item gets a version (CAS) up to [`NUMBER_MAX`]. Otherwise a
/// drawn number could by chance be an item's version, and of different items on the two servers. Returns the seconds
/// left until a fixed moment (in 2033) by the server's clock; `None` if it refuses to show times.
///
/// # Errors
///
/// If the server cannot be reached, or does not answer as memcached does.
pub fn prepare(address: SocketAddr) -> io::Result<Option<i64>> {
    let mut stream = TcpStream::connect(address)?;
    let mut lines = Vec::new();
    for nth in 0..ITEMS {
        lines.extend_from_slice(format!("set first{nth} 0 {MOMENT_UNIX_S} 0 noreply\r\n\r\n").as_bytes());
    }
    lines.extend_from_slice(b"mg first0 t\r\n");
    stream.write_all(&lines)?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    let answer = answer.trim_end();
    if answer == REFUSAL {
        return Ok(None);
    }
    let seconds = answer.strip_prefix("HD t");
    let seconds = seconds.and_then(|seconds| seconds.parse().ok());
    seconds
        .map(Some)
        .ok_or_else(|| Error::other(format!("{address} answered {answer:?}")))
}
