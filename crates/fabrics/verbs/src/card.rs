//! [`DeviceMemory`]: memory on the card itself.

use crate::{Export, RegisterError};
use drover_mem::AllocError;
use std::fmt::Debug;
use std::io;

/// Memory on a card, registered for peers; freed on drop, after which peers have no access. It has no address in the host:
/// peers READ it, WRITE to it and use its words in CAS and FAA as those of a region, without the bus between card and
/// host; its owner copies. Made by [`Context::alloc_device`](crate::Context::alloc_device).
///
/// What its owner copies is not ordered with requests of peers that are under way.
pub trait DeviceMemory: Debug + 'static {
    /// Length in bytes.
    fn bytes(&self) -> usize;

    /// The export with which a peer uses the memory, with the rights that it was allocated with. No bell can be rung for
    /// it.
    ///
    /// # Errors
    /// [`AllocError`] if the process is out of memory or file descriptors.
    fn export(&self) -> Result<Export, AllocError>;

    /// Copies `bytes` to `offset`. For the control path: takes a microsecond or more over a bus.
    ///
    /// # Errors
    /// If the card refuses.
    ///
    /// # Panics
    /// If the range leaves the memory, or does not consist of whole words of 8 bytes.
    fn copy_in(&self, offset: usize, bytes: &[u8]) -> io::Result<()>;

    /// Copies from `offset` to `out`, as [`copy_in`](DeviceMemory::copy_in).
    ///
    /// # Errors
    /// If the card refuses.
    ///
    /// # Panics
    /// As [`copy_in`](DeviceMemory::copy_in).
    fn copy_out(&self, offset: usize, out: &mut [u8]) -> io::Result<()>;
}

/// Memory on the card for fabrics that have none: no value exists.
#[derive(Debug)]
pub enum NoDeviceMemory {}

impl DeviceMemory for NoDeviceMemory {
    fn bytes(&self) -> usize {
        match *self {}
    }

    fn export(&self) -> Result<Export, AllocError> {
        match *self {}
    }

    fn copy_in(&self, _: usize, _: &[u8]) -> io::Result<()> {
        match *self {}
    }

    fn copy_out(&self, _: usize, _: &mut [u8]) -> io::Result<()> {
        match *self {}
    }
}

/// Checks what every fabric refuses: that there is memory on the card, that the rights are consistent, and that `free` bytes
/// are enough. Returns the length to allocate: whole words.
///
/// # Errors
/// [`RegisterError`] if not.
pub fn check_device_memory(
    (fabric, all): (&'static str, usize),
    bytes: usize,
    free: usize,
    access: crate::Access,
) -> Result<usize, RegisterError> {
    if all == 0 {
        return Err(RegisterError::NoDeviceMemory { fabric });
    }
    if !access.is_consistent() {
        return Err(RegisterError::InconsistentAccess);
    }
    match bytes.max(1).checked_next_multiple_of(8) {
        Some(whole) if whole <= free => Ok(whole),
        _ => Err(RegisterError::DeviceMemoryTaken { asked: bytes, free }),
    }
}

/// Checks the range of a copy to or from `memory`.
///
/// # Panics
/// If it leaves the memory, or does not consist of whole words.
pub fn check_device_copy(memory: &impl DeviceMemory, offset: usize, len: usize) {
    let all = memory.bytes();
    assert!(
        offset.is_multiple_of(8) && len.is_multiple_of(8) && offset <= all && len <= all - offset,
        "[{offset}, +{len}) is not made of words of {all} bytes on the card"
    );
}
