//! [`Dial`]: makes a client's connection attempts to its server.

use super::{ControlAddr, ControlStream, DialError, LocalListener};
use drover_base::Ns;

/// Maximum time that one attempt of [`Dial::to`] or [`Dial::to_shard`] waits for each IP address of the host (or for
/// the Unix socket); looking the host name up is not included.
pub const ATTEMPT_MAX: Ns = Ns::from_s(1);

/// A dialer: knows one server and makes an attempt to connect to it whenever [`attempt`](Dial::attempt) is called.
pub struct Dial {
    server: String,
    attempt: Box<dyn FnMut() -> Result<ControlStream, DialError> + Send>,
}

impl Dial {
    /// Creates a dialer that calls `attempt`, which should not block for long, for every attempt. `server` names the
    /// server in log lines.
    pub fn new(
        server: impl Into<String>,
        attempt: impl FnMut() -> Result<ControlStream, DialError> + Send + 'static,
    ) -> Dial {
        Dial {
            server: server.into(),
            attempt: Box::new(attempt),
        }
    }

    /// Creates a dialer that connects to `addr`. An attempt blocks for at most [`ATTEMPT_MAX`], or longer if the host
    /// has several addresses or its name is slow to resolve.
    pub fn to(addr: ControlAddr) -> Dial {
        let server = addr.to_string();
        Dial::new(server, move || ControlStream::connect(&addr, ATTEMPT_MAX))
    }

    /// Creates a dialer that connects to the server in this process that accepts from `listener`. An attempt neither
    /// blocks nor fails.
    pub fn at(listener: &LocalListener) -> Dial {
        let listener = listener.clone();
        Dial::new("this process", move || Ok(listener.connect()))
    }

    /// Name of the server for log lines: the text given to [`Dial::new`]; the address for [`Dial::to`], followed by the
    /// shard for [`Dial::to_shard`]; `this process` for [`Dial::at`].
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Makes one attempt to connect.
    ///
    /// # Errors
    /// [`DialError`] if it fails; a later attempt may succeed.
    pub fn attempt(&mut self) -> Result<ControlStream, DialError> {
        (self.attempt)()
    }
}
