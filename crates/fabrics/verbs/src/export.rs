//! [`Export`]: how one side names its memory, queue pair or bell to the other.

use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Bytes that only the same provider on the other side understands, and descriptors where the fabric passes
/// memory itself. Travels through the control channel; `Send`, so it also crosses threads.
///
/// A control channel that cannot carry descriptors (TCP) refuses an export that has some, with an error.
#[derive(Clone, Debug, Default)]
pub struct Export {
    /// Provider-defined, at most [`Export::BYTES_MAX`]. Comes from a peer: decode with checks.
    pub bytes: Vec<u8>,
    /// In provider-defined order, at most [`Export::FDS_MAX`].
    pub fds: Vec<Arc<OwnedFd>>,
}

impl Export {
    /// More bytes than this are a protocol error.
    pub const BYTES_MAX: usize = 8192;
    /// More descriptors than this are a protocol error.
    pub const FDS_MAX: usize = 250;
}
