//! Query functions of faulty or unusual machines.

use super::control::{LIMITS, at, query_port};
use drover_verbs_ibv::ffi;
use drover_verbs_ibv::survey::Limits;

/// As `query_port`, with an active MTU of 4096 bytes.
pub extern "C" fn query_wide_port(context: *mut ffi::Context, port: u8, attr: *mut ffi::PortAttr) -> i32 {
    let errno = query_port(context, port, attr);
    at(attr).active_mtu = 5;
    errno
}

/// As `query_port`, with the port down.
pub extern "C" fn query_down_port(context: *mut ffi::Context, port: u8, attr: *mut ffi::PortAttr) -> i32 {
    let errno = query_port(context, port, attr);
    at(attr).state = ffi::PORT_DOWN;
    errno
}

/// As `query_device`, with 64 KiB as the longest region that can be registered.
pub extern "C" fn query_narrow_device(_context: *mut ffi::Context, attr: *mut ffi::DeviceAttr) -> i32 {
    let limits = Limits {
        mr_bytes: 64 << 10,
        ..LIMITS
    };
    at(attr).describe(1, &limits);
    0
}

/// Reports one GID, which is null.
pub extern "C" fn query_null_gid_table(
    _context: *mut ffi::Context,
    entries: *mut ffi::GidEntry,
    _room: usize,
    _flags: u32,
    _size: usize,
) -> isize {
    *at(entries) = ffi::GidEntry {
        port_num: 1,
        gid_type: ffi::GID_TYPE_ROCE_V2,
        ..ffi::GidEntry::default()
    };
    1
}
