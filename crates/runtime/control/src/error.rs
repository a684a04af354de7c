//! Errors of control channels.

use super::frame::FrameError;
use super::heartbeat::MISSED_MAX;
use drover_tls::TlsError;
use std::io;

/// Errors of a control channel: reasons for its end, for refusing to send a frame, and
/// [`Timeout`](ControlError::Timeout), after which it stays open.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// End of stream: the peer closed the channel or died, or this end was closed before.
    #[error("the peer closed the control channel")]
    Closed,
    /// End of stream inside a frame.
    #[error("the peer closed the control channel in the middle of a frame")]
    ClosedMidFrame,
    /// End of stream during the TLS handshake: the peer died, is full, or does not like what it read.
    #[error("the peer closed the control channel during the TLS handshake")]
    ClosedInHandshake,
    /// TLS has failed: one end does not speak it, or a certificate is not accepted.
    #[error("TLS: {why}")]
    Tls {
        /// What was wrong.
        why: String,
    },
    /// This end closed the channel or refused the peer. Only
    /// [`ControlHandler::on_close`](crate::acceptor::ControlHandler::on_close) gets this.
    #[error("closed on this side")]
    ByUs,
    /// No frame, not even a heartbeat, arrived during [`MISSED_MAX`] checks, at least a second apart.
    #[error("the peer has been silent for {MISSED_MAX} heartbeats")]
    Silent,
    /// The peer does not read, and more than 1 MiB or more than 1024 descriptors wait for it. The channel is closed.
    #[error("the peer does not read: {queued_bytes} bytes and {queued_fds} descriptors wait for it")]
    Stalled {
        /// Number of bytes that waited, those of the refused frame included.
        queued_bytes: usize,
        /// Number of descriptors that waited, those of the refused frame included.
        queued_fds: usize,
    },
    /// This end refused the peer, which did not prove who it is.
    #[error("{why}")]
    Unproven {
        /// What was wrong.
        why: &'static str,
    },
    /// The received bytes are not a frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The peer refused, with a reason.
    #[error("refused by the peer: {reason} (code {code})")]
    Refused {
        /// One of the codes in [`refusal`](super::refusal), or of the application's protocol; 0 if the peer sent none.
        code: u16,
        /// The first 256 bytes of the peer's text, made printable.
        reason: String,
    },
    /// The body of a frame to send exceeds the limit: a bug of the caller; nothing was sent.
    #[error("a message of {bytes} bytes cannot be sent")]
    TooLong {
        /// Length of the body in bytes.
        bytes: usize,
    },
    /// The number of descriptors to send with a frame exceeds the limit: a bug of the caller; nothing was sent.
    #[error("a message with {count} descriptors cannot be sent")]
    TooManyFds {
        /// Number of descriptors to be sent with the frame.
        count: usize,
    },
    /// A frame with descriptors, which share memory, cannot be sent over TCP; nothing was sent.
    #[error(
        "memory cannot be passed over TCP: this fabric works between processes of one machine \
         (use an address that begins with shm: or unix:)"
    )]
    FdsOverTcp,
    /// No frame arrived before the deadline.
    #[error("no answer before the deadline")]
    Timeout,
    /// A system call failed.
    #[error("{what} failed: {source}")]
    System {
        /// What was attempted, such as "reading the control channel".
        what: &'static str,
        /// Error of the system call.
        source: io::Error,
    },
}

impl ControlError {
    /// Whether channels end this way when their clients end well, or as one of the two sides wished.
    pub(crate) fn is_orderly(&self) -> bool {
        matches!(
            self,
            ControlError::Closed | ControlError::ByUs | ControlError::Refused { .. }
        )
    }
}

/// Likely reasons for a refused connection.
fn after_refusal(addr: &str) -> &'static str {
    match addr.split_once(':').map_or("", |(scheme, _)| scheme) {
        "tcp" => " (`drover serve` listens on TCP with --control-listen only)",
        "rdma" => " (`drover serve --fabric rdma://host:port` listens there)",
        _ => " (a server that died leaves its socket file behind)",
    }
}

/// Errors of connecting to a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DialError {
    /// The socket file does not exist.
    #[error("no server at {addr}: {path} does not exist (start one with `drover serve`)")]
    NoServer {
        /// Requested address.
        addr: String,
        /// Path of the socket file.
        path: String,
    },
    /// No process listens: the server died, or uses another port.
    #[error("no server answers at {addr}: connection refused{}", after_refusal(addr))]
    Refused {
        /// Requested address.
        addr: String,
    },
    /// The socket's mode does not let this user in.
    #[error("the server at {addr} does not let this user in: {advice}")]
    Forbidden {
        /// Requested address.
        addr: String,
        /// Whom it lets in, and what to do.
        advice: String,
    },
    /// The host name cannot be resolved.
    #[error("{host}: {source}")]
    Resolve {
        /// Host name that cannot be resolved.
        host: String,
        /// Error of the resolver.
        source: io::Error,
    },
    /// The connection was not established in time: the server does not accept, or its host does not answer.
    #[error("the server at {addr} does not answer")]
    Timeout {
        /// Requested address.
        addr: String,
    },
    /// No TLS session can be made.
    #[error("connecting to {addr} failed: {source}")]
    Tls {
        /// Requested address.
        addr: String,
        /// Why there is none.
        source: TlsError,
    },
    /// Any other error, for example a lack of permission.
    #[error("connecting to {addr} failed: {source}")]
    System {
        /// Requested address.
        addr: String,
        /// Error of the system call.
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
