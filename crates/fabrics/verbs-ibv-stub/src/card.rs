//! Memory on the card.

use super::control::{at, give, refuse, take};
use super::fabric::{Mr, fabric};
use super::memory;
use drover_verbs_ibv::ffi;
use std::ffi::c_void;
use std::ptr::null_mut;

/// Bytes of memory on the card.
const BYTES: usize = 256 << 10;

/// Reports the memory on the card.
pub extern "C" fn query_device_ex(
    _context: *mut ffi::Context,
    _input: *const c_void,
    attr: *mut ffi::DeviceAttrEx,
    size: usize,
) -> i32 {
    assert_eq!(size, size_of::<ffi::DeviceAttrEx>());
    at(attr).max_dm_size = BYTES as u64;
    0
}

/// Allocates memory that is not zeroed, as long as there is enough.
pub extern "C" fn alloc_dm(context: *mut ffi::Context, attr: *mut ffi::AllocDmAttr) -> *mut ffi::Dm {
    let length = at(attr).length;
    assert!(length.is_multiple_of(8) && at(attr).comp_mask == 0);
    let taken: usize = fabric().card.values().map(|words| 8 * words.len()).sum();
    if taken + length > BYTES {
        return refuse(libc::ENOMEM);
    }
    let dm = give(ffi::Dm {
        context,
        memcpy_to_dm: Some(memcpy_to_dm),
        memcpy_from_dm: Some(memcpy_from_dm),
    });
    let words = vec![0xa5a5_a5a5_a5a5_a5a5; length / 8].into_boxed_slice();
    fabric().card.insert(dm as usize, words);
    dm
}

/// Frees memory of which no registration is left.
pub extern "C" fn free_dm(dm: *mut ffi::Dm) -> i32 {
    drop(take(dm));
    let fabric = &mut *fabric();
    let words = fabric.card.remove(&(dm as usize)).expect("memory on the card");
    let addr = words.as_ptr() as usize;
    assert!(
        !fabric.mrs.values().any(|mr| mr.addr == addr),
        "memory on the card is registered when it is freed"
    );
    0
}

/// Registers memory on the card.
pub extern "C" fn reg_dm_mr(
    pd: *mut ffi::Pd,
    dm: *mut ffi::Dm,
    offset: u64,
    length: usize,
    access: u32,
) -> *mut ffi::Mr {
    let access = access as i32;
    assert!(
        access & ffi::ACCESS_ZERO_BASED != 0,
        "memory on the card has no address"
    );
    let Some(addr) = address(dm, offset, length) else {
        return refuse(libc::EINVAL);
    };
    let key = fabric().number();
    let mr = Mr {
        pd: fabric().protection(pd),
        addr,
        len: length as u64,
        access,
    };
    fabric().mrs.insert(key, mr);
    give(ffi::Mr {
        context: null_mut(),
        pd,
        addr: null_mut(),
        length,
        handle: key,
        lkey: key,
        rkey: key,
    })
}

/// The address that stands for `[offset, offset + length)`.
fn address(dm: *mut ffi::Dm, offset: u64, length: usize) -> Option<usize> {
    let fabric = fabric();
    let words = &fabric.card[&(dm as usize)];
    let fits = offset as usize + length <= 8 * words.len();
    fits.then(|| words.as_ptr() as usize + offset as usize)
}

extern "C" fn memcpy_to_dm(dm: *mut ffi::Dm, offset: u64, host: *const c_void, length: usize) -> i32 {
    let Some(addr) = address(dm, offset, length) else {
        return libc::EINVAL;
    };
    memory::store(addr, &memory::load(host as usize, length));
    0
}

extern "C" fn memcpy_from_dm(host: *mut c_void, dm: *mut ffi::Dm, offset: u64, length: usize) -> i32 {
    let Some(addr) = address(dm, offset, length) else {
        return libc::EINVAL;
    };
    memory::store(host as usize, &memory::load(addr, length));
    0
}
