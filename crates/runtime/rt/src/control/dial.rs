//! [`Dial`]: how a client reaches its server, again and again.

use super::{ControlAddr, ControlStream, DialError, LocalListener};
use drover_base::Ns;

/// How long an attempt at an address may block.
pub const ATTEMPT_MAX: Ns = Ns::from_s(1);

/// How to reach a server, again and again.
pub struct Dial(Box<dyn FnMut() -> Result<ControlStream, DialError> + Send>);

impl Dial {
    /// Calls `dial` for every attempt. It should not block for long.
    pub fn new(dial: impl FnMut() -> Result<ControlStream, DialError> + Send + 'static) -> Dial {
        Dial(Box::new(dial))
    }

    /// Always the same address. An attempt blocks for a second at most.
    pub fn to(addr: ControlAddr) -> Dial {
        Dial::new(move || ControlStream::connect(&addr, ATTEMPT_MAX))
    }

    /// A server of this process that lets in who knocks at `listener`.
    pub fn at(listener: &LocalListener) -> Dial {
        let listener = listener.clone();
        Dial::new(move || Ok(listener.connect()))
    }

    /// An attempt.
    ///
    /// # Errors
    /// Nobody there, or nobody who answers in time.
    pub fn attempt(&mut self) -> Result<ControlStream, DialError> {
        (self.0)()
    }
}
