//! [`Dial`]: makes a client's connection attempts to its server.

use super::{ControlAddr, ControlStream, DialError, LocalListener};
use drover_base::Ns;

/// Longest time that an attempt may block.
pub const ATTEMPT_MAX: Ns = Ns::from_s(1);

/// Makes connection attempts to one server, any number of times.
pub struct Dial {
    server: String,
    attempt: Box<dyn FnMut() -> Result<ControlStream, DialError> + Send>,
}

impl Dial {
    /// Calls `attempt` for every attempt. It should not block for long. `server` names the server in log lines.
    pub fn new(
        server: impl Into<String>,
        attempt: impl FnMut() -> Result<ControlStream, DialError> + Send + 'static,
    ) -> Dial {
        Dial {
            server: server.into(),
            attempt: Box::new(attempt),
        }
    }

    /// Always connects to the same address. An attempt blocks for at most a second.
    pub fn to(addr: ControlAddr) -> Dial {
        let server = addr.to_string();
        Dial::new(server, move || ControlStream::connect(&addr, ATTEMPT_MAX))
    }

    /// Connects to a server of this process that accepts from `listener`.
    pub fn at(listener: &LocalListener) -> Dial {
        let listener = listener.clone();
        Dial::new("this process", move || Ok(listener.connect()))
    }

    /// The server, for log lines: its address, and its shard if there are several at the address.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Makes one attempt.
    ///
    /// # Errors
    /// [`DialError`] if no server listens or none answers in time.
    pub fn attempt(&mut self) -> Result<ControlStream, DialError> {
        (self.attempt)()
    }
}
