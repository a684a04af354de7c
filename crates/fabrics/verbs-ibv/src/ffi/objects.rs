//! Objects that the library creates and that we hold by pointer: the leading fields of each, as far as we read them.

use super::DeviceAttrEx;
use super::layout::{RecvWr, SendWr, Wc, assert_layout};
use std::ffi::{c_int, c_uint, c_void};
use std::mem::{offset_of, size_of};

/// `ibv_device`: opaque.
#[repr(C)]
pub struct Device {
    _opaque: [u8; 0],
}

/// `ibv_pd`: opaque.
#[repr(C)]
pub struct Pd {
    _opaque: [u8; 0],
}

/// `ibv_td`: opaque.
#[repr(C)]
pub struct Td {
    _opaque: [u8; 0],
}

/// `ibv_ah`: opaque.
#[repr(C)]
pub struct Ah {
    _opaque: [u8; 0],
}

pub type PollCq = unsafe extern "C" fn(cq: *mut Cq, count: c_int, wcs: *mut Wc) -> c_int;
pub type ReqNotifyCq = unsafe extern "C" fn(cq: *mut Cq, solicited_only: c_int) -> c_int;
pub type PostSend = unsafe extern "C" fn(qp: *mut Qp, wr: *mut SendWr, bad: *mut *mut SendWr) -> c_int;
pub type PostRecv = unsafe extern "C" fn(qp: *mut Qp, wr: *mut RecvWr, bad: *mut *mut RecvWr) -> c_int;
pub type PostSrqRecv = unsafe extern "C" fn(srq: *mut Srq, wr: *mut RecvWr, bad: *mut *mut RecvWr) -> c_int;

/// `ibv_context_ops`: pointers to the functions of the data path, which inline functions of the C header call. The
/// `unused` slots remain from old versions.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ContextOps {
    pub unused_0: [*mut c_void; 11],
    pub poll_cq: Option<PollCq>,
    pub req_notify_cq: Option<ReqNotifyCq>,
    pub unused_13: [*mut c_void; 7],
    pub post_srq_recv: Option<PostSrqRecv>,
    pub unused_21: [*mut c_void; 4],
    pub post_send: Option<PostSend>,
    pub post_recv: Option<PostRecv>,
    pub unused_27: [*mut c_void; 5],
}

/// `ibv_context`.
#[repr(C)]
#[derive(Debug)]
pub struct Context {
    pub device: *mut Device,
    pub ops: ContextOps,
    pub cmd_fd: c_int,
    pub async_fd: c_int,
    pub num_comp_vectors: c_int,
    /// A mutex of the library.
    pub mutex: [u64; 5],
    /// [`EXTENDED`], if the context is part of a [`VerbsContext`].
    pub abi_compat: *mut c_void,
}

/// `ibv_async_event`: an event of a device. What it is about is a pointer, or the number of a port.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AsyncEvent {
    pub element: *mut c_void,
    /// `event_type`.
    pub kind: c_int,
}

const _: () = assert!(size_of::<AsyncEvent>() == 16);

impl Default for AsyncEvent {
    fn default() -> AsyncEvent {
        AsyncEvent {
            element: std::ptr::null_mut(),
            kind: 0,
        }
    }
}

pub const EVENT_CQ_ERR: c_int = 0;
pub const EVENT_QP_FATAL: c_int = 1;
pub const EVENT_QP_REQ_ERR: c_int = 2;
pub const EVENT_QP_ACCESS_ERR: c_int = 3;
pub const EVENT_DEVICE_FATAL: c_int = 8;
pub const EVENT_PORT_ACTIVE: c_int = 9;
pub const EVENT_PORT_ERR: c_int = 10;

/// `__VERBS_ABI_IS_EXTENDED`.
pub const EXTENDED: *mut c_void = std::ptr::without_provenance_mut(usize::MAX);

pub type AllocTd = unsafe extern "C" fn(context: *mut Context, attr: *mut TdInitAttr) -> *mut Td;
pub type DeallocTd = unsafe extern "C" fn(td: *mut Td) -> c_int;
pub type AllocParentDomain =
    unsafe extern "C" fn(context: *mut Context, attr: *mut ParentDomainInitAttr) -> *mut Pd;

pub type AllocDm = unsafe extern "C" fn(context: *mut Context, attr: *mut AllocDmAttr) -> *mut Dm;
pub type FreeDm = unsafe extern "C" fn(dm: *mut Dm) -> c_int;
pub type RegDmMr =
    unsafe extern "C" fn(pd: *mut Pd, dm: *mut Dm, offset: u64, length: usize, access: c_uint) -> *mut Mr;
pub type QueryDeviceEx = unsafe extern "C" fn(
    context: *mut Context,
    input: *const c_void,
    attr: *mut DeviceAttrEx,
    size: usize,
) -> c_int;
pub type MemcpyToDm =
    unsafe extern "C" fn(dm: *mut Dm, offset: u64, host: *const c_void, length: usize) -> c_int;
pub type MemcpyFromDm =
    unsafe extern "C" fn(host: *mut c_void, dm: *mut Dm, offset: u64, length: usize) -> c_int;

/// The functions of `verbs_context` for memory on the card: `reg_dm_mr`, `alloc_dm`, `free_dm`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DmFunctions {
    pub reg: Option<RegDmMr>,
    pub alloc: Option<AllocDm>,
    pub free: Option<FreeDm>,
}

/// `verbs_context`: functions that inline functions of the C header call, and the context as its last field. It grows
/// at its beginning: a function is there only if `sz` reaches so far ([`VerbsContext::bytes_from`]).
#[repr(C)]
#[derive(Debug)]
pub struct VerbsContext {
    pub unused_0: [*mut c_void; 7],
    pub dm: DmFunctions,
    pub unused_10: [*mut c_void; 4],
    pub alloc_parent_domain: Option<AllocParentDomain>,
    pub dealloc_td: Option<DeallocTd>,
    pub alloc_td: Option<AllocTd>,
    pub unused_17: [*mut c_void; 10],
    pub query_device_ex: Option<QueryDeviceEx>,
    pub unused_28: [*mut c_void; 11],
    /// Number of bytes of this structure that the library knows, from its end.
    pub sz: usize,
    pub context: Context,
}

impl VerbsContext {
    /// Value of `sz` from which on the library has the field at `offset`.
    pub const fn bytes_from(offset: usize) -> usize {
        size_of::<VerbsContext>() - offset
    }
}

/// `ibv_td_init_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct TdInitAttr {
    pub comp_mask: u32,
}

/// `ibv_parent_domain_init_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ParentDomainInitAttr {
    pub pd: *mut Pd,
    pub td: *mut Td,
    pub comp_mask: u32,
    pub alloc: *mut c_void,
    pub free: *mut c_void,
    pub pd_context: *mut c_void,
}
assert_layout!(ParentDomainInitAttr: 48, td @ 8, comp_mask @ 16, pd_context @ 40);
assert_layout!(VerbsContext: 648, dm.reg @ 56, dm.alloc @ 64, dm.free @ 72, alloc_parent_domain @ 112,
    dealloc_td @ 120, alloc_td @ 128, query_device_ex @ 216, sz @ 312, context @ 320);
assert_layout!(Context: 328, mutex @ 280, abi_compat @ 320);
assert_layout!(ContextOps: 256, poll_cq @ 88, req_notify_cq @ 96, post_srq_recv @ 160, post_send @ 200,
    post_recv @ 208);
const _: () = assert!(offset_of!(Context, ops) == 8 && offset_of!(Context, cmd_fd) == 264);
const _: () = assert!(offset_of!(Context, async_fd) == 268 && offset_of!(Context, num_comp_vectors) == 272);

/// `ibv_alloc_dm_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct AllocDmAttr {
    pub length: usize,
    pub log_align_req: u32,
    pub comp_mask: u32,
}
assert_layout!(AllocDmAttr: 16, log_align_req @ 8);

/// `ibv_dm`, up to the last field that we read.
#[repr(C)]
#[derive(Debug)]
pub struct Dm {
    pub context: *mut Context,
    pub memcpy_to_dm: Option<MemcpyToDm>,
    pub memcpy_from_dm: Option<MemcpyFromDm>,
}
assert_layout!(Dm: 24, memcpy_to_dm @ 8, memcpy_from_dm @ 16);

/// `ibv_comp_channel`, up to the last field that we read.
#[repr(C)]
#[derive(Debug)]
pub struct CompChannel {
    pub context: *mut Context,
    pub fd: c_int,
    pub refcnt: c_int,
}
assert_layout!(CompChannel: 16, fd @ 8);

/// `ibv_cq`, up to the last field that we read.
#[repr(C)]
#[derive(Debug)]
pub struct Cq {
    pub context: *mut Context,
    pub channel: *mut CompChannel,
    pub cq_context: *mut c_void,
    pub handle: u32,
    pub cqe: c_int,
}
assert_layout!(Cq: 32, cqe @ 28);

/// `ibv_srq`, up to the last field that we read.
#[repr(C)]
#[derive(Debug)]
pub struct Srq {
    pub context: *mut Context,
    pub srq_context: *mut c_void,
    pub pd: *mut Pd,
    pub handle: u32,
}
assert_layout!(Srq: 32, handle @ 24);

/// `ibv_qp`, up to the last field that we read.
#[repr(C)]
#[derive(Debug)]
pub struct Qp {
    pub context: *mut Context,
    pub qp_context: *mut c_void,
    pub pd: *mut Pd,
    pub send_cq: *mut Cq,
    pub recv_cq: *mut Cq,
    pub srq: *mut Srq,
    pub handle: u32,
    pub qp_num: u32,
    pub state: c_uint,
    pub qp_type: c_uint,
}
assert_layout!(Qp: 64, qp_num @ 52, state @ 56, qp_type @ 60);

/// `ibv_mr`, up to the last field that we read.
#[repr(C)]
#[derive(Debug)]
pub struct Mr {
    pub context: *mut Context,
    pub pd: *mut Pd,
    pub addr: *mut c_void,
    pub length: usize,
    pub handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}
assert_layout!(Mr: 48, lkey @ 36, rkey @ 40);
