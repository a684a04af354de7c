//! [`Export`]: the name of memory, of a queue pair or of a bell, to be sent to the other side.

use std::os::fd::OwnedFd;
use std::sync::Arc;

/// What a peer needs to use a region, queue pair or bell of ours (over `ibv` mainly the rkey, or the queue pair number
/// and GID): bytes that only the same provider understands, and file descriptors where peers map memory (`shm`). Sent
/// through a control channel, such as a socket; `Send`, so threads can exchange it too.
///
/// A control channel that cannot carry file descriptors (TCP) refuses an export that has any, with an error.
#[derive(Clone, Debug, Default)]
pub struct Export {
    /// Provider-defined, at most [`Export::BYTES_MAX`] long. They may come from a peer: decode with checks.
    pub bytes: Vec<u8>,
    /// File descriptors in provider-defined order, at most [`Export::FDS_MAX`].
    pub fds: Vec<Arc<OwnedFd>>,
}

impl Export {
    /// Maximum length of `bytes`; a longer export from a peer is a protocol error.
    pub const BYTES_MAX: usize = 8192;
    /// Maximum number of `fds`; more from a peer are a protocol error.
    pub const FDS_MAX: usize = 250;
}
