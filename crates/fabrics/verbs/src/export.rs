//! [`Export`]: the name of memory, of a queue pair or of a bell, to be sent to the other side.

use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The name of a region, a queue pair or a bell, to be sent to a peer: bytes that only the same provider understands,
/// and descriptors where the fabric passes memory itself. It is sent through the control channel; `Send`, so threads
/// can exchange it too.
///
/// A control channel that cannot carry descriptors (TCP) refuses an export that has any, with an error.
#[derive(Clone, Debug, Default)]
pub struct Export {
    /// Provider-defined, at most [`Export::BYTES_MAX`] long. They may come from a peer: decode with checks.
    pub bytes: Vec<u8>,
    /// Descriptors in provider-defined order, at most [`Export::FDS_MAX`].
    pub fds: Vec<Arc<OwnedFd>>,
}

impl Export {
    /// Most bytes of an export; more are a protocol error.
    pub const BYTES_MAX: usize = 8192;
    /// Most descriptors of an export; more are a protocol error.
    pub const FDS_MAX: usize = 250;
}
