//! A stub libibverbs: a fabric in this process that executes verbs in the simplest way, behind the library's functions
//! and structures. It does not lose packets, reorder or take time; tests with devices in a guest cover these.
//!
//! One fabric under one lock; objects are numbers in its tables, and the library's structures hold the number.
//!
//! Only tests and examples use it.
#![allow(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "called through the library's table, with its contracts"
)]

mod control;
mod execute;
mod fabric;
pub mod idle;
mod memory;
mod odd;
mod send_queue;

use drover_verbs_ibv::ffi::Library;
use std::sync::Arc;

/// The library of a machine with one device, `stub0`, whose only port has a link-local and an IPv4 address.
pub fn library() -> Arc<Library> {
    Arc::new(control::table())
}

/// As [`library`], with a data path that does nothing, which leaves only the cost of the calls.
pub fn idle_library() -> Arc<Library> {
    let open_device = idle::open_device;
    Arc::new(Library {
        open_device,
        ..control::table()
    })
}

/// The library of a machine without devices.
pub fn empty_library() -> Arc<Library> {
    let get_device_list = control::no_devices;
    Arc::new(Library {
        get_device_list,
        ..control::table()
    })
}

/// The library of a machine without the kernel modules for verbs.
pub fn kernel_less_library() -> Arc<Library> {
    let get_device_list = control::no_kernel_part;
    Arc::new(Library {
        get_device_list,
        ..control::table()
    })
}

/// The library of a machine where this user has no permission to open the device.
pub fn locked_library() -> Arc<Library> {
    let open_device = control::not_permitted;
    Arc::new(Library {
        open_device,
        ..control::table()
    })
}

/// The library of a machine that cannot pin more memory.
pub fn full_library() -> Arc<Library> {
    let reg_mr_iova = control::no_memory;
    Arc::new(Library {
        reg_mr_iova,
        ..control::table()
    })
}

/// The library of a machine whose port has only a null GID.
pub fn null_gid_library() -> Arc<Library> {
    let query_gid_table = odd::query_null_gid_table;
    Arc::new(Library {
        query_gid_table,
        ..control::table()
    })
}

/// The library of a machine whose port carries packets of 4096 bytes, on the same fabric.
pub fn wide_library() -> Arc<Library> {
    let query_port = odd::query_wide_port;
    Arc::new(Library {
        query_port,
        ..control::table()
    })
}

/// The library of a machine whose port is down.
pub fn down_library() -> Arc<Library> {
    let query_port = odd::query_down_port;
    Arc::new(Library {
        query_port,
        ..control::table()
    })
}

/// The library of a machine whose device registers no more than 64 KiB at once.
pub fn narrow_library() -> Arc<Library> {
    let query_device = odd::query_narrow_device;
    Arc::new(Library {
        query_device,
        ..control::table()
    })
}

/// Number of objects of this process that are created and not yet destroyed.
pub fn objects_alive() -> usize {
    fabric::fabric().objects_alive
}
