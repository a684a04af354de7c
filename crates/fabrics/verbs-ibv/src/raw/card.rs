//! Memory on the card, and how much of it there is.

use super::{Opened, Protection, check, made};
use crate::ffi;
use std::ffi::{c_int, c_void};
use std::io;
use std::mem::{offset_of, zeroed};
use std::ptr::{NonNull, null};
use std::sync::Arc;

/// Functions of a driver that gives programs memory on the card.
struct CardFunctions {
    alloc: ffi::AllocDm,
    free: ffi::FreeDm,
    register: ffi::RegDmMr,
}

impl Opened {
    fn card_functions(&self) -> Option<CardFunctions> {
        let outer = self.extended(offset_of!(ffi::VerbsContext, dm))?;
        // SAFETY: the library has these fields, as its size says.
        let of = unsafe { (*outer).dm };
        Some(CardFunctions {
            alloc: of.alloc?,
            free: of.free?,
            register: of.reg?,
        })
    }

    /// Bytes of memory on the card that can be had; 0 if there is none, or the library does not say.
    pub(crate) fn card_memory_bytes(&self) -> usize {
        let told = || {
            self.card_functions()?;
            let outer = self.extended(offset_of!(ffi::VerbsContext, query_device_ex))?;
            // SAFETY: the library has this field, as its size says.
            let query = unsafe { (*outer).query_device_ex }?;
            // SAFETY: numbers only, so all zeros are valid.
            let mut attr = unsafe { zeroed::<ffi::DeviceAttrEx>() };
            // SAFETY: a function of this open device; space for the result, of that size.
            let errno = unsafe {
                query(
                    self.ptr.as_ptr(),
                    null(),
                    &mut attr,
                    size_of::<ffi::DeviceAttrEx>(),
                )
            };
            check(errno).ok()?;
            usize::try_from(attr.max_dm_size).ok()
        };
        told().unwrap_or(0)
    }
}

/// Registered memory on the card, at device address 0.
pub(crate) struct CardMemory {
    pd: Arc<Protection>,
    dm: NonNull<ffi::Dm>,
    mr: NonNull<ffi::Mr>,
    free: ffi::FreeDm,
    to: ffi::MemcpyToDm,
    from: ffi::MemcpyFromDm,
}

impl CardMemory {
    /// Allocates `bytes`, which may not be zeroed.
    pub(crate) fn new(pd: &Arc<Protection>, bytes: usize, access: c_int) -> io::Result<CardMemory> {
        let none = || io::Error::from_raw_os_error(libc::EOPNOTSUPP);
        let opened = &pd.opened;
        let of = opened.card_functions().ok_or_else(none)?;
        let mut attr = ffi::AllocDmAttr {
            length: bytes,
            log_align_req: 3,
            comp_mask: 0,
        };
        // SAFETY: a function of this open device; the attributes are only read.
        let dm = made(unsafe { (of.alloc)(opened.ptr.as_ptr(), &mut attr) })?;
        // SAFETY: just allocated; these fields do not change.
        let copies = unsafe { (dm.as_ref().memcpy_to_dm, dm.as_ref().memcpy_from_dm) };
        let access = (access | ffi::ACCESS_ZERO_BASED) as u32;
        let registered = match copies {
            (Some(to), Some(from)) => {
                // SAFETY: objects of this open device; the memory is as long as that.
                let mr = unsafe { (of.register)(pd.ptr.as_ptr(), dm.as_ptr(), 0, bytes, access) };
                made(mr).map(|mr| (mr, to, from))
            }
            _ => Err(none()),
        };
        match registered {
            Ok((mr, to, from)) => Ok(CardMemory {
                pd: pd.clone(),
                dm,
                mr,
                free: of.free,
                to,
                from,
            }),
            Err(error) => {
                // SAFETY: allocated above, and not registered.
                unsafe { (of.free)(dm.as_ptr()) };
                Err(error)
            }
        }
    }

    /// The remote key.
    pub(crate) fn rkey(&self) -> u32 {
        // SAFETY: registered by us; the key does not change.
        unsafe { self.mr.as_ref() }.rkey
    }

    /// Copies `bytes` to `offset`; the caller has checked the range.
    pub(crate) fn copy_in(&self, offset: usize, bytes: &[u8]) -> io::Result<()> {
        let host = bytes.as_ptr().cast::<c_void>();
        // SAFETY: our memory, and bytes to read of that length.
        check(unsafe { (self.to)(self.dm.as_ptr(), offset as u64, host, bytes.len()) })
    }

    /// Copies from `offset` to `out`; the caller has checked the range.
    pub(crate) fn copy_out(&self, offset: usize, out: &mut [u8]) -> io::Result<()> {
        let host = out.as_mut_ptr().cast::<c_void>();
        // SAFETY: our memory, and space of that length.
        check(unsafe { (self.from)(host, self.dm.as_ptr(), offset as u64, out.len()) })
    }
}

impl Drop for CardMemory {
    fn drop(&mut self) {
        // SAFETY: registered by us, once.
        unsafe { (self.pd.opened.lib.dereg_mr)(self.mr.as_ptr()) };
        // SAFETY: allocated by us, freed once, after its registration.
        unsafe { (self.free)(self.dm.as_ptr()) };
    }
}
