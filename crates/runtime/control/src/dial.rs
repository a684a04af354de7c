//! [`Dial`]: makes a client's connection attempts to its server.

use super::{ControlAddr, ControlStream, DialError, LocalListener};
use drover_base::Ns;

/// Time limit of one attempt of [`Dial::to`], per resolved address of the host.
pub const ATTEMPT_MAX: Ns = Ns::from_s(1);

/// Makes connection attempts to one server, any number of times.
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

    /// Name of the server for log lines, as given to [`Dial::new`]: its address, with the shard if one was selected, or
    /// "this process".
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
