//! A stub libibverbs: a fabric in this process that executes verbs in the simplest way, behind the library's functions
//! and structures. It does not lose or reorder packets, and takes no time; tests with devices in a guest cover these.
//!
//! One fabric under one lock; objects are numbers in its tables, and the library's structures hold the number.
//!
//! Only tests and examples use it.
#![allow(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "called through the library's table, with its contracts"
)]

mod card;
mod control;
mod execute;
mod fabric;
pub mod idle;
mod memory;
mod odd;
mod send_queue;

pub use fabric::Counts;

use drover_verbs_ibv::ffi::Library;
use std::sync::Arc;

/// Creates a table of stub functions in place of those of libibverbs, for
/// [`IbvOptions::library`](drover_verbs_ibv::IbvOptions::library). The machine has one device, `stub0`, whose only port
/// is active and has a link-local and an IPv4 address. All libraries of this crate share one fabric per process, so
/// their queue pairs can be connected.
pub fn library() -> Arc<Library> {
    Arc::new(control::table())
}

/// As [`library`], but with the data path of [`idle`]: posts do nothing, and each poll returns as many completions as
/// requested. What a call costs is then the cost of the provider.
pub fn idle_library() -> Arc<Library> {
    let open_device = idle::open_device;
    Arc::new(Library {
        open_device,
        ..control::table()
    })
}

/// As [`library`], but the machine has no devices.
pub fn empty_library() -> Arc<Library> {
    let get_device_list = control::no_devices;
    Arc::new(Library {
        get_device_list,
        ..control::table()
    })
}

/// As [`library`], but the kernel modules for verbs are not loaded: listing devices fails with `ENOSYS`.
pub fn kernel_less_library() -> Arc<Library> {
    let get_device_list = control::no_kernel_part;
    Arc::new(Library {
        get_device_list,
        ..control::table()
    })
}

/// As [`library`], but opening the device fails with `EACCES`.
pub fn locked_library() -> Arc<Library> {
    let open_device = control::not_permitted;
    Arc::new(Library {
        open_device,
        ..control::table()
    })
}

/// As [`library`], but every registration of memory fails with `ENOMEM`.
pub fn full_library() -> Arc<Library> {
    let reg_mr_iova = control::no_memory;
    Arc::new(Library {
        reg_mr_iova,
        ..control::table()
    })
}

/// As [`library`], but the port's only GID is null.
pub fn null_gid_library() -> Arc<Library> {
    let query_gid_table = odd::query_null_gid_table;
    Arc::new(Library {
        query_gid_table,
        ..control::table()
    })
}

/// As [`library`], but the port's MTU (most payload bytes of a packet) is 4096 instead of 1024.
pub fn wide_library() -> Arc<Library> {
    let query_port = odd::query_wide_port;
    Arc::new(Library {
        query_port,
        ..control::table()
    })
}

/// As [`library`], but the port is down.
pub fn down_library() -> Arc<Library> {
    let query_port = odd::query_down_port;
    Arc::new(Library {
        query_port,
        ..control::table()
    })
}

/// As [`library`], but the device reports 64 KiB as its longest registration.
pub fn narrow_library() -> Arc<Library> {
    let query_device = odd::query_narrow_device;
    Arc::new(Library {
        query_device,
        ..control::table()
    })
}

/// As [`library`], but the driver has neither thread domains nor memory on the card.
pub fn plain_library() -> Arc<Library> {
    let open_device = control::open_plain;
    Arc::new(Library {
        open_device,
        ..control::table()
    })
}

/// As [`library`], but of a version before thread domains: its contexts are shorter.
pub fn old_library() -> Arc<Library> {
    let open_device = control::open_old;
    Arc::new(Library {
        open_device,
        ..control::table()
    })
}

/// Numbers of objects of some kinds that are alive, of all libraries of this process together.
pub fn counts() -> Counts {
    let fabric = fabric::fabric();
    Counts {
        registrations: fabric.mrs.len(),
        device_memories: fabric.card.len(),
        ..fabric.counts
    }
}

/// Lets some device of this process have asynchronous events of these kinds.
pub fn raise(kinds: &[i32]) {
    fabric::fabric().events.extend(kinds);
}

/// Number of asynchronous events that were taken and not acknowledged.
pub fn unacknowledged() -> usize {
    fabric::fabric().events_taken
}

/// Number of objects (contexts, queues, registrations, device lists and so on) of all libraries of this process that
/// are created and not yet destroyed.
pub fn objects_alive() -> usize {
    fabric::fabric().objects_alive
}
