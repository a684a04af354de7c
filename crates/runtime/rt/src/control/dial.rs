//! [`Dial`]: makes a client's connection attempts to its server.

use super::{ControlAddr, ControlStream, DialError, LocalListener};
use drover_base::Ns;

/// Longest time that an attempt may block.
pub const ATTEMPT_MAX: Ns = Ns::from_s(1);

/// Makes connection attempts to one server, any number of times.
pub struct Dial(Box<dyn FnMut() -> Result<ControlStream, DialError> + Send>);

impl Dial {
    /// Calls `dial` for every attempt. It should not block for long.
    pub fn new(dial: impl FnMut() -> Result<ControlStream, DialError> + Send + 'static) -> Dial {
        Dial(Box::new(dial))
    }

    /// Always connects to the same address. An attempt blocks for at most a second.
    pub fn to(addr: ControlAddr) -> Dial {
        Dial::new(move || ControlStream::connect(&addr, ATTEMPT_MAX))
    }

    /// Connects to a server of this process that accepts from `listener`.
    pub fn at(listener: &LocalListener) -> Dial {
        let listener = listener.clone();
        Dial::new(move || Ok(listener.connect()))
    }

    /// Makes one attempt.
    ///
    /// # Errors
    /// [`DialError`] if no server listens or none answers in time.
    pub fn attempt(&mut self) -> Result<ControlStream, DialError> {
        (self.0)()
    }
}
