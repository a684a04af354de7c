//! Errors of control channels.

use super::frame::FrameError;
use super::heartbeat::MISSED_MAX;
use std::io;

/// Why a control channel ended, or refused to send.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// End of stream: the peer closed it or died.
    #[error("the peer closed the control channel")]
    Closed,
    /// End of stream inside a frame.
    #[error("the peer closed the control channel in the middle of a frame")]
    ClosedMidFrame,
    /// We closed it ourselves.
    #[error("closed on this side")]
    ByUs,
    /// No heartbeat.
    #[error("the peer has been silent for {MISSED_MAX} heartbeats")]
    Silent,
    /// It does not read what we send.
    #[error("the peer does not read: {queued_bytes} bytes wait for it")]
    Stalled {
        /// Bytes in our queue.
        queued_bytes: usize,
    },
    /// Not a frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The peer said why it does not want us.
    #[error("refused by the peer: {reason} (code {code})")]
    Refused {
        /// Its number; the application's protocol says what it means.
        code: u16,
        /// In its words, printable, at most 256 bytes.
        reason: String,
    },
    /// A body over the limit: a bug of the caller, nothing was sent.
    #[error("a message of {bytes} bytes cannot be sent")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// Descriptors over the limit: a bug of the caller, nothing was sent.
    #[error("a message with {count} descriptors cannot be sent")]
    TooManyFds {
        /// How many.
        count: usize,
    },
    /// Shared memory cannot be passed to another machine.
    #[error(
        "memory cannot be passed over TCP: this fabric works between processes of one machine \
         (use an address that begins with shm: or unix:)"
    )]
    FdsOverTcp,
    /// A reply did not come before the deadline.
    #[error("no answer before the deadline")]
    Timeout,
    /// A system call failed.
    #[error("{what} failed: {source}")]
    System {
        /// The call.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// What may be the matter when nobody listens.
fn after_refusal(addr: &str) -> &'static str {
    match addr.split_once(':').map_or("", |(scheme, _)| scheme) {
        "tcp" => " (`drover serve` listens on TCP with --control-listen only)",
        "rdma" => " (`drover serve --fabric rdma://host:port` listens there)",
        _ => " (a server that died leaves its socket file behind)",
    }
}

/// A server could not be reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DialError {
    /// No such socket file.
    #[error("no server at {addr}: {path} does not exist (start one with `drover serve`)")]
    NoServer {
        /// As asked for.
        addr: String,
        /// Where we looked.
        path: String,
    },
    /// Nobody listens: the server died, or has another port.
    #[error("no server answers at {addr}: connection refused{}", after_refusal(addr))]
    Refused {
        /// As asked for.
        addr: String,
    },
    /// A host name that is not one.
    #[error("{host}: {source}")]
    Resolve {
        /// The name.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// It listens but does not accept.
    #[error("the server at {addr} does not answer")]
    Timeout {
        /// As asked for.
        addr: String,
    },
    /// Something else.
    #[error("connecting to {addr} failed: {source}")]
    System {
        /// As asked for.
        addr: String,
        /// What the system said.
        source: io::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_to_look_for() {
        let text = |addr: &str| {
            DialError::Refused {
                addr: addr.to_owned(),
            }
            .to_string()
        };
        assert!(text("unix:/run/x.sock").ends_with("(a server that died leaves its socket file behind)"));
        assert!(text("tcp://host:1").ends_with("(`drover serve` listens on TCP with --control-listen only)"));
        assert!(text("rdma://host:1").ends_with("(`drover serve --fabric rdma://host:port` listens there)"));
    }
}
