//! Attributes of devices, ports and queue pairs. Fields that we never use are private, and named after their offsets.

use super::layout::assert_layout;
use super::{ATOMIC_GLOB, ATOMIC_HCA, ATOMIC_NONE, AhAttr};
use crate::limits::{Atomics, Limits};
use std::ffi::{c_int, c_uint};
use std::mem::{offset_of, size_of};

/// `ibv_device_attr`, in host byte order except for the GUIDs.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DeviceAttr {
    fw_ver: [u8; 64],
    _unused_64: [u64; 2],
    max_mr_size: u64,
    _unused_88: u64,
    vendor_id: u32,
    _unused_100: [u32; 2],
    max_qp: c_int,
    max_qp_wr: c_int,
    _unused_116: u32,
    max_sge: c_int,
    _unused_124: u32,
    max_cq: c_int,
    max_cqe: c_int,
    max_mr: c_int,
    _unused_140: u32,
    max_qp_rd_atom: c_int,
    _unused_148: [u32; 2],
    max_qp_init_rd_atom: c_int,
    _unused_160: u32,
    atomic_cap: c_uint,
    _unused_168: [u32; 11],
    max_srq: c_int,
    max_srq_wr: c_int,
    _unused_220: [u8; 7],
    phys_port_cnt: u8,
}
assert_layout!(DeviceAttr: 232, max_mr_size @ 80, vendor_id @ 96, max_qp @ 108, max_qp_wr @ 112, max_sge @ 120,
    max_cq @ 128, max_cqe @ 132, max_mr @ 136, max_qp_rd_atom @ 144, max_qp_init_rd_atom @ 156, atomic_cap @ 164,
    max_srq @ 212, max_srq_wr @ 216, phys_port_cnt @ 227);

impl DeviceAttr {
    /// Firmware version; empty if the device has none.
    pub fn firmware(&self) -> String {
        let end = self.fw_ver.iter().position(|&byte| byte == 0).unwrap_or(64);
        String::from_utf8_lossy(&self.fw_ver[..end]).into_owned()
    }

    /// Number of the device's maker, assigned by IEEE.
    pub fn vendor_id(&self) -> u32 {
        self.vendor_id
    }

    /// Number of ports.
    pub fn port_count(&self) -> u8 {
        self.phys_port_cnt
    }

    /// The device's limits; a negative number becomes 0, an unknown kind of atomics [`Atomics::Device`].
    pub fn limits(&self) -> Limits {
        let number = |limit: c_int| usize::try_from(limit).unwrap_or(0);
        Limits {
            qp: number(self.max_qp),
            qp_wr: number(self.max_qp_wr),
            sge: number(self.max_sge),
            cq: number(self.max_cq),
            cqe: number(self.max_cqe),
            mr: number(self.max_mr),
            mr_bytes: self.max_mr_size,
            qp_rd_atom: number(self.max_qp_rd_atom),
            qp_init_rd_atom: number(self.max_qp_init_rd_atom),
            srq: number(self.max_srq),
            srq_wr: number(self.max_srq_wr),
            atomics: match self.atomic_cap {
                ATOMIC_NONE => Atomics::None,
                ATOMIC_GLOB => Atomics::Machine,
                _ => Atomics::Device,
            },
        }
    }

    /// Sets the number of ports and the limits: for programs that provide a library of their own. A limit that is too
    /// large for a C `int` becomes the largest `int`.
    pub fn describe(&mut self, port_count: u8, limits: &Limits) {
        let number = |limit| c_int::try_from(limit).unwrap_or(c_int::MAX);
        self.phys_port_cnt = port_count;
        self.max_qp = number(limits.qp);
        self.max_qp_wr = number(limits.qp_wr);
        self.max_sge = number(limits.sge);
        self.max_cq = number(limits.cq);
        self.max_cqe = number(limits.cqe);
        self.max_mr = number(limits.mr);
        self.max_mr_size = limits.mr_bytes;
        self.max_qp_rd_atom = number(limits.qp_rd_atom);
        self.max_qp_init_rd_atom = number(limits.qp_init_rd_atom);
        self.max_srq = number(limits.srq);
        self.max_srq_wr = number(limits.srq_wr);
        self.atomic_cap = match limits.atomics {
            Atomics::None => ATOMIC_NONE,
            Atomics::Device => ATOMIC_HCA,
            Atomics::Machine => ATOMIC_GLOB,
        };
    }
}

/// `ibv_device_attr_ex`, of which only the memory on the card is used.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DeviceAttrEx {
    attr: DeviceAttr,
    _unused_232: [u64; 18],
    pub max_dm_size: u64,
    _unused_384: [u64; 2],
}
assert_layout!(DeviceAttrEx: 400, max_dm_size @ 376);

/// `ibv_port_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PortAttr {
    pub state: c_uint,
    pub max_mtu: c_uint,
    pub active_mtu: c_uint,
    pub gid_tbl_len: c_int,
    _unused_16: u32,
    pub max_msg_sz: u32,
    _unused_24: [u16; 5],
    pub lid: u16,
    _unused_36: [u8; 10],
    pub link_layer: u8,
    _unused_47: [u8; 5],
}
assert_layout!(PortAttr: 52, max_mtu @ 4, active_mtu @ 8, gid_tbl_len @ 12, max_msg_sz @ 20, lid @ 34,
    link_layer @ 46);

/// `ibv_qp_attr`. A transition uses the fields that its mask names.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct QpAttr {
    pub qp_state: c_uint,
    _unused_4: u32,
    pub path_mtu: c_uint,
    _unused_12: u32,
    pub qkey: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qp_num: u32,
    pub qp_access_flags: c_uint,
    _unused_36: [u32; 5],
    pub ah_attr: AhAttr,
    _unused_88: [u16; 19],
    pub local: LocalAttr,
    _unused_133: [u8; 2],
    _unused_136: [u32; 2],
}
assert_layout!(QpAttr: 144, path_mtu @ 8, qkey @ 16, dest_qp_num @ 28, qp_access_flags @ 32, ah_attr @ 56,
    local.max_rd_atomic @ 126, local.min_rnr_timer @ 128, local.port_num @ 129, local.timeout @ 130,
    local.rnr_retry @ 132);

/// The part of `ibv_qp_attr` with the port of this end and, for RC, its timeouts, retries and limits on READs.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalAttr {
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub port_num: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
}

impl QpAttr {
    /// Attributes with `qp_state` set to `state`; all others are 0.
    pub fn to(state: c_uint) -> QpAttr {
        QpAttr {
            qp_state: state,
            _unused_4: 0,
            path_mtu: 0,
            _unused_12: 0,
            qkey: 0,
            rq_psn: 0,
            sq_psn: 0,
            dest_qp_num: 0,
            qp_access_flags: 0,
            _unused_36: [0; 5],
            ah_attr: AhAttr::default(),
            _unused_88: [0; 19],
            local: LocalAttr::default(),
            _unused_133: [0; 2],
            _unused_136: [0; 2],
        }
    }
}
