//! [`Pair`]: a fresh memcached and a fresh drover with the same memory, and a connection to each.

use super::super::folder;
use super::super::server::{Kind, Server};
use super::client::Client;
use std::fmt;

/// A running server and a connection to it.
pub struct Side {
    server: Server,
    client: Client,
}

impl Side {
    fn start(kind: &Kind, name: &str, limits: Limits) -> Result<Side, String> {
        let (memory, threads) = (limits.memory_mib.to_string(), limits.threads.to_string());
        let log = folder().join(format!("hitrate-{name}.txt"));
        let server = Server::start(kind, &["-m", &memory, "-t", &threads], &log)?;
        let client = Client::connect(server.address())?;
        Ok(Side { server, client })
    }

    /// The connection.
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Process id of the server.
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }
}

/// What both servers may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// `-m` of both.
    pub memory_mib: u64,
    /// `-t` of both.
    pub threads: u64,
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "-m {} -t {}", self.memory_mib, self.threads)
    }
}

/// Both servers.
pub struct Pair {
    sides: [Side; 2],
    limits: Limits,
}

/// Names of the two sides, in the order of all results.
pub const NAMES: [&str; 2] = ["memcached", "drover"];

impl Pair {
    /// Starts both: memcached, and `kind` as drover.
    pub fn start(kind: &Kind, limits: Limits) -> Result<Pair, String> {
        Ok(Pair {
            sides: [
                Side::start(&Kind::Memcached, NAMES[0], limits)?,
                Side::start(kind, NAMES[1], limits)?,
            ],
            limits,
        })
    }

    /// What both may use.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Both sides, in the order of [`NAMES`].
    pub fn sides(&mut self) -> &mut [Side; 2] {
        &mut self.sides
    }
}
