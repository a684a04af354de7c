//! [`SendQueue`]: requests of a queue pair that wait to be executed, and the slots in use.

use drover_verbs_ibv::ffi;
use std::collections::VecDeque;

/// A posted request.
#[derive(Clone)]
pub struct Request {
    pub wr_id: u64,
    pub opcode: u32,
    pub signaled: bool,
    pub imm_data: u32,
    pub remote_addr: u64,
    pub rkey: u32,
    pub compare_add: u64,
    pub swap: u64,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
    pub inline: Option<Vec<u8>>,
    pub sges: Vec<ffi::Sge>,
}

/// The send queue of a queue pair. A slot is in use until a completion that covers its request is polled.
pub struct SendQueue {
    depth: usize,
    inline_bytes_max: usize,
    waiting: VecDeque<Request>,
    /// Time since which the first waiting request has had no RECV, nanoseconds.
    waits_since: Option<u64>,
    /// Slots in use.
    occupied: usize,
    /// Those of them that no completion covers yet.
    uncovered: usize,
}

impl SendQueue {
    pub fn new(cap: &ffi::QpCap) -> SendQueue {
        SendQueue {
            depth: cap.max_send_wr as usize,
            inline_bytes_max: cap.max_inline_data as usize,
            waiting: VecDeque::new(),
            waits_since: None,
            occupied: 0,
            uncovered: 0,
        }
    }

    /// Adds a request and returns 0; or returns `ENOMEM` if all slots are in use, else `EINVAL` if the inline payload
    /// is too long.
    pub fn take(&mut self, request: Request) -> i32 {
        let inline_bytes = request.inline.as_ref().map_or(0, Vec::len);
        if self.occupied == self.depth {
            return libc::ENOMEM;
        }
        if inline_bytes > self.inline_bytes_max {
            return libc::EINVAL;
        }
        self.occupied += 1;
        self.waiting.push_back(request);
        0
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub fn front(&self) -> Option<&Request> {
        self.waiting.front()
    }

    /// Time in nanoseconds at which the first waiting request first found no RECV: `now_ns` of the first call for this
    /// request.
    pub fn waits_since(&mut self, now_ns: u64) -> u64 {
        *self.waits_since.get_or_insert(now_ns)
    }

    /// Removes the first waiting request.
    pub fn pop(&mut self) -> Option<Request> {
        self.waits_since = None;
        self.waiting.pop_front()
    }

    /// Removes all waiting requests.
    pub fn flush(&mut self) -> VecDeque<Request> {
        std::mem::take(&mut self.waiting)
    }

    /// Takes note that a request ended without a completion.
    pub fn end_silently(&mut self) {
        self.uncovered += 1;
    }

    /// Takes note that a request ended with a completion. Returns the number of slots that polling this completion
    /// frees: those of earlier requests that ended silently, too.
    pub fn end(&mut self) -> usize {
        std::mem::take(&mut self.uncovered) + 1
    }

    /// Frees `slots` slots, which a polled completion covers.
    pub fn free(&mut self, slots: usize) {
        self.occupied -= slots;
    }
}
