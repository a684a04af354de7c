//! [`Window`]: the client's picture of its slots: which request is in which, and which reply is to whom.
//!
//! Request r to a partition goes to slot `r mod window` with `seq = r / window + 1`; r counts from 0 at the
//! start of a session. A slot is used again only when its request is answered, or ruled out by a `Resync`.

use crate::layout::{Commit, ReplyImm, SlotMap, SlotOp};
use drover_base::{KeyHash, Ns};

/// What is in a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub(crate) enum SlotState {
    /// Nothing.
    #[default]
    Free,
    /// A request without a reply.
    Posted,
    /// A request we gave up; the server is asked what became of it. The operation is not complete.
    Quarantined,
    /// The same, but the operation has been completed (its deadline came).
    Ghost,
}

/// One slot: a cache line.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
pub(crate) struct Slot {
    /// The caller's name for the operation, or the index of a bulk operation.
    pub(crate) token: u64,
    /// The commit word of the first attempt (format P: kept, never sent).
    pub(crate) commit: Commit,
    pub(crate) hash: KeyHash,
    /// When the operation was submitted.
    pub(crate) submitted: Ns,
    /// When the last attempt was sent.
    pub(crate) sent: Ns,
    /// Bytes of the request.
    pub(crate) len: u16,
    /// Attempts after the first.
    pub(crate) tries: u8,
    pub(crate) state: SlotState,
    /// The server said that it does not remember this slot.
    pub(crate) forgotten: bool,
}

const _: () = assert!(size_of::<Slot>() == 64);

/// Whether a commit word of ours is of an operation that changes something.
#[inline(always)]
pub(crate) fn commit_writes(commit: Commit) -> bool {
    const READS: u32 = 1 << SlotOp::Get as u32 | 1 << SlotOp::GetBulk as u32 | 1 << SlotOp::Nop as u32;
    READS >> (commit.0 >> 56 & 0xf) & 1 == 0
}

impl Slot {
    /// Whether an operation on `hash` that is a `write` or not conflicts with the one in here. The hash comes first:
    /// it tells nearly all slots of a lane apart.
    #[inline(always)]
    pub(crate) fn conflicts_with(&self, hash: KeyHash, write: bool) -> bool {
        self.hash == hash && self.state != SlotState::Free && (write || commit_writes(self.commit))
    }

    /// What it means for an operation that conflicts with the one in here, and is posted behind it where requests are
    /// neither lost nor reordered: whatever is one request from here to its end, sent once, takes effect before.
    pub(crate) fn as_before(&self) -> Before {
        let small = matches!(
            self.commit.op(),
            Some(SlotOp::Get | SlotOp::Put | SlotOp::PutTtl | SlotOp::Delete)
        );
        match small && self.state == SlotState::Posted && self.tries == 0 {
            true if commit_writes(self.commit) && !self.commit.is_conditional() => Before::Writes,
            true => Before::Reads,
            false => Before::Unsure,
        }
    }

    /// Whether its request comes after that of `other` in the same lane.
    pub(crate) fn is_after(&self, at: usize, other: &Slot, other_at: usize) -> bool {
        let ahead = self.commit.seq().wrapping_sub(other.commit.seq()) as i32;
        ahead > 0 || (ahead == 0 && at > other_at)
    }
}

/// What stands before an operation in the lane of its key. The greatest of several counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Before {
    /// Nothing that it conflicts with.
    Nothing,
    /// Writes that take effect before whatever is posted behind them.
    Writes,
    /// Reads, or what is itself posted behind reads. They take effect before, unless one turns out to be of a long
    /// value, which is fetched afterwards: what is posted behind says so
    /// ([`is_conditional`](Commit::is_conditional)).
    Reads,
    /// Something that may take effect later: a bulk transfer, what was sent again, what is under way where
    /// no order is kept.
    Unsure,
}

/// A slot just taken.
pub(crate) struct Claim<'a> {
    pub(crate) at: usize,
    pub(crate) seq: u32,
    pub(crate) slot: &'a mut Slot,
}

/// All slots of a session.
#[derive(Debug)]
pub(crate) struct Window {
    map: SlotMap,
    window_log2: u32,
    /// Slots per partition - 1.
    mask: usize,
    /// Next r per partition.
    next_r: Box<[u64]>,
    slots: Box<[Slot]>,
    /// Slots that are not free.
    busy_count: usize,
}

impl Window {
    /// A fresh session's window. `first_r` is 0 but in tests of wrap-around.
    pub(crate) fn new(map: SlotMap, first_r: u64) -> Window {
        let slot_count = map.partition_count * map.window;
        Window {
            map,
            window_log2: map.window.trailing_zeros(),
            mask: map.window - 1,
            next_r: vec![first_r; map.partition_count].into_boxed_slice(),
            slots: vec![Slot::default(); slot_count].into_boxed_slice(),
            busy_count: 0,
        }
    }

    pub(crate) fn map(&self) -> &SlotMap {
        &self.map
    }

    /// Whether no partition has a free slot.
    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.busy_count == self.slots.len()
    }

    #[inline(always)]
    pub(crate) fn busy_count(&self) -> usize {
        self.busy_count
    }

    /// The slot of the partition's next request and its seq, if it is free.
    #[inline(always)]
    pub(crate) fn next(&self, partition: usize) -> Option<(usize, u32)> {
        let r = *self.next_r.get(partition)?;
        let at = (partition << self.window_log2) + (r as usize & self.mask);
        let seq = ((r >> self.window_log2) as u32).wrapping_add(1);
        (self.slots.get(at)?.state == SlotState::Free).then_some((at, seq))
    }

    /// Takes the slot that [`next`](Window::next) named: the caller fills it in.
    #[inline(always)]
    pub(crate) fn take(&mut self, partition: usize, at: usize) -> &mut Slot {
        self.next_r[partition] += 1;
        self.busy_count += 1;
        let slot = &mut self.slots[at];
        debug_assert_eq!(slot.state, SlotState::Free);
        slot
    }

    /// Takes the slot of the partition's next request, if it is free. The caller fills it in.
    #[inline(always)]
    pub(crate) fn claim(&mut self, partition: usize) -> Option<Claim<'_>> {
        let next_r = self.next_r.get_mut(partition)?;
        let r = *next_r;
        let at = (partition << self.window_log2) + (r as usize & self.mask);
        let slot = self.slots.get_mut(at)?;
        if slot.state != SlotState::Free {
            return None;
        }
        *next_r = r + 1;
        self.busy_count += 1;
        let seq = ((r >> self.window_log2) as u32).wrapping_add(1);
        Some(Claim { at, seq, slot })
    }

    /// The slot may be used again.
    #[inline(always)]
    pub(crate) fn release(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        debug_assert_ne!(slot.state, SlotState::Free);
        slot.state = SlotState::Free;
        self.busy_count -= 1;
    }

    #[inline(always)]
    pub(crate) fn slot(&self, at: usize) -> &Slot {
        &self.slots[at]
    }

    #[inline(always)]
    pub(crate) fn slot_mut(&mut self, at: usize) -> &mut Slot {
        &mut self.slots[at]
    }

    pub(crate) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The slots of a partition.
    pub(crate) fn lane(&self, partition: usize) -> &[Slot] {
        &self.slots[self.lane_range(partition)]
    }

    /// Where they are.
    pub(crate) fn lane_range(&self, partition: usize) -> std::ops::Range<usize> {
        partition << self.window_log2..(partition + 1) << self.window_log2
    }

    /// Which partition a slot is of, and its index there.
    #[inline(always)]
    pub(crate) fn place(&self, at: usize) -> (usize, usize) {
        (at >> self.window_log2, at & (self.map.window - 1))
    }

    /// The slot whose request this reply answers, and where it is; `None` for duplicates, replies to earlier uses of
    /// the slot, and nonsense.
    #[inline(always)]
    pub(crate) fn answered(&mut self, partition: usize, imm: ReplyImm) -> Option<(usize, &mut Slot)> {
        let index = imm.slot_index();
        let at = (partition << self.window_log2) + index;
        let slot = self.slots.get_mut(at)?;
        let same = slot.commit.seq() & ReplyImm::SEQ_MASK == imm.seq_low();
        (index <= self.mask && slot.state == SlotState::Posted && same).then_some((at, slot))
    }

    /// `count` slots were marked free.
    #[inline(always)]
    pub(crate) fn freed(&mut self, count: usize) {
        debug_assert!(count <= self.busy_count);
        self.busy_count -= count;
    }

    /// Which request of its partition is in a slot, counted from the session's first.
    pub(crate) fn r_of(&self, at: usize) -> u64 {
        let last = self.next_r[at >> self.window_log2].wrapping_sub(1);
        last.wrapping_sub(last.wrapping_sub(at as u64) & self.mask as u64)
    }

    /// The first r of a partition whose request is neither answered nor given up: the server need not wait for
    /// anything before it.
    pub(crate) fn first_open_r(&self, partition: usize) -> u64 {
        let next = self.next_r[partition];
        let oldest = next.saturating_sub(self.map.window as u64);
        let posted = |r: &u64| {
            let index = *r as usize & (self.map.window - 1);
            self.lane(partition)[index].state == SlotState::Posted
        };
        (oldest..next).find(posted).unwrap_or(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Status;

    const MAP: SlotMap = SlotMap {
        slot_bytes: 64,
        window: 4,
        partition_count: 3,
    };

    fn post(window: &mut Window, partition: usize) -> Option<(usize, u32)> {
        let (at, seq) = window.next(partition)?;
        let commit = Commit::new(SlotOp::Get, seq, 3, 0, false);
        *window.take(partition, at) = Slot {
            commit,
            state: SlotState::Posted,
            ..Slot::default()
        };
        Some((at, seq))
    }

    fn reply(at: usize, seq: u32) -> ReplyImm {
        ReplyImm::new(Status::Ok, at & 3, seq)
    }

    fn answered(window: &mut Window, partition: usize, imm: ReplyImm) -> Option<usize> {
        window.answered(partition, imm).map(|(at, _)| at)
    }

    #[test]
    fn requests_follow_the_papers_order() {
        let mut window = Window::new(MAP, 0);
        let taken: Vec<_> = (0..5).map_while(|_| post(&mut window, 1)).collect();
        assert_eq!(taken, [(4, 1), (5, 1), (6, 1), (7, 1)]);
        assert!(window.next(1).is_none() && window.next(0).is_some() && !window.is_full());
        window.release(5);
        assert!(window.next(1).is_none(), "position 4 is the turn of slot 0");
        window.release(4);
        assert_eq!(post(&mut window, 1), Some((4, 2)));
    }

    #[test]
    fn a_late_reply_to_an_earlier_use_is_refused() {
        let mut window = Window::new(MAP, 0);
        let (at, seq) = post(&mut window, 0).expect("free");
        assert_eq!(answered(&mut window, 0, reply(at, seq)), Some(at));
        window.release(at);
        assert_eq!(answered(&mut window, 0, reply(at, seq)), None, "duplicate");
        for _ in 0..4 {
            post(&mut window, 0);
        }
        assert_eq!(answered(&mut window, 0, reply(at, seq)), None, "late");
        assert_eq!(answered(&mut window, 0, reply(at, seq + 1)), Some(at));
    }

    #[test]
    fn nonsense_replies_are_refused() {
        let mut window = Window::new(MAP, 0);
        post(&mut window, 2);
        for bits in [0, u32::MAX, 0x0ff0_0001, 0x0040_0001, 0xf000_0000] {
            for partition in 0..3 {
                assert_eq!(answered(&mut window, partition, ReplyImm(bits)), None);
            }
        }
    }

    #[test]
    fn seq_wraps_at_32_bits_and_replies_at_20() {
        for last_seq in [(1u64 << 20) - 1, (1 << 32) - 1] {
            let mut window = Window::new(MAP, (last_seq - 1) << 2);
            let (at, seq) = post(&mut window, 0).expect("free");
            assert_eq!(u64::from(seq), last_seq);
            assert_eq!(answered(&mut window, 0, reply(at, seq)), Some(at));
            window.release(at);
            assert!((0..3).all(|_| post(&mut window, 0).is_some()));
            let (at, next) = post(&mut window, 0).expect("free");
            assert_eq!(u64::from(next), (last_seq + 1) & 0xffff_ffff);
            assert_eq!(
                answered(&mut window, 0, reply(at, seq)),
                None,
                "the reply before the wrap"
            );
            assert_eq!(answered(&mut window, 0, reply(at, next)), Some(at));
        }
    }

    #[test]
    fn requests_are_counted() {
        let mut window = Window::new(MAP, 0);
        for r in 0..11 {
            let (at, _) = post(&mut window, 1).expect("free");
            assert_eq!(window.r_of(at), r);
            if r >= 2 {
                let before = 4 + (r as usize - 2) % 4;
                assert_eq!(window.r_of(before), r - 2);
                window.release(before);
            }
        }
    }

    #[test]
    fn open_positions_hold_the_server_back() {
        let mut window = Window::new(MAP, 0);
        assert_eq!(window.first_open_r(0), 0);
        assert!((0..4).all(|_| post(&mut window, 0).is_some()));
        assert_eq!(window.first_open_r(0), 0);
        window.release(0);
        post(&mut window, 0); // r = 4 in slot 0
        assert_eq!(window.first_open_r(0), 1);
        window.slot_mut(1).state = SlotState::Quarantined;
        assert_eq!(window.first_open_r(0), 2);
        (1..4).for_each(|at| window.release(at));
        assert_eq!(window.first_open_r(0), 4);
    }
}
