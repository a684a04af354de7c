//! Constructors of [`SendWr`]: one per verb, and modifiers for options.
//!
//! A new request is unsignaled, unfenced and has id 0. All functions are inlined and cost the same as a struct literal.

use crate::{Imm, Payload, RemoteAddr, SendOp, SendWr, Sge, UdDest, WrId};

impl From<Sge> for Payload {
    #[inline(always)]
    fn from(sge: Sge) -> Payload {
        Payload::Region(sge)
    }
}

impl SendWr {
    /// A request with operation `op`, unsignaled, unfenced and with id 0.
    #[inline(always)]
    pub fn new(op: SendOp, payload: impl Into<Payload>) -> SendWr {
        SendWr {
            wr_id: WrId(0),
            op,
            payload: payload.into(),
            signaled: false,
            fence: false,
        }
    }

    /// A SEND to the connected peer, unsignaled.
    #[inline(always)]
    pub fn send(payload: impl Into<Payload>) -> SendWr {
        let (dest, imm) = (None, None);
        SendWr::new(SendOp::Send { dest, imm }, payload)
    }

    /// A SEND of a datagram to `dest`, unsignaled; with `None` the same as [`send`](SendWr::send).
    #[inline(always)]
    pub fn send_to(dest: impl Into<Option<UdDest>>, payload: impl Into<Payload>) -> SendWr {
        let (dest, imm) = (dest.into(), None);
        SendWr::new(SendOp::Send { dest, imm }, payload)
    }

    /// A WRITE of `payload` to `remote`, unsignaled.
    #[inline(always)]
    pub fn write(remote: RemoteAddr, payload: impl Into<Payload>) -> SendWr {
        SendWr::new(SendOp::Write { remote, imm: None }, payload)
    }

    /// A READ from `remote` that fills `into`, unsignaled.
    #[inline(always)]
    pub fn read(remote: RemoteAddr, into: impl Into<Payload>) -> SendWr {
        SendWr::new(SendOp::Read { remote }, into)
    }

    /// A CAS, unsignaled: if the word at `remote` is `compare`, it becomes `swap`. The 8 bytes of `into` receive the
    /// old value in either case.
    #[inline(always)]
    pub fn compare_swap(remote: RemoteAddr, compare: u64, swap: u64, into: impl Into<Payload>) -> SendWr {
        let op = SendOp::CompareSwap {
            remote,
            compare,
            swap,
        };
        SendWr::new(op, into)
    }

    /// An FAA, unsignaled: adds `add` to the word at `remote`. The 8 bytes of `into` receive the old value.
    #[inline(always)]
    pub fn fetch_add(remote: RemoteAddr, add: u64, into: impl Into<Payload>) -> SendWr {
        SendWr::new(SendOp::FetchAdd { remote, add }, into)
    }

    /// Requests a completion on success too, and sets the id to `wr_id`.
    #[inline(always)]
    pub fn signaled(self, wr_id: WrId) -> SendWr {
        self.signaled_if(true, wr_id)
    }

    /// Sets the id to `wr_id` and whether success is reported by a completion; a failure always is.
    #[inline(always)]
    pub fn signaled_if(mut self, signaled: bool, wr_id: WrId) -> SendWr {
        (self.signaled, self.wr_id) = (signaled, wr_id);
        self
    }

    /// Makes the request wait for earlier READs and atomics of its queue pair before it starts.
    #[inline(always)]
    pub fn fenced(mut self) -> SendWr {
        self.fence = true;
        self
    }

    /// Sets the immediate data; `None` removes it.
    ///
    /// # Panics
    /// In debug builds, if the verb is neither SEND nor WRITE: other verbs carry none.
    #[inline(always)]
    pub fn with_imm(mut self, imm: impl Into<Option<Imm>>) -> SendWr {
        match &mut self.op {
            SendOp::Send { imm: carried, .. } | SendOp::Write { imm: carried, .. } => *carried = imm.into(),
            other => debug_assert!(false, "{other:?} carries no immediate data"),
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Qpn;

    const REMOTE: RemoteAddr = RemoteAddr { rkey: 3, offset: 64 };
    const SGE: Sge = Sge {
        lkey: 1,
        len: 8,
        offset: 16,
    };

    /// The request that a constructor is expected to produce.
    fn plain(op: SendOp) -> SendWr {
        SendWr {
            wr_id: WrId(0),
            op,
            payload: Payload::Region(SGE),
            signaled: false,
            fence: false,
        }
    }

    #[test]
    fn constructors_build_the_verb_they_are_named_after() {
        let (remote, imm) = (REMOTE, None);
        let to = UdDest {
            ah: 1,
            qpn: Qpn(2),
            qkey: 3,
        };
        assert_eq!(SendWr::send(SGE), plain(SendOp::Send { dest: None, imm }));
        assert_eq!(
            SendWr::send_to(to, SGE),
            plain(SendOp::Send { dest: Some(to), imm })
        );
        assert_eq!(SendWr::send_to(None, SGE), SendWr::send(SGE));
        assert_eq!(SendWr::write(REMOTE, SGE), plain(SendOp::Write { remote, imm }));
        assert_eq!(SendWr::read(REMOTE, SGE), plain(SendOp::Read { remote }));
        let (compare, swap) = (5, 6);
        assert_eq!(
            SendWr::compare_swap(REMOTE, compare, swap, SGE),
            plain(SendOp::CompareSwap {
                remote,
                compare,
                swap
            })
        );
        assert_eq!(
            SendWr::fetch_add(REMOTE, 7, SGE),
            plain(SendOp::FetchAdd { remote, add: 7 })
        );
    }

    #[test]
    fn builders_change_what_they_are_named_after() {
        let write = SendWr::write(REMOTE, Payload::EMPTY);
        let signaled = write.signaled(WrId(9));
        assert_eq!(
            (signaled.signaled, signaled.wr_id, signaled.fence),
            (true, WrId(9), false)
        );
        assert_eq!(write.signaled_if(false, WrId(9)).wr_id, WrId(9));
        assert!(write.fenced().fence && !write.fenced().signaled);
        let (remote, imm) = (REMOTE, Some(Imm(4)));
        assert_eq!(write.with_imm(Imm(4)).op, SendOp::Write { remote, imm });
        assert_eq!(write.with_imm(imm).with_imm(None).op, write.op);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "carries no immediate data")]
    fn a_read_takes_no_immediate_data() {
        let _ = SendWr::read(REMOTE, SGE).with_imm(Imm(1));
    }
}
