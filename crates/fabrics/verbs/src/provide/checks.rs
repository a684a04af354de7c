//! Checks that all providers share.

use crate::{Access, Caps, CreateError, Provider, QpOptions, RegisterError, Sge};
use drover_mem::Region;

/// Checks that `asked`, a depth or length of `what`, is at most `limit`.
///
/// # Errors
/// [`CreateError::Limit`] if it is more.
pub fn check_limit(what: &'static str, asked: usize, limit: usize) -> Result<(), CreateError> {
    match asked <= limit {
        true => Ok(()),
        false => Err(CreateError::Limit { what, asked, limit }),
    }
}

/// Checks queue depths and inline length in `options` against the limits in `caps`. Checks the receive depth even if
/// there is a shared receive queue. Does not check the kind.
///
/// # Errors
/// [`CreateError::Limit`] for the first limit that is exceeded.
pub fn check_queue_pair<P: Provider>(caps: &Caps, options: &QpOptions<'_, P>) -> Result<(), CreateError> {
    check_limit("a send queue", options.send_depth, caps.send_depth_max)?;
    check_limit("a receive queue", options.recv_depth, caps.recv_depth_max)?;
    check_limit("an inline payload", options.inline_bytes, caps.inline_bytes_max)
}

/// Checks that `region` can be registered with `access`, as far as that does not depend on the fabric.
///
/// # Errors
/// [`RegisterError::InconsistentAccess`] for remote write or atomics without local write, [`RegisterError::Unsuitable`]
/// for local write to a read-only mapping.
pub fn check_registration(region: &Region, access: Access) -> Result<(), RegisterError> {
    if !access.is_consistent() {
        return Err(RegisterError::InconsistentAccess);
    }
    if access.local_write && !region.is_writable() {
        let reason = "local write to a read-only mapping";
        return Err(RegisterError::Unsuitable { reason });
    }
    Ok(())
}

/// Checks that a shared registration belongs to the domain of the context that adopts it.
///
/// # Errors
/// [`RegisterError::Unsuitable`] if not.
pub fn check_domain(is_same: bool) -> Result<(), RegisterError> {
    let reason = "it was registered in another domain";
    match is_same {
        true => Ok(()),
        false => Err(RegisterError::Unsuitable { reason }),
    }
}

/// The scatter/gather element for `len` bytes at `offset` of `region`, registered under `lkey`.
///
/// # Panics
/// If the range leaves the region or is 4 GiB or longer: a posted element never leaves its registration.
#[inline]
pub fn sge_within(region: &Region, lkey: u32, offset: usize, len: usize) -> Sge {
    assert!(
        region.contains(offset, len),
        "[{offset}, +{len}) outside a registration of {} bytes",
        region.len()
    );
    Sge {
        lkey,
        len: u32::try_from(len).expect("a message of less than 4 GiB"),
        offset: offset as u64,
    }
}

/// Kind of access to remote memory that a request wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Want {
    /// READ.
    Read,
    /// WRITE.
    Write,
    /// CAS or FAA.
    Atomic,
}

impl Want {
    /// Whether a registration with `access` permits this kind of access by peers.
    #[inline]
    pub fn allowed(self, access: Access) -> bool {
        match self {
            Want::Read => access.remote_read,
            Want::Write => access.remote_write,
            Want::Atomic => access.remote_atomic,
        }
    }
}
