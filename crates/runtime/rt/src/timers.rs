//! [`Timers`]: a hierarchical timer wheel for a fixed set of keys (window slots, tasks).
//!
//! Time is divided into ticks. Level 0 has a slot for each of the next 64 ticks, level 1 for each of the next 64 groups
//! of 64 ticks, and so on; a timer waits at the level of the highest 6-bit digit in which its tick differs from the
//! current one, and moves down when the current tick reaches its group.
//!
//! ```text
//! level 0: | 1 tick  x 64 |        a bit per slot says whether it holds timers
//! level 1: | 64 ticks x 64 |       a slot is a doubly linked list threaded through the keys' entries
//! level 2: | 4096 ticks x 64 | ...
//! ```
//!
//! Arming and cancelling take constant time and never allocate; a check without a due timer costs one comparison.
//! *(hashed and hierarchical timing wheels, Varghese and Lauck, SOSP'87, scheme 7; choosing digits by exclusive-or is
//! our choice)*

use drover_base::Ns;

const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
/// Enough 6-bit digits for 64-bit ticks.
const LEVELS: usize = 11;
/// End of a list.
const NONE: u32 = u32::MAX;
/// In no slot.
const IDLE: u16 = u16::MAX;

/// Timers for a set of keys, at most one per key. A timer fires when [`pop`](Timers::pop) is called at or after its
/// time, rounded up to a whole tick; never before.
#[derive(Clone, Debug)]
pub struct Timers {
    entries: Vec<Entry>,
    /// First key of each slot's list.
    heads: Box<[[u32; SLOTS]; LEVELS]>,
    /// One bit per slot: whether it holds timers.
    occupied: [u64; LEVELS],
    /// Current tick: all timers before it have been taken out.
    present: u64,
    /// Tick before which no timer is due.
    earliest: u64,
    tick_shift: u32,
    armed: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    tick: u64,
    next: u32,
    prev: u32,
    /// Level and slot, or [`IDLE`].
    place: u16,
}

impl Timers {
    /// Creates timers for keys `0..key_count`, none of them set, with ticks of `tick` rounded down to a power of two
    /// nanoseconds (at least 1).
    ///
    /// # Panics
    /// If `key_count` is not below `u32::MAX`.
    pub fn new(key_count: usize, tick: Ns) -> Timers {
        assert!(key_count < NONE as usize, "{key_count} timers");
        let idle = Entry {
            tick: 0,
            next: NONE,
            prev: NONE,
            place: IDLE,
        };
        Timers {
            entries: vec![idle; key_count],
            heads: Box::new([[NONE; SLOTS]; LEVELS]),
            occupied: [0; LEVELS],
            present: 0,
            earliest: u64::MAX,
            tick_shift: tick.0.max(1).ilog2(),
            armed: 0,
        }
    }

    /// Sets the timer of `key` to `at`, in place of any time set before. It fires at the first [`pop`](Timers::pop) at
    /// or after `at`, rounded up to a whole tick; if that is past, at the next `pop`. [`Ns::MAX`] cancels the timer.
    ///
    /// # Panics
    /// If `key` is not below the number of keys.
    pub fn arm(&mut self, key: u32, at: Ns) {
        self.cancel(key);
        if at == Ns::MAX {
            return;
        }
        let tick = self.round_up(at).max(self.present);
        self.entries[key as usize].tick = tick;
        self.insert(key);
        self.earliest = self.earliest.min(tick);
        self.armed += 1;
    }

    /// Cancels the timer of `key`. Returns false if it was not set.
    ///
    /// # Panics
    /// If `key` is not below the number of keys.
    pub fn cancel(&mut self, key: u32) -> bool {
        if self.entries[key as usize].place == IDLE {
            return false;
        }
        self.unlink(key);
        self.armed -= 1;
        if self.armed == 0 {
            self.earliest = u64::MAX;
        }
        true
    }

    /// Whether the timer of `key` is set.
    ///
    /// # Panics
    /// If `key` is not below the number of keys.
    pub fn is_armed(&self, key: u32) -> bool {
        self.entries[key as usize].place != IDLE
    }

    /// Number of timers set.
    pub fn len(&self) -> usize {
        self.armed
    }

    /// Whether no timer is set.
    pub fn is_empty(&self) -> bool {
        self.armed == 0
    }

    /// Removes the next timer that is due at `now` and returns its key; `None` if none is due. Timers of one tick come
    /// in any order. A loop that pops until `None` does not end if it keeps arming timers in the past.
    #[inline]
    pub fn pop(&mut self, now: Ns) -> Option<u32> {
        let now_tick = now.0 >> self.tick_shift;
        if now_tick < self.earliest {
            return None;
        }
        self.pop_due(now_tick)
    }

    /// When to call [`pop`](Timers::pop) next: no timer fires before this time. It may be earlier than the first timer,
    /// never later; [`Ns::MAX`] if none is set. It can be in the past unless `pop` has just returned `None`.
    pub fn next(&self) -> Ns {
        match self.earliest {
            u64::MAX => Ns::MAX,
            tick => Ns(tick.saturating_mul(1 << self.tick_shift)),
        }
    }

    fn pop_due(&mut self, now_tick: u64) -> Option<u32> {
        loop {
            let Some((level, slot, start)) = self.first_slot() else {
                self.present = self.present.max(now_tick);
                self.earliest = u64::MAX;
                return None;
            };
            if start > now_tick {
                self.present = self.present.max(now_tick);
                self.earliest = start;
                return None;
            }
            self.present = start;
            if level == 0 {
                let key = self.heads[level][slot];
                self.unlink(key);
                self.armed -= 1;
                return Some(key);
            }
            self.move_down(level, slot);
        }
    }

    /// Moves the timers of a group down when its time comes: its digit equals the current one, so they belong to lower
    /// levels. All at once, because a timer left behind would be later in the order of levels than in time.
    fn move_down(&mut self, level: usize, slot: usize) {
        self.occupied[level] &= !(1 << slot);
        let mut key = std::mem::replace(&mut self.heads[level][slot], NONE);
        while key != NONE {
            let next = self.entries[key as usize].next;
            self.insert(key);
            key = next;
        }
    }

    /// The first occupied slot and the tick at which it begins. Lower levels come before higher ones: their timers have
    /// the same higher digits as the current tick.
    fn first_slot(&self) -> Option<(usize, usize, u64)> {
        let level = self.occupied.iter().position(|&bits| bits != 0)?;
        let slot = self.occupied[level].trailing_zeros() as usize;
        let shift = SLOT_BITS * level as u32;
        let above = u64::MAX.checked_shl(shift + SLOT_BITS).unwrap_or(0);
        Some((level, slot, (self.present & above) | (slot as u64) << shift))
    }

    fn insert(&mut self, key: u32) {
        let tick = self.entries[key as usize].tick;
        let differ = (tick ^ self.present) | (SLOTS as u64 - 1);
        let level = (differ.ilog2() / SLOT_BITS) as usize;
        let slot = (tick >> (SLOT_BITS * level as u32)) as usize % SLOTS;
        let head = std::mem::replace(&mut self.heads[level][slot], key);
        if head != NONE {
            self.entries[head as usize].prev = key;
        }
        self.occupied[level] |= 1 << slot;
        self.entries[key as usize] = Entry {
            tick,
            next: head,
            prev: NONE,
            place: (level * SLOTS + slot) as u16,
        };
    }

    fn unlink(&mut self, key: u32) {
        let Entry {
            next, prev, place, ..
        } = self.entries[key as usize];
        let (level, slot) = (usize::from(place) / SLOTS, usize::from(place) % SLOTS);
        if next != NONE {
            self.entries[next as usize].prev = prev;
        }
        if prev != NONE {
            self.entries[prev as usize].next = next;
        } else {
            self.heads[level][slot] = next;
            if next == NONE {
                self.occupied[level] &= !(1 << slot);
            }
        }
        self.entries[key as usize].place = IDLE;
    }

    fn round_up(&self, at: Ns) -> u64 {
        let below = at.0 >> self.tick_shift;
        below + u64::from(below << self.tick_shift != at.0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[derive(Clone, Debug)]
    enum Step {
        Arm(u32, u64),
        Cancel(u32),
        Forward(u64),
        /// Sleeps until the time that the wheel returns, as a run loop does.
        Sleep,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        // Distances over all levels: 2^0 ..= 2^50 ns.
        let distance = (0u32..50, any::<u64>()).prop_map(|(bits, x)| x & ((2u64 << bits) - 1));
        let step = prop_oneof![
            4 => (0u32..16, distance.clone()).prop_map(|(key, at)| Step::Arm(key, at)),
            1 => (0u32..16).prop_map(Step::Cancel),
            2 => distance.prop_map(Step::Forward),
            2 => Just(Step::Sleep),
        ];
        prop::collection::vec(step, 1..80)
    }

    /// The simplest model: deadline by key; every deadline that has passed fires.
    struct Model {
        armed: BTreeMap<u32, u64>,
        tick: u64,
    }

    impl Model {
        fn rounded(&self, at: u64) -> u64 {
            at.div_ceil(self.tick).saturating_mul(self.tick)
        }

        fn due(&mut self, now: u64) -> BTreeSet<u32> {
            let due: BTreeSet<u32> = self
                .armed
                .iter()
                .filter(|(_, at)| self.rounded(**at) <= now)
                .map(|(&key, _)| key)
                .collect();
            self.armed.retain(|key, _| !due.contains(key));
            due
        }

        fn first(&self) -> u64 {
            self.armed
                .values()
                .map(|&at| self.rounded(at))
                .min()
                .unwrap_or(u64::MAX)
        }
    }

    /// Whether the wheel agrees with the model on every step. `broken` corrupts one.
    fn agrees(steps: &[Step], tick_shift: u32, broken: impl Fn(&mut Timers)) -> bool {
        let mut timers = Timers::new(16, Ns(1 << tick_shift));
        let mut model = Model {
            armed: BTreeMap::new(),
            tick: 1 << tick_shift,
        };
        let mut now = 0u64;
        for step in steps {
            match *step {
                Step::Arm(key, distance) => {
                    timers.arm(key, Ns(now + distance));
                    model.armed.insert(key, now + distance);
                }
                Step::Cancel(key) => {
                    if timers.cancel(key) != model.armed.remove(&key).is_some() {
                        return false;
                    }
                }
                Step::Forward(distance) => now += distance >> 8,
                Step::Sleep if timers.is_empty() => {}
                Step::Sleep => now = now.max(timers.next().0),
            }
            broken(&mut timers);
            let fired: BTreeSet<u32> = std::iter::from_fn(|| timers.pop(Ns(now))).collect();
            let same = fired == model.due(now)
                && timers.len() == model.armed.len()
                && (0..16).all(|key| timers.is_armed(key) == model.armed.contains_key(&key));
            if !same || timers.next().0 > model.first() {
                return false;
            }
        }
        // Sleeping from check to check reaches the end: `next` always advances.
        for _ in 0..16 * LEVELS {
            now = now.max(if timers.is_empty() { now } else { timers.next().0 });
            let fired: BTreeSet<u32> = std::iter::from_fn(|| timers.pop(Ns(now))).collect();
            if fired != model.due(now) {
                return false;
            }
        }
        timers.is_empty() && timers.next() == Ns::MAX
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1500))]
        #[test]
        fn agrees_with_a_sorted_map(steps in steps(), tick_shift in 0u32..20) {
            prop_assert!(agrees(&steps, tick_shift, |_| ()));
        }
    }

    #[test]
    fn spoiled_wheels_are_caught() {
        let steps = [Step::Arm(1, 100), Step::Forward(101 << 8)];
        assert!(agrees(&steps, 0, |_| ()));
        assert!(
            !agrees(&steps, 0, |timers| timers.earliest = u64::MAX),
            "it sleeps through"
        );
        let lost = |timers: &mut Timers| timers.occupied[1] = 0;
        assert!(!agrees(&steps, 0, lost), "it loses a group");
        let late = |timers: &mut Timers| timers.entries[1].tick |= 2;
        assert!(
            !agrees(&[Step::Arm(1, 101), Step::Forward(101 << 8)], 0, late),
            "it is late"
        );
    }

    #[test]
    fn rearming_moves_and_never_cancels() {
        let mut timers = Timers::new(2, Ns(1));
        timers.arm(0, Ns(10));
        timers.arm(0, Ns(20));
        timers.arm(1, Ns(5));
        timers.arm(1, Ns::MAX);
        assert_eq!(timers.len(), 1);
        assert_eq!(timers.pop(Ns(19)), None);
        assert_eq!((timers.pop(Ns(20)), timers.pop(Ns(20))), (Some(0), None));
        timers.arm(0, Ns(3));
        assert_eq!(
            timers.pop(Ns(20)),
            Some(0),
            "one in the past goes off at the next look"
        );
    }

    #[test]
    fn after_the_last_one_is_cancelled_there_is_nothing_to_wait_for() {
        let mut timers = Timers::new(2, Ns(1));
        timers.arm(0, Ns(1 << 19));
        timers.arm(1, Ns(1));
        assert_eq!((timers.pop(Ns(1)), timers.pop(Ns(1))), (Some(1), None));
        timers.cancel(0);
        assert_eq!(timers.next(), Ns::MAX);
    }

    #[test]
    fn the_far_future_is_a_place_like_any_other() {
        let mut timers = Timers::new(1, Ns::from_us(64));
        timers.arm(0, Ns(u64::MAX - 1));
        assert_eq!(timers.pop(Ns::from_s(1 << 33)), None);
        assert_eq!(timers.pop(Ns(u64::MAX)), None, "never early: it is rounded up");
        assert!(timers.cancel(0));
    }
}
