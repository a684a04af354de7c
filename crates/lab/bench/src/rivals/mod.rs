//! Rivals: memcached and redis, if installed, driven with the same keys, sizes and mix and the best client settings
//! that we know. drover itself can take part, through memcached's protocol.

mod connection;
mod process;
mod stream;
mod target;
mod wire;

use std::path::PathBuf;

pub use process::{Rival, RivalOptions};
pub use stream::Stream;
pub use target::RivalTarget;
pub use wire::{Reply, Unexpected};

/// Kind of a rival: a server that a system is compared with, driven over sockets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// memcached 1.6 or later, driven with meta commands and multi-gets of the text protocol.
    Memcached,
    /// redis, driven with RESP.
    Redis,
    /// drover itself, driven through memcached's protocol over sockets, with the same requests as memcached.
    Drover,
}

impl Kind {
    /// The kind called `memcached`, `redis` or `drover`; `None` for any other name.
    pub fn named(name: &str) -> Option<Kind> {
        match name {
            "memcached" => Some(Kind::Memcached),
            "redis" => Some(Kind::Redis),
            "drover" => Some(Kind::Drover),
            _ => None,
        }
    }

    fn program(self) -> &'static str {
        match self {
            Kind::Memcached => "memcached",
            Kind::Redis => "redis-server",
            Kind::Drover => "drover",
        }
    }

    /// Whether the rival is another project's program, not drover.
    pub fn is_foreign(self) -> bool {
        self != Kind::Drover
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Kind::Memcached => "memcached",
            Kind::Redis => "redis",
            Kind::Drover => "drover",
        })
    }
}

/// Specification of a rival to measure: its kind, and the path of its program unless the installed one is meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entrant {
    /// Kind of the rival, which determines protocol and command line.
    pub kind: Kind,
    /// Path of the program; `None`: the installed one.
    pub program: Option<PathBuf>,
}

impl Entrant {
    /// Parses a kind's name, as in `memcached`, or name and program, as in `memcached=/path/of/another`; the path need
    /// not exist. `None` if the kind is unknown.
    pub fn named(text: &str) -> Option<Entrant> {
        let (name, program) = match text.split_once('=') {
            Some((name, path)) => (name, Some(PathBuf::from(path))),
            None => (text, None),
        };
        let kind = Kind::named(name)?;
        Some(Entrant { kind, program })
    }

    /// Path of the rival's program, if it exists: the given one, or as [`Rival::find`] finds it.
    pub fn find(&self) -> Option<PathBuf> {
        match &self.program {
            Some(path) => path.is_file().then(|| path.clone()),
            None => Rival::find(self.kind),
        }
    }

    /// Name for reports: that of the kind. If a program was given, this runs it with `-V` and adds the version that it
    /// prints, or the word `given` if it prints none.
    pub fn name(&self) -> String {
        let Some(program) = &self.program else {
            return self.kind.to_string();
        };
        let said = std::process::Command::new(program)
            .arg("-V")
            .output()
            .map(|out| out.stdout);
        let said = String::from_utf8(said.unwrap_or_default()).unwrap_or_default();
        let version = said
            .split_whitespace()
            .find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
        format!("{} {}", self.kind, version.unwrap_or("given"))
    }
}

/// Transport between a client and a rival.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Transport {
    /// A Unix socket.
    Unix,
    /// Loopback TCP.
    Tcp,
}

/// How a client sends operations to a rival: transport, number of connections, and batch sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mode {
    /// Name for reports, such as `unix 50x32`: 50 connections with batches of 32 operations.
    pub name: &'static str,
    /// Transport of all connections.
    pub transport: Transport,
    /// Number of connections of a client.
    pub connections: usize,
    /// Maximum number of operations that a connection has in flight: it sends them together, as one batch, and the next
    /// batch when all are answered.
    pub depth: usize,
    /// Maximum number of keys per GET request; above 1, the requests are multi-gets.
    pub group: usize,
}

impl Mode {
    /// One operation in flight, over a Unix socket.
    pub const UNIX_DEPTH_1: Mode = Mode::new("unix depth 1", Transport::Unix, 1, 1, 1);
    /// One operation in flight, over TCP.
    pub const TCP_DEPTH_1: Mode = Mode::new("tcp depth 1", Transport::Tcp, 1, 1, 1);

    /// All modes: for each transport three with 50 connections, for throughput, and one with one operation in flight.
    pub const ALL: [Mode; 8] = [
        Mode::new("unix 50x1", Transport::Unix, 50, 1, 1),
        Mode::new("unix 50x32", Transport::Unix, 50, 32, 1),
        Mode::new("unix multiget 100", Transport::Unix, 50, 100, 100),
        Mode::UNIX_DEPTH_1,
        Mode::new("tcp 50x1", Transport::Tcp, 50, 1, 1),
        Mode::new("tcp 50x32", Transport::Tcp, 50, 32, 1),
        Mode::new("tcp multiget 100", Transport::Tcp, 50, 100, 100),
        Mode::TCP_DEPTH_1,
    ];

    const fn new(
        name: &'static str,
        transport: Transport,
        connections: usize,
        depth: usize,
        group: usize,
    ) -> Mode {
        Mode {
            name,
            transport,
            connections,
            depth,
            group,
        }
    }

    /// Maximum number of operations that a client has in flight over all its connections.
    pub fn window(&self) -> usize {
        self.connections * self.depth
    }
}
