//! Types that cross the ABI by value (requests, completions, attributes for creating objects), and their constants.
//!
//! Offsets are those of `[rdma-core]` on 64-bit machines, read by a C program from its header; they are the same in all
//! versions since 25.

use super::{Ah, Cq, Srq};
use std::ffi::{c_int, c_uint, c_void};
use std::mem::{offset_of, size_of};

/// Asserts sizes and offsets that the library relies on.
macro_rules! assert_layout {
    ($type:ty: $size:literal $(, $($field:ident).+ @ $at:literal)*) => {
        const _: () = assert!(size_of::<$type>() == $size);
        $(const _: () = assert!(offset_of!($type, $($field).+) == $at);)*
    };
}
pub(super) use assert_layout;

/// `ibv_gid_entry`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct GidEntry {
    pub gid: [u8; 16],
    pub gid_index: u32,
    pub port_num: u32,
    pub gid_type: u32,
    pub ndev_ifindex: u32,
}
assert_layout!(GidEntry: 32, gid_index @ 16, port_num @ 20, gid_type @ 24, ndev_ifindex @ 28);

/// `ibv_sge`. `addr` is an address of this process for inline payloads, else an offset in the region that `lkey` names:
/// the provider registers memory at address 0.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}
assert_layout!(Sge: 16, length @ 8, lkey @ 12);

/// Target of a WRITE or READ: `wr.rdma` of `ibv_send_wr`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Rdma {
    pub remote_addr: u64,
    pub rkey: u32,
}

/// Target and operands of an atomic: `wr.atomic` of `ibv_send_wr`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Atomic {
    pub remote_addr: u64,
    pub compare_add: u64,
    pub swap: u64,
    pub rkey: u32,
}

/// Target of a datagram: `wr.ud` of `ibv_send_wr`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Ud {
    pub ah: *mut Ah,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
}

/// Target of a request, the union `wr` of `ibv_send_wr`: opcode and kind of queue pair select the variant.
#[repr(C)]
#[derive(Clone, Copy)]
pub union Target {
    pub rdma: Rdma,
    pub atomic: Atomic,
    pub ud: Ud,
}

/// `ibv_send_wr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SendWr {
    pub wr_id: u64,
    pub next: *mut SendWr,
    pub sg_list: *mut Sge,
    pub num_sge: c_int,
    pub opcode: c_uint,
    pub send_flags: c_uint,
    /// In network byte order.
    pub imm_data: u32,
    pub wr: Target,
    /// The unions `qp_type` (XRC) and `bind_mw`/`tso`: not used.
    pub unused: [u64; 7],
}
assert_layout!(SendWr: 128, next @ 8, sg_list @ 16, num_sge @ 24, opcode @ 28, send_flags @ 32, imm_data @ 36,
    wr @ 40, wr.rdma.rkey @ 48, wr.atomic.compare_add @ 48, wr.atomic.swap @ 56, wr.atomic.rkey @ 64,
    wr.ud.remote_qpn @ 48, wr.ud.remote_qkey @ 52, unused @ 72);

impl SendWr {
    /// A SEND without payload, unsignaled, to be filled in.
    pub const EMPTY: SendWr = SendWr {
        wr_id: 0,
        next: std::ptr::null_mut(),
        sg_list: std::ptr::null_mut(),
        num_sge: 0,
        opcode: WR_SEND,
        send_flags: 0,
        imm_data: 0,
        wr: Target {
            atomic: Atomic {
                remote_addr: 0,
                compare_add: 0,
                swap: 0,
                rkey: 0,
            },
        },
        unused: [0; 7],
    };
}

/// `ibv_recv_wr`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RecvWr {
    pub wr_id: u64,
    pub next: *mut RecvWr,
    pub sg_list: *mut Sge,
    pub num_sge: c_int,
}
assert_layout!(RecvWr: 32, next @ 8, sg_list @ 16, num_sge @ 24);

/// `ibv_wc`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Wc {
    pub wr_id: u64,
    pub status: c_uint,
    pub opcode: c_uint,
    pub vendor_err: u32,
    pub byte_len: u32,
    /// In network byte order.
    pub imm_data: u32,
    pub qp_num: u32,
    pub src_qp: u32,
    pub wc_flags: c_uint,
    /// `pkey_index`, `slid`, `sl` and `dlid_path_bits`: not used.
    pub unused: [u16; 4],
}
assert_layout!(Wc: 48, status @ 8, opcode @ 12, vendor_err @ 16, byte_len @ 20, imm_data @ 24, qp_num @ 28,
    src_qp @ 32, wc_flags @ 36, unused @ 40);

/// `ibv_global_route`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct GlobalRoute {
    pub dgid: [u8; 16],
    pub flow_label: u32,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
}

/// `ibv_ah_attr`.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default)]
pub struct AhAttr {
    pub grh: GlobalRoute,
    pub dlid: u16,
    pub sl: u8,
    pub src_path_bits: u8,
    pub static_rate: u8,
    pub is_global: u8,
    pub port_num: u8,
}
assert_layout!(AhAttr: 32, grh.sgid_index @ 20, dlid @ 24, is_global @ 29, port_num @ 30);

/// `ibv_qp_cap`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct QpCap {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
}
assert_layout!(QpCap: 20, max_inline_data @ 16);

/// `ibv_qp_init_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct QpInitAttr {
    pub qp_context: *mut c_void,
    pub send_cq: *mut Cq,
    pub recv_cq: *mut Cq,
    pub srq: *mut Srq,
    pub cap: QpCap,
    pub qp_type: c_uint,
    pub sq_sig_all: c_int,
}
assert_layout!(QpInitAttr: 64, srq @ 24, cap @ 32, qp_type @ 52, sq_sig_all @ 56);

/// `ibv_srq_init_attr`, with its `ibv_srq_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SrqInitAttr {
    pub srq_context: *mut c_void,
    pub max_wr: u32,
    pub max_sge: u32,
    pub srq_limit: u32,
}
assert_layout!(SrqInitAttr: 24, max_wr @ 8, max_sge @ 12);

pub const GID_TYPE_IB: u32 = 0;
pub const GID_TYPE_ROCE_V1: u32 = 1;
pub const GID_TYPE_ROCE_V2: u32 = 2;

pub const PORT_DOWN: c_uint = 1;
pub const PORT_INIT: c_uint = 2;
pub const PORT_ARMED: c_uint = 3;
pub const PORT_ACTIVE: c_uint = 4;
pub const LINK_LAYER_ETHERNET: u8 = 2;
pub const ATOMIC_NONE: c_uint = 0;
pub const ATOMIC_HCA: c_uint = 1;
pub const ATOMIC_GLOB: c_uint = 2;

pub const ACCESS_LOCAL_WRITE: c_int = 1;
pub const ACCESS_REMOTE_WRITE: c_int = 1 << 1;
pub const ACCESS_REMOTE_READ: c_int = 1 << 2;
pub const ACCESS_REMOTE_ATOMIC: c_int = 1 << 3;
pub const ACCESS_ZERO_BASED: c_int = 1 << 5;

pub const QPT_RC: c_uint = 2;
pub const QPT_UC: c_uint = 3;
pub const QPT_UD: c_uint = 4;

pub const QPS_RESET: c_uint = 0;
pub const QPS_INIT: c_uint = 1;
pub const QPS_RTR: c_uint = 2;
pub const QPS_RTS: c_uint = 3;
pub const QPS_SQE: c_uint = 5;
pub const QPS_ERR: c_uint = 6;

pub const QP_STATE: c_int = 1;
pub const QP_ACCESS_FLAGS: c_int = 1 << 3;
pub const QP_PKEY_INDEX: c_int = 1 << 4;
pub const QP_PORT: c_int = 1 << 5;
pub const QP_QKEY: c_int = 1 << 6;
pub const QP_AV: c_int = 1 << 7;
pub const QP_PATH_MTU: c_int = 1 << 8;
pub const QP_TIMEOUT: c_int = 1 << 9;
pub const QP_RETRY_CNT: c_int = 1 << 10;
pub const QP_RNR_RETRY: c_int = 1 << 11;
pub const QP_RQ_PSN: c_int = 1 << 12;
pub const QP_MAX_QP_RD_ATOMIC: c_int = 1 << 13;
pub const QP_MIN_RNR_TIMER: c_int = 1 << 15;
pub const QP_SQ_PSN: c_int = 1 << 16;
pub const QP_MAX_DEST_RD_ATOMIC: c_int = 1 << 17;
pub const QP_DEST_QPN: c_int = 1 << 20;

pub const WR_RDMA_WRITE: c_uint = 0;
pub const WR_RDMA_WRITE_WITH_IMM: c_uint = 1;
pub const WR_SEND: c_uint = 2;
pub const WR_SEND_WITH_IMM: c_uint = 3;
pub const WR_RDMA_READ: c_uint = 4;
pub const WR_ATOMIC_CMP_AND_SWP: c_uint = 5;
pub const WR_ATOMIC_FETCH_AND_ADD: c_uint = 6;

pub const SEND_FENCE: c_uint = 1;
pub const SEND_SIGNALED: c_uint = 1 << 1;
pub const SEND_INLINE: c_uint = 1 << 3;

pub const WC_SUCCESS: c_uint = 0;
pub const WC_LOC_LEN_ERR: c_uint = 1;
pub const WC_LOC_QP_OP_ERR: c_uint = 2;
pub const WC_LOC_PROT_ERR: c_uint = 4;
pub const WC_WR_FLUSH_ERR: c_uint = 5;
pub const WC_LOC_ACCESS_ERR: c_uint = 8;
pub const WC_REM_INV_REQ_ERR: c_uint = 9;
pub const WC_REM_ACCESS_ERR: c_uint = 10;
pub const WC_REM_OP_ERR: c_uint = 11;
pub const WC_RETRY_EXC_ERR: c_uint = 12;
pub const WC_RNR_RETRY_EXC_ERR: c_uint = 13;

pub const WC_SEND: c_uint = 0;
pub const WC_RDMA_WRITE: c_uint = 1;
pub const WC_RDMA_READ: c_uint = 2;
pub const WC_COMP_SWAP: c_uint = 3;
pub const WC_FETCH_ADD: c_uint = 4;
pub const WC_RECV: c_uint = 128;
pub const WC_RECV_RDMA_WITH_IMM: c_uint = 129;
pub const WC_WITH_IMM: c_uint = 2;
