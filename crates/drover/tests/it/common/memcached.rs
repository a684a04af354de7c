//! [`Memcached`]: a server whose port for memcached's clients is any free one.

use super::{Serving, ask_memcached};
use std::net::TcpStream;
use std::time::Duration;

/// Longer than any answer takes.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A running `drover serve` with a port for memcached's clients.
pub struct Memcached {
    /// The server.
    pub serving: Serving,
    /// That port.
    pub port: u16,
}

impl Memcached {
    /// Starts a server as [`Serving::start`] does.
    #[track_caller]
    pub fn start(name: &str, args: &[&str]) -> Memcached {
        let serving = Serving::start(name, &[&["-p", "-1"], args].concat());
        Memcached {
            port: serving.memcached_port(),
            serving,
        }
    }

    /// A new connection.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream
    }

    /// The reply to `request` on a connection of its own.
    pub fn ask(&self, request: &str) -> String {
        ask_memcached(&mut self.connect(), request)
    }
}
