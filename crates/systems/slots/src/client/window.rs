//! [`Window`]: the client's record of its slots: which request is in which slot, and which request a reply answers.
//!
//! Request r to a partition goes to slot `r mod window` with `seq = r / window + 1`; r counts from 0 at the
//! start of a session. A slot is reused only after its request is answered or ruled out by a resynchronisation.

use crate::layout::{Commit, ReplyImm, SlotMap, SlotOp};
use drover_base::{KeyHash, Ns};

/// State of a slot, as the client knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum SlotPhase {
    /// Unused.
    #[default]
    Free,
    /// Its request is posted, or staged to be posted, and neither answered nor given up.
    Posted,
    /// The client gave the request up and asks the server what became of it. The operation is not complete, and the
    /// slot is not reused before the answer.
    Quarantined,
    /// As `Quarantined`, but the operation is complete for its caller: its deadline has passed.
    Ghost,
}

/// The client's record of one slot: a cache line.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
pub struct Slot {
    /// The caller's token for the operation; for `PutBulk` and `GetBulk`, the client's index of the transfer.
    pub token: u64,
    /// Commit word of the first attempt. It is kept here even for requests in the format of HERD's paper, which are
    /// sent without it.
    pub commit: Commit,
    /// Hash of the operation's key.
    pub hash: KeyHash,
    /// Time at which the operation was submitted.
    pub submitted: Ns,
    /// Time at which the last attempt was sent.
    pub sent: Ns,
    /// Length of the request, bytes.
    pub len: u16,
    /// Number of times the request was sent again.
    pub tries: u8,
    /// State of the slot.
    pub phase: SlotPhase,
    /// Whether the server answered this request with `StaleEpoch`: the server no longer knows whether it executed it.
    pub forgotten: bool,
}

const _: () = assert!(size_of::<Slot>() == 64);

impl Slot {
    /// Whether an operation on `hash`, an update if `write`, conflicts with the operation in this slot. The hash is
    /// compared first because it differs for nearly all slots of a lane.
    #[inline(always)]
    pub fn conflicts_with(&self, hash: KeyHash, write: bool) -> bool {
        self.hash == hash && self.phase != SlotPhase::Free && (write || self.commit.is_update())
    }

    /// How this slot's operation precedes a conflicting one that is posted after it, on a fabric that neither loses nor
    /// reorders requests: `Writes` for a PUT or DELETE without condition, `Reads` for a GET or a conditional request,
    /// each sent once and not answered; else, and for bulk requests, `Unsure`.
    pub fn as_before(&self) -> Before {
        let small = matches!(
            self.commit.op().map(SlotOp::base),
            Some(SlotOp::Get | SlotOp::Put | SlotOp::PutTtl | SlotOp::Delete | SlotOp::Touch)
        );
        match small && self.phase == SlotPhase::Posted && self.tries == 0 {
            true if self.commit.is_update() && !self.commit.is_conditional() => Before::Writes,
            true => Before::Reads,
            false => Before::Unsure,
        }
    }

    /// Whether the request in this slot, which has index `index`, was posted after the request in slot `other`, which
    /// has index `other_index` and belongs to the same partition.
    pub fn is_after(&self, index: usize, other: &Slot, other_index: usize) -> bool {
        let ahead = self.commit.seq().wrapping_sub(other.commit.seq()) as i32;
        ahead > 0 || (ahead == 0 && index > other_index)
    }
}

/// What precedes an operation among the slots of its partition (its lane). Of several, the greatest counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Before {
    /// No conflicting operation.
    Nothing,
    /// Updates that take effect before anything posted after them.
    Writes,
    /// Reads, or operations that were themselves posted after reads. They take effect first, unless a read finds a long
    /// value, which is fetched later. Requests posted after them are therefore
    /// [conditional](Commit::is_conditional).
    Reads,
    /// An operation that may take effect later: a bulk transfer, a request that was sent again, or any request on a
    /// fabric that may reorder.
    Unsure,
}

/// A slot that [`Window::claim`] has taken for a request. The caller fills in its record, including the phase. Dropping
/// the claim does not free the slot: [`Window::release`] does.
pub struct Claim<'a> {
    /// Index of the slot in the [`Window`], across all partitions.
    pub index: usize,
    /// Number of the slot's use, for the commit word.
    pub seq: u32,
    /// Record of the slot, to be filled in; it still has the contents of the last use.
    pub slot: &'a mut Slot,
}

/// The client's records of all slots of a session (the slots themselves are at the server). Slot `s` of partition `p`
/// has index `p * window + s`.
#[derive(Debug)]
pub struct Window {
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
    /// The window of a new session, all slots free. `first_r` is 0 except in tests of wrap-around.
    pub fn new(map: SlotMap, first_r: u64) -> Window {
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

    /// Geometry of the slots.
    pub fn map(&self) -> &SlotMap {
        &self.map
    }

    /// Whether no partition has a free slot.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.busy_count == self.slots.len()
    }

    /// Number of slots that are not free.
    #[inline(always)]
    pub fn busy_count(&self) -> usize {
        self.busy_count
    }

    /// Index and seq of the slot for the partition's next request; `None` if that slot is not free (others may be) or
    /// there is no such partition.
    #[inline(always)]
    pub fn next(&self, partition: usize) -> Option<(usize, u32)> {
        let r = *self.next_r.get(partition)?;
        let at = (partition << self.window_log2) + (r as usize & self.mask);
        let seq = ((r >> self.window_log2) as u32).wrapping_add(1);
        (self.slots.get(at)?.phase == SlotPhase::Free).then_some((at, seq))
    }

    /// Takes slot `at`, which [`next`](Window::next) returned for `partition`. The caller fills in its record,
    /// including the phase.
    #[inline(always)]
    pub fn take(&mut self, partition: usize, at: usize) -> &mut Slot {
        self.next_r[partition] += 1;
        self.busy_count += 1;
        let slot = &mut self.slots[at];
        debug_assert_eq!(slot.phase, SlotPhase::Free);
        slot
    }

    /// [`next`](Window::next) and [`take`](Window::take) in one step; `None` as for `next`.
    #[inline(always)]
    pub fn claim(&mut self, partition: usize) -> Option<Claim<'_>> {
        let next_r = self.next_r.get_mut(partition)?;
        let r = *next_r;
        let at = (partition << self.window_log2) + (r as usize & self.mask);
        let slot = self.slots.get_mut(at)?;
        if slot.phase != SlotPhase::Free {
            return None;
        }
        *next_r = r + 1;
        self.busy_count += 1;
        let seq = ((r >> self.window_log2) as u32).wrapping_add(1);
        Some(Claim { index: at, seq, slot })
    }

    /// Frees slot `at`. It must not be free before, which is checked in debug builds only.
    #[inline(always)]
    pub fn release(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        debug_assert_ne!(slot.phase, SlotPhase::Free);
        slot.phase = SlotPhase::Free;
        self.busy_count -= 1;
    }

    /// Record of the slot with this index.
    #[inline(always)]
    pub fn slot(&self, at: usize) -> &Slot {
        &self.slots[at]
    }

    /// Record of the slot with this index.
    #[inline(always)]
    pub fn slot_mut(&mut self, at: usize) -> &mut Slot {
        &mut self.slots[at]
    }

    /// Records of all slots.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Records of a partition's slots.
    pub fn lane(&self, partition: usize) -> &[Slot] {
        &self.slots[self.lane_range(partition)]
    }

    /// Indices of a partition's slots.
    pub fn lane_range(&self, partition: usize) -> std::ops::Range<usize> {
        partition << self.window_log2..(partition + 1) << self.window_log2
    }

    /// Partition of the slot with this index, and the slot's number within the partition.
    #[inline(always)]
    pub fn place(&self, at: usize) -> (usize, usize) {
        (at >> self.window_log2, at & (self.map.window - 1))
    }

    /// Index and record of the slot whose request this reply answers; the slot stays as it is. `None` for a duplicate,
    /// a reply to an earlier use of the slot or to a request that was given up, or an index out of range. The status is
    /// not checked.
    #[inline(always)]
    pub fn answered(&mut self, partition: usize, imm: ReplyImm) -> Option<(usize, &mut Slot)> {
        let at = (partition << self.window_log2) + imm.slot_index();
        answered(self.lane_mut(partition), imm).map(|slot| (at, slot))
    }

    /// Records of a partition's slots; none for a partition that does not exist.
    #[inline(always)]
    pub fn lane_mut(&mut self, partition: usize) -> &mut [Slot] {
        self.slots.get_mut(self.lane_range(partition)).unwrap_or_default()
    }

    /// Counts `count` slots as free, after the caller set their phase to `Free`.
    #[inline(always)]
    pub fn freed(&mut self, count: usize) {
        debug_assert!(count <= self.busy_count);
        self.busy_count -= count;
    }

    /// The number r of the last request that took the slot with index `at` (counted across all partitions): its
    /// position among the requests to its partition, from 0 at the start of the session. Meaningless for a slot that
    /// was never used.
    pub fn r_of(&self, at: usize) -> u64 {
        let last = self.next_r[at >> self.window_log2].wrapping_sub(1);
        last.wrapping_sub(last.wrapping_sub(at as u64) & self.mask as u64)
    }

    /// Index of the last request that was posted behind the one at index `at` to the same partition, conflicts with it and
    /// is not given up; `None` if there is none.
    pub fn last_behind(&self, at: usize) -> Option<usize> {
        let this = self.slot(at);
        let behind = self.lane_range(self.place(at).0).filter(|&other| {
            let slot = self.slot(other);
            let posted = slot.phase == SlotPhase::Posted && slot.is_after(other, this, at);
            posted && slot.conflicts_with(this.hash, this.commit.is_update())
        });
        behind.reduce(|a, b| match self.slot(b).is_after(b, self.slot(a), a) {
            true => b,
            false => a,
        })
    }

    /// Leaves a time in which nobody polled, and which ended at `now`, out of the age of all requests.
    pub fn skip(&mut self, absence: Ns, now: Ns) {
        for slot in &mut self.slots {
            slot.sent = (slot.sent + absence).min(now);
        }
    }

    /// Whether the request at index `at` is posted, and one that was posted after it, to the same partition, is answered.
    pub fn is_overtaken(&self, at: usize) -> bool {
        if self.slot(at).phase != SlotPhase::Posted {
            return false;
        }
        let partition = self.place(at).0;
        let index = |r: u64| r as usize & self.mask;
        let mut behind = self.r_of(at) + 1..self.next_r[partition];
        behind.any(|r| self.lane(partition)[index(r)].phase == SlotPhase::Free)
    }

    /// Number of the partition's first request that is neither answered nor given up, or of its next request if there
    /// is none. The server need not wait for any request before it.
    pub fn first_open_r(&self, partition: usize) -> u64 {
        let next = self.next_r[partition];
        let oldest = next.saturating_sub(self.map.window as u64);
        let posted = |r: &u64| {
            let index = *r as usize & (self.map.window - 1);
            self.lane(partition)[index].phase == SlotPhase::Posted
        };
        (oldest..next).find(posted).unwrap_or(next)
    }
}

/// Record of the slot whose request this reply answers, among those of its partition: see [`Window::answered`].
#[inline(always)]
pub fn answered(lane: &mut [Slot], imm: ReplyImm) -> Option<&mut Slot> {
    let slot = lane.get_mut(imm.slot_index())?;
    let same = (slot.commit.seq() ^ imm.seq_low()) & ReplyImm::SEQ_MASK == 0;
    (slot.phase == SlotPhase::Posted && same).then_some(slot)
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
            phase: SlotPhase::Posted,
            ..Slot::default()
        };
        Some((at, seq))
    }

    #[test]
    fn a_request_is_overtaken_when_a_later_one_of_its_partition_is_answered() {
        let mut window = Window::new(MAP, 0);
        let [first, second, third] =
            [1, 1, 1].map(|partition| post(&mut window, partition).expect("a slot").0);
        post(&mut window, 2);
        window.release(second);
        assert!(window.is_overtaken(first));
        assert!(!window.is_overtaken(third), "the latest");
        assert!(!window.is_overtaken(second), "answered itself");
        assert!(!window.is_overtaken(third + 1), "never used");
    }

    #[test]
    fn time_in_which_nobody_polled_does_not_age_requests() {
        let mut window = Window::new(MAP, 0);
        let (old, _) = post(&mut window, 0).expect("a slot");
        let (new, _) = post(&mut window, 0).expect("a slot");
        window.slot_mut(new).sent = Ns(900);
        window.skip(Ns(600), Ns(1000));
        assert_eq!([old, new].map(|at| window.slot(at).sent), [Ns(600), Ns(1000)]);
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
        window.slot_mut(1).phase = SlotPhase::Quarantined;
        assert_eq!(window.first_open_r(0), 2);
        (1..4).for_each(|at| window.release(at));
        assert_eq!(window.first_open_r(0), 4);
    }
}
