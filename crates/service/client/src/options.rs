//! [`Options`], and why a client is not connected.

use drover_base::Ns;
use drover_kv::{CallError, ConnectError, ConnectOptions};
use drover_rt::control::AddrError;

/// How a client wants to work.
#[derive(Clone, Debug)]
pub struct Options {
    /// Longest time to connect.
    pub connect_timeout: Ns,
    /// A call that has no result after this time fails.
    pub call_timeout: Ns,
    /// Operations under way at each shard of the service.
    pub window: usize,
    /// What the server's operator asks for, at most 256 bytes.
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

/// Whatever a user of a client may meet, for `?`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is no address.
    #[error(transparent)]
    Address(#[from] AddrError),
    /// No connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A call without a result.
    #[error(transparent)]
    Call(#[from] CallError),
}
