//! [`Options`] of a client, and [`Error`].

use drover_base::Ns;
use drover_control::AddrError;
use drover_kv::{CallError, ConnectError, ConnectOptions};

/// Options of a client.
#[derive(Clone, Debug)]
pub struct Options {
    /// Maximum time of each step of connecting: reaching the server, asking for its system, and setting up the
    /// sessions.
    pub connect_timeout: Ns,
    /// Time after which an operation without a result fails.
    pub call_timeout: Ns,
    /// Maximum number of operations in flight per shard of the service.
    pub window: usize,
    /// Secret that the server's operator requires, at most 256 bytes; empty: none.
    pub secret: Vec<u8>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            connect_timeout: Ns::from_s(5),
            call_timeout: Ns::from_s(5),
            window: 16,
            secret: Vec::new(),
        }
    }
}

impl Options {
    pub(crate) fn of_connection(&self) -> ConnectOptions {
        ConnectOptions {
            window: self.window,
            deadline: self.call_timeout,
            rests: true,
            secret: self.secret.clone(),
        }
    }
}

/// Any error of a client, for `?`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not an address.
    #[error(transparent)]
    Address(#[from] AddrError),
    /// The client could not connect.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A call failed or its result is unknown.
    #[error(transparent)]
    Call(#[from] CallError),
}
