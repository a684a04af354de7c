//! The control path: creates and destroys objects, connects queue pairs.

use super::card;
use super::execute;
use super::fabric::{Cq, Mr, Qp, Recvs, fabric};
use super::send_queue::SendQueue;
use drover_verbs_ibv::ffi::{self, Library};
use drover_verbs_ibv::survey::{Atomics, Limits};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::ffi::{c_char, c_void};
use std::mem::offset_of;
use std::ptr::null_mut;

/// Longest inline payload, as in software RoCE.
const INLINE_MAX: u32 = 512;
/// Code of the port's MTU, 1024 bytes.
const MTU: u32 = 3;
/// Limits of the device; 0 where it reports none.
pub const LIMITS: Limits = Limits {
    qp: 0,
    qp_wr: 4096,
    sge: 16,
    cq: 0,
    cqe: 1 << 16,
    mr: 0,
    mr_bytes: 0,
    qp_rd_atom: 128,
    qp_init_rd_atom: 128,
    srq: 16,
    srq_wr: 4096,
    atomics: Atomics::Device,
};

/// Returns the table of all functions of the library, as on a machine without faults.
pub fn table() -> Library {
    Library {
        get_device_list,
        free_device_list,
        get_device_name,
        open_device,
        close_device,
        get_async_event,
        ack_async_event,
        query_device,
        query_port,
        query_gid_table,
        alloc_pd,
        dealloc_pd,
        reg_mr_iova,
        dereg_mr,
        create_comp_channel,
        destroy_comp_channel,
        create_cq,
        destroy_cq,
        get_cq_event,
        ack_cq_events,
        create_srq,
        destroy_srq,
        create_qp,
        modify_qp,
        query_qp,
        destroy_qp,
        create_ah,
        destroy_ah,
    }
}

/// The object behind a pointer that the provider passed.
pub fn at<'a, T>(pointer: *mut T) -> &'a mut T {
    // SAFETY: the provider passes live objects of ours, and space of its own.
    unsafe { &mut *pointer }
}

/// Gives a new object to the provider.
pub fn give<T>(object: T) -> *mut T {
    fabric().objects_alive += 1;
    Box::into_raw(Box::new(object))
}

/// Takes an object back from the provider.
pub fn take<T>(pointer: *mut T) -> Box<T> {
    fabric().objects_alive -= 1;
    // SAFETY: given out by `give`, and destroyed once.
    unsafe { Box::from_raw(pointer) }
}

/// Returns no object, with the error number `errno`.
pub fn refuse<T>(errno: i32) -> *mut T {
    set_errno(errno);
    null_mut()
}

fn set_errno(errno: i32) {
    // SAFETY: the address of this thread's error number.
    unsafe { *libc::__errno_location() = errno };
}

/// A device, domain or handle: it has no structure, only its address matters.
fn opaque<T>(number: u32) -> *mut T {
    give(number).cast()
}

// A list of one device and its terminator. The device is a static: its address is its identity.
static DEVICE: u64 = 0;

extern "C" fn get_device_list(count: *mut i32) -> *mut *mut ffi::Device {
    *at(count) = 1;
    let device = std::ptr::from_ref(&DEVICE).cast_mut().cast();
    give([device, null_mut::<ffi::Device>()]).cast()
}

/// As `get_device_list`, for a machine without devices.
pub extern "C" fn no_devices(count: *mut i32) -> *mut *mut ffi::Device {
    *at(count) = 0;
    give([null_mut::<ffi::Device>(), null_mut()]).cast()
}

/// As `get_device_list`, but fails with `ENOSYS`, as without kernel modules.
pub extern "C" fn no_kernel_part(_count: *mut i32) -> *mut *mut ffi::Device {
    refuse(libc::ENOSYS)
}

extern "C" fn free_device_list(list: *mut *mut ffi::Device) {
    drop(take(list.cast::<[*mut ffi::Device; 2]>()));
}

extern "C" fn get_device_name(_device: *mut ffi::Device) -> *const c_char {
    c"stub0".as_ptr()
}

extern "C" fn open_device(device: *mut ffi::Device) -> *mut ffi::Context {
    open_with(device, OPS)
}

extern "C" fn get_async_event(_: *mut ffi::Context, event: *mut ffi::AsyncEvent) -> i32 {
    let fabric = &mut *fabric();
    let Some(kind) = fabric.events.pop_front() else {
        set_errno(libc::EAGAIN);
        return -1;
    };
    fabric.events_taken += 1;
    at(event).kind = kind;
    0
}

extern "C" fn ack_async_event(_: *mut ffi::AsyncEvent) {
    fabric().events_taken -= 1;
}

/// The data path.
const OPS: ffi::ContextOps = ffi::ContextOps {
    poll_cq: Some(execute::poll_cq),
    req_notify_cq: Some(execute::req_notify_cq),
    post_srq_recv: Some(execute::post_srq_recv),
    post_send: Some(execute::post_send),
    post_recv: Some(execute::post_recv),
    ..NO_OPS
};

/// A data path without functions.
pub const NO_OPS: ffi::ContextOps = ffi::ContextOps {
    unused_0: [null_mut(); 11],
    poll_cq: None,
    req_notify_cq: None,
    unused_13: [null_mut(); 7],
    post_srq_recv: None,
    unused_21: [null_mut(); 4],
    post_send: None,
    post_recv: None,
    unused_27: [null_mut(); 5],
};

/// Opens `device` with the data path `ops`, and thread domains.
pub fn open_with(device: *mut ffi::Device, ops: ffi::ContextOps) -> *mut ffi::Context {
    open_extended(device, ops, size_of::<ffi::VerbsContext>())
}

/// As `open_device`, with a driver of which the library knows `sz` bytes of functions and context.
fn open_extended(device: *mut ffi::Device, ops: ffi::ContextOps, sz: usize) -> *mut ffi::Context {
    fabric().counts.devices += 1;
    let outer = give(ffi::VerbsContext {
        unused_0: [null_mut(); 7],
        dm: ffi::DmFunctions {
            reg: Some(card::reg_dm_mr),
            alloc: Some(card::alloc_dm),
            free: Some(card::free_dm),
        },
        unused_10: [null_mut(); 4],
        alloc_parent_domain: Some(alloc_parent_domain),
        dealloc_td: Some(dealloc_td),
        alloc_td: Some(alloc_td),
        unused_17: [null_mut(); 10],
        query_device_ex: Some(card::query_device_ex),
        unused_28: [null_mut(); 11],
        sz,
        context: ffi::Context {
            device,
            ops,
            cmd_fd: -1,
            async_fd: -1,
            num_comp_vectors: 1,
            mutex: [0; 5],
            abi_compat: ffi::EXTENDED,
        },
    });
    &raw mut at(outer).context
}

/// As `open_device`, but the library is too old to know thread domains.
pub extern "C" fn open_old(device: *mut ffi::Device) -> *mut ffi::Context {
    let sz = ffi::VerbsContext::bytes_from(offset_of!(ffi::VerbsContext, alloc_td));
    open_extended(device, OPS, sz)
}

/// As `open_device`, but the driver has no thread domains and no memory on the card, as software RoCE.
pub extern "C" fn open_plain(device: *mut ffi::Device) -> *mut ffi::Context {
    let context = open_device(device);
    let outer = at(outer(context));
    (outer.alloc_td, outer.dealloc_td, outer.alloc_parent_domain) = (None, None, None);
    (outer.dm.reg, outer.dm.alloc, outer.dm.free) = (None, None, None);
    context
}

/// What a context of ours is part of.
fn outer(context: *mut ffi::Context) -> *mut ffi::VerbsContext {
    let before = offset_of!(ffi::VerbsContext, context);
    context.wrapping_byte_sub(before).cast()
}

/// As `open_device`, but fails with `EACCES`.
pub extern "C" fn not_permitted(_device: *mut ffi::Device) -> *mut ffi::Context {
    refuse(libc::EACCES)
}

extern "C" fn close_device(context: *mut ffi::Context) -> i32 {
    fabric().counts.devices -= 1;
    drop(take(outer(context)));
    0
}

extern "C" fn query_device(_context: *mut ffi::Context, attr: *mut ffi::DeviceAttr) -> i32 {
    at(attr).describe(1, &LIMITS);
    0
}

/// Reports an active Ethernet port with an MTU of 1024 bytes. Returns `EINVAL` for any port but 1.
pub extern "C" fn query_port(_context: *mut ffi::Context, port: u8, attr: *mut ffi::PortAttr) -> i32 {
    let attr = at(attr);
    (attr.state, attr.active_mtu, attr.gid_tbl_len) = (ffi::PORT_ACTIVE, MTU, 8);
    (attr.max_msg_sz, attr.link_layer) = (8 << 20, ffi::LINK_LAYER_ETHERNET);
    if port == 1 { 0 } else { libc::EINVAL }
}

extern "C" fn query_gid_table(
    _context: *mut ffi::Context,
    entries: *mut ffi::GidEntry,
    space: usize,
    _flags: u32,
    size: usize,
) -> isize {
    assert!(space >= 2 && size == size_of::<ffi::GidEntry>());
    let link_local: std::net::Ipv6Addr = "fe80::1".parse().expect("an address");
    let ipv4 = std::net::Ipv4Addr::new(10, 9, 0, 1).to_ipv6_mapped();
    for (index, address) in [link_local, ipv4].into_iter().enumerate() {
        *at(entries.wrapping_add(index)) = ffi::GidEntry {
            gid: address.octets(),
            gid_index: index as u32,
            port_num: 1,
            gid_type: ffi::GID_TYPE_ROCE_V2,
            ndev_ifindex: 1,
        };
    }
    2
}

extern "C" fn alloc_pd(_context: *mut ffi::Context) -> *mut ffi::Pd {
    fabric().counts.protection_domains += 1;
    opaque(0)
}

/// Frees a protection domain or a parent domain.
extern "C" fn dealloc_pd(pd: *mut ffi::Pd) -> i32 {
    drop(take(pd.cast::<u32>()));
    let fabric = &mut *fabric();
    let is_used = |of: &(usize, usize)| of.0 == pd as usize;
    assert!(
        !fabric.parents.values().any(is_used),
        "a parent domain outlives its protection domain"
    );
    match fabric.parents.remove(&(pd as usize)) {
        Some(_) => fabric.counts.parent_domains -= 1,
        None => fabric.counts.protection_domains -= 1,
    }
    0
}

extern "C" fn alloc_td(_context: *mut ffi::Context, attr: *mut ffi::TdInitAttr) -> *mut ffi::Td {
    assert_eq!(at(attr).comp_mask, 0);
    fabric().counts.thread_domains += 1;
    opaque(2)
}

extern "C" fn dealloc_td(td: *mut ffi::Td) -> i32 {
    drop(take(td.cast::<u32>()));
    let fabric = &mut *fabric();
    let is_used = |of: &(usize, usize)| of.1 == td as usize;
    assert!(
        !fabric.parents.values().any(is_used),
        "a parent domain outlives its thread domain"
    );
    fabric.counts.thread_domains -= 1;
    0
}

extern "C" fn alloc_parent_domain(
    _context: *mut ffi::Context,
    attr: *mut ffi::ParentDomainInitAttr,
) -> *mut ffi::Pd {
    let attr = at(attr);
    assert_eq!(attr.comp_mask, 0);
    let parent = opaque::<ffi::Pd>(3);
    let fabric = &mut *fabric();
    fabric.counts.parent_domains += 1;
    let of = (attr.pd as usize, attr.td as usize);
    fabric.parents.insert(parent as usize, of);
    parent
}

extern "C" fn reg_mr_iova(
    pd: *mut ffi::Pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: i32,
) -> *mut ffi::Mr {
    assert_eq!(iova, 0, "memory is registered at address 0");
    let key = fabric().number();
    let mr = Mr {
        pd: fabric().protection(pd),
        addr: addr as usize,
        len: length as u64,
        access,
    };
    fabric().mrs.insert(key, mr);
    give(ffi::Mr {
        context: null_mut(),
        pd,
        addr,
        length,
        handle: key,
        lkey: key,
        rkey: key,
    })
}

/// As `reg_mr_iova`, but fails with `ENOMEM`.
pub extern "C" fn no_memory(_: *mut ffi::Pd, _: *mut c_void, _: usize, _: u64, _: i32) -> *mut ffi::Mr {
    refuse(libc::ENOMEM)
}

extern "C" fn dereg_mr(mr: *mut ffi::Mr) -> i32 {
    let key = take(mr).handle;
    fabric().mrs.remove(&key);
    0
}

extern "C" fn create_comp_channel(context: *mut ffi::Context) -> *mut ffi::CompChannel {
    let fd = eventfd(0, EventfdFlags::CLOEXEC)
        .expect("a descriptor")
        .into_raw_fd();
    fabric().channels.insert(fd, Default::default());
    let refcnt = 0;
    give(ffi::CompChannel { context, fd, refcnt })
}

extern "C" fn destroy_comp_channel(channel: *mut ffi::CompChannel) -> i32 {
    let fd = take(channel).fd;
    fabric().channels.remove(&fd);
    // SAFETY: created by `create_comp_channel`, closed once.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    0
}

fn borrowed<'a>(fd: i32) -> BorrowedFd<'a> {
    // SAFETY: a channel's descriptor, open until the channel is destroyed.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// Makes the completion channel with the file descriptor `fd` readable.
pub fn signal(fd: i32) {
    rustix::io::write(borrowed(fd), &1u64.to_ne_bytes()).expect("space for an event");
}

extern "C" fn get_cq_event(
    channel: *mut ffi::CompChannel,
    cq: *mut *mut ffi::Cq,
    _context: *mut *mut c_void,
) -> i32 {
    let fd = at(channel).fd;
    let fabric = &mut *fabric();
    let events = fabric.channels.get_mut(&fd).expect("a live channel");
    let Some(address) = events.pop_front() else {
        set_errno(libc::EAGAIN);
        return -1;
    };
    if events.is_empty() {
        let _ = rustix::io::read(borrowed(fd), &mut [0; 8]);
    }
    *at(cq) = address as *mut ffi::Cq;
    0
}

extern "C" fn ack_cq_events(_cq: *mut ffi::Cq, _count: u32) {}

extern "C" fn create_cq(
    context: *mut ffi::Context,
    cqe: i32,
    cq_context: *mut c_void,
    channel: *mut ffi::CompChannel,
    _vector: i32,
) -> *mut ffi::Cq {
    let handle = fabric().number();
    let cq = give(ffi::Cq {
        context,
        channel,
        cq_context,
        handle,
        cqe,
    });
    let state = Cq {
        address: cq as usize,
        channel: at(channel).fd,
        armed: false,
        ready: Default::default(),
    };
    fabric().cqs.insert(handle, state);
    cq
}

extern "C" fn destroy_cq(cq: *mut ffi::Cq) -> i32 {
    let handle = take(cq).handle;
    let fabric = &mut *fabric();
    let used = |qp: &Qp| qp.send_cq == handle || qp.recv_cq == handle;
    assert!(
        !fabric.qps.values().any(used),
        "a queue pair outlives its completion queue"
    );
    fabric.cqs.remove(&handle);
    0
}

extern "C" fn create_srq(pd: *mut ffi::Pd, attr: *mut ffi::SrqInitAttr) -> *mut ffi::Srq {
    let handle = fabric().number();
    let recvs = Recvs {
        depth: at(attr).max_wr as usize,
        ..Recvs::default()
    };
    fabric().srqs.insert(handle, recvs);
    give(ffi::Srq {
        context: null_mut(),
        srq_context: null_mut(),
        pd,
        handle,
    })
}

extern "C" fn destroy_srq(srq: *mut ffi::Srq) -> i32 {
    let handle = take(srq).handle;
    let fabric = &mut *fabric();
    assert!(
        !fabric.qps.values().any(|qp| qp.srq == Some(handle)),
        "a queue pair outlives its receive queue"
    );
    fabric.srqs.remove(&handle);
    0
}

extern "C" fn create_qp(pd: *mut ffi::Pd, init: *mut ffi::QpInitAttr) -> *mut ffi::Qp {
    let init = at(init);
    if init.cap.max_inline_data > INLINE_MAX {
        return refuse(libc::EINVAL);
    }
    assert_eq!(init.sq_sig_all, 0, "unsignaled requests make no completion");
    let qp_num = fabric().number();
    let srq = (!init.srq.is_null()).then(|| at(init.srq).handle);
    let depth = init.cap.max_recv_wr as usize;
    let state = Qp {
        pd: fabric().protection(pd),
        kind: init.qp_type,
        state: ffi::QPS_RESET,
        send_cq: at(init.send_cq).handle,
        recv_cq: at(init.recv_cq).handle,
        srq,
        sends: SendQueue::new(&init.cap),
        recvs: Recvs {
            depth,
            ..Recvs::default()
        },
        attr: ffi::QpAttr::to(ffi::QPS_RESET),
    };
    fabric().qps.insert(qp_num, state);
    give(ffi::Qp {
        context: null_mut(),
        qp_context: init.qp_context,
        pd,
        send_cq: init.send_cq,
        recv_cq: init.recv_cq,
        srq: init.srq,
        handle: qp_num,
        qp_num,
        state: ffi::QPS_RESET,
        qp_type: init.qp_type,
    })
}

/// Attributes that a transition requires at least.
fn wanted(kind: u32, state: u32) -> i32 {
    let reliable = kind == ffi::QPT_RC;
    let more = |mask| if reliable { mask } else { 0 };
    match (state, kind) {
        (ffi::QPS_INIT, ffi::QPT_UD) => ffi::QP_PKEY_INDEX | ffi::QP_PORT | ffi::QP_QKEY,
        (ffi::QPS_INIT, _) => ffi::QP_PKEY_INDEX | ffi::QP_PORT | ffi::QP_ACCESS_FLAGS,
        (ffi::QPS_RTR, ffi::QPT_UD) => 0,
        (ffi::QPS_RTR, _) => {
            ffi::QP_AV
                | ffi::QP_PATH_MTU
                | ffi::QP_DEST_QPN
                | ffi::QP_RQ_PSN
                | more(ffi::QP_MAX_DEST_RD_ATOMIC | ffi::QP_MIN_RNR_TIMER)
        }
        (ffi::QPS_RTS, _) => {
            ffi::QP_SQ_PSN
                | more(ffi::QP_TIMEOUT | ffi::QP_RETRY_CNT | ffi::QP_RNR_RETRY | ffi::QP_MAX_QP_RD_ATOMIC)
        }
        _ => 0,
    }
}

extern "C" fn modify_qp(qp: *mut ffi::Qp, attr: *mut ffi::QpAttr, mask: i32) -> i32 {
    let (qpn, attr) = (at(qp).qp_num, *at(attr));
    let fabric = &mut *fabric();
    let state = fabric.qps.get_mut(&qpn).expect("a live queue pair");
    assert_eq!(
        mask & !ffi::QP_STATE,
        wanted(state.kind, attr.qp_state),
        "attributes of the transition to {}",
        attr.qp_state
    );
    if attr.qp_state == ffi::QPS_ERR {
        fabric.break_qp(qpn);
        return 0;
    }
    if attr.qp_state == ffi::QPS_RESET {
        // What was posted would vanish without completions.
        assert!(
            state.sends.is_empty() && state.recvs.wrs.is_empty(),
            "a queue pair is reset that has requests"
        );
        state.state = ffi::QPS_RESET;
        return 0;
    }
    if attr.qp_state != state.state + 1 {
        return libc::EINVAL;
    }
    if attr.qp_state == ffi::QPS_RTR {
        assert!(
            attr.ah_attr.is_global == 1 || state.kind == ffi::QPT_UD,
            "RoCE needs a GID"
        );
    }
    (state.state, state.attr) = (attr.qp_state, attr);
    0
}

extern "C" fn query_qp(
    qp: *mut ffi::Qp,
    attr: *mut ffi::QpAttr,
    _mask: i32,
    _init: *mut ffi::QpInitAttr,
) -> i32 {
    let state = &fabric().qps[&at(qp).qp_num];
    let attr = at(attr);
    *attr = state.attr;
    (attr.qp_state, attr.sq_psn, attr.rq_psn) = (state.state, 7, 9);
    0
}

extern "C" fn destroy_qp(qp: *mut ffi::Qp) -> i32 {
    let qpn = take(qp).qp_num;
    fabric().qps.remove(&qpn);
    0
}

extern "C" fn create_ah(_pd: *mut ffi::Pd, attr: *mut ffi::AhAttr) -> *mut ffi::Ah {
    assert!(
        at(attr).is_global == 1 && at(attr).port_num == 1,
        "RoCE needs a GID"
    );
    opaque(1)
}

extern "C" fn destroy_ah(ah: *mut ffi::Ah) -> i32 {
    drop(take(ah.cast::<u32>()));
    0
}
