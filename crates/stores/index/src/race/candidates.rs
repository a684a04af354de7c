//! [`Candidates`]: what both pairs of a key's buckets say, and what to do about it.

use super::header::low_bits;
use super::{
    BUCKET_BYTES, BadHeader, Fit, GROUP_BUCKETS, Header, Location, PAIR_BYTES, Slot, SlotId, SlotKind,
};

/// Words of a bucket: its header, then the slots.
const WORDS: usize = BUCKET_BYTES / 8;
/// Buckets of both pairs.
const BUCKETS: usize = 4;
/// Bits of a set of words that stand for slots, not headers.
const SLOT_WORDS: u32 = 0xfefe_fefe;

/// Whether a client looked in the right subtable.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Verdict {
    /// Yes. If `older`, the directory that it used is older than the last split: READ it again, some time.
    Here {
        /// Whether a header is of a later split than the directory.
        older: bool,
    },
    /// Yes, but some buckets' entries are still in the subtable that is being split. A reader READs that one, too; a
    /// writer waits.
    Pending,
    /// No: what the buckets hold says nothing about the key, matches included. READ the directory, and try again.
    Elsewhere,
}

/// Where to insert a key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Choice {
    /// Into this empty slot.
    Slot(SlotId),
    /// No slot is empty, but some are frozen: wait for the end of the split.
    Wait,
    /// All slots are in use: split the subtable.
    Full,
}

/// What the READs behind a tentative entry's CAS have shown.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Settled {
    /// No other entry has the key: confirm the entry.
    Confirm,
    /// Another client's tentative entry comes later: remove it, then look at the others.
    Remove(SlotId, Slot),
    /// Another client's tentative entry comes first: remove one's own, wait, and begin anew.
    GiveWay,
    /// The key has a confirmed entry: remove one's own. An update begins anew and finds that one.
    Exists,
}

/// Both pairs of buckets of a key, as words: most lookups want two or three of the 32.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidates {
    location: Location,
    /// Those of the first pair, then those of the second one, in the order of addresses. Each begins with a header.
    buckets: [[u64; WORDS]; BUCKETS],
}

/// A set of candidate slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotSet(u32);

impl SlotSet {
    /// Whether no slot is in it.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Takes the first slot, in the order of READs and addresses, out of it; the result has this one only.
    #[inline]
    pub fn pop(&mut self) -> Option<SlotSet> {
        let first = self.0 & self.0.wrapping_neg();
        self.0 ^= first;
        (first != 0).then_some(SlotSet(first))
    }
}

impl Candidates {
    /// Empty buckets of `location`, for [`fill`](Candidates::fill).
    pub const fn new(location: Location) -> Candidates {
        let buckets = [[0; WORDS]; BUCKETS];
        Candidates { location, buckets }
    }

    /// Takes over what READs of both pairs have fetched.
    ///
    /// # Errors
    /// [`BadHeader`] if a bucket has none. Slots can be anything.
    ///
    /// # Panics
    /// If a length is not [`PAIR_BYTES`].
    #[inline]
    pub fn fill(&mut self, pairs: [&[u8]; 2]) -> Result<(), BadHeader> {
        for (to, bytes) in self.buckets.as_chunks_mut::<2>().0.iter_mut().zip(pairs) {
            let bytes: &[u8; PAIR_BYTES] = bytes.try_into().expect("a pair was READ");
            let words = to.as_flattened_mut().iter_mut();
            for (to, word) in words.zip(bytes.as_chunks::<8>().0) {
                *to = u64::from_le_bytes(*word);
            }
        }
        for bucket in self.distinct() {
            Header::from_word(bucket[0])?;
        }
        Ok(())
    }

    /// Buckets with all headers that there are: apart from splits, all four are alike.
    #[inline]
    fn distinct(&self) -> &[[u64; WORDS]] {
        let [first, others @ ..] = &self.buckets;
        let count = match others.iter().all(|other| other[0] == first[0]) {
            true => 1,
            false => BUCKETS,
        };
        &self.buckets[..count]
    }

    /// Whether this is the key's subtable, for a client whose directory has it at depth `known`. Ask before anything
    /// else: between copying and cleaning up, a bucket holds entries that are out of date.
    #[inline]
    pub fn verdict(&self, known: u8) -> Verdict {
        let mut verdict = Verdict::Here { older: false };
        for bucket in self.distinct() {
            match Header::of(bucket[0]).fit(self.location.directory_bits, known) {
                Fit::Elsewhere => return Verdict::Elsewhere,
                Fit::Pending => verdict = Verdict::Pending,
                Fit::Older if verdict != Verdict::Pending => verdict = Verdict::Here { older: true },
                Fit::Older | Fit::Current => {}
            }
        }
        verdict
    }

    /// The four headers.
    #[inline]
    pub fn headers(&self) -> [Header; BUCKETS] {
        self.buckets.map(|bucket| Header::of(bucket[0]))
    }

    /// Takes the copies of pending buckets from `old`, which READs behind these have fetched from the subtable that is
    /// being split. `None` if `old` is not of that subtable any more: begin anew.
    pub fn with_old(mut self, old: &Candidates) -> Option<Candidates> {
        for (bucket, was) in self.buckets.iter_mut().zip(&old.buckets) {
            let header = Header::of(bucket[0]);
            if header.pending {
                is_split_into(Header::of(was[0]), header).then_some(())?;
                *bucket = *was;
            }
        }
        Some(self)
    }

    /// The slots of `set`, and their words.
    #[inline]
    pub fn iter(&self, mut set: SlotSet) -> impl Iterator<Item = (SlotId, Slot)> + '_ {
        std::iter::from_fn(move || Some(self.first(set.pop()?)))
    }

    /// The first slot of `set`, and its word.
    ///
    /// # Panics
    /// If the set is empty.
    #[inline]
    pub fn first(&self, set: SlotSet) -> (SlotId, Slot) {
        let word = set.0.trailing_zeros() as usize;
        let (bucket, at) = (word / WORDS, word % WORDS);
        let id = SlotId {
            bucket: self.location.pairs[bucket / 2] + (bucket % 2) as u32,
            slot: at as u8 - 1,
        };
        (id, Slot::from_word(self.buckets[bucket][at]))
    }

    /// All entries in the candidate slots, whosever they are.
    pub fn entries(&self) -> impl Iterator<Item = (SlotId, Slot)> + '_ {
        self.slots().filter(|(_, slot)| slot.block().is_some())
    }

    /// All candidate slots.
    fn slots(&self) -> impl Iterator<Item = (SlotId, Slot)> + '_ {
        self.iter(SlotSet(SLOT_WORDS))
    }

    /// The candidate slots of pair `choice`.
    fn slots_of(&self, choice: usize) -> impl Iterator<Item = (SlotId, Slot)> + '_ {
        self.iter(SlotSet(SLOT_WORDS & 0xffff << (16 * choice)))
    }

    /// The slots with the key's fingerprint whose words are `wanted`.
    #[inline(always)]
    fn alike(&self, wanted: impl Fn(SlotId, Slot) -> bool) -> SlotSet {
        let mut words = 0;
        for (at, word) in self.buckets.as_flattened().iter().enumerate() {
            let is_alike = Slot::from_word(*word).fingerprint() == self.location.fingerprint;
            words |= u32::from(is_alike) << at;
        }
        let (mut left, mut alike) = (SlotSet(words & SLOT_WORDS), SlotSet(0));
        while let Some(one) = left.pop() {
            let (id, slot) = self.first(one);
            if wanted(id, slot) {
                alike.0 |= one.0;
            }
        }
        alike
    }

    /// The confirmed entries that may be the key's; perhaps frozen ones.
    #[inline]
    pub fn matches(&self) -> SlotSet {
        self.alike(|_, slot| slot.kind() == SlotKind::Live)
    }

    /// The entries that may be the key's, tentative ones included, except the one in slot `own`.
    pub fn rivals(&self, own: SlotId) -> SlotSet {
        self.alike(|id, slot| slot.block().is_some() && id != own)
    }

    /// The word in slot `id`; `None` if that is none of the candidates.
    pub fn slot(&self, id: SlotId) -> Option<Slot> {
        self.slots().find(|(at, _)| *at == id).map(|(_, slot)| slot)
    }

    /// The first slot whose word no client writes.
    pub fn bad_slot(&self) -> Option<(SlotId, Slot)> {
        self.slots().find(|(_, slot)| slot.kind() == SlotKind::Bad)
    }

    /// Chooses the slot for a new entry: of the pair with fewer slots in use; in its main bucket rather than in its
    /// overflow bucket. *(stated in `[RACE]`)*
    pub fn choose(&self) -> Choice {
        let is_empty = |(_, slot): &(SlotId, Slot)| *slot == Slot::EMPTY;
        let used = |choice| self.slots_of(choice).filter(|slot| !is_empty(slot)).count();
        let choice = usize::from(used(1) < used(0));
        // The middle bucket of a group is the overflow bucket.
        let overflow = |(id, _): &(SlotId, Slot)| id.bucket as usize % GROUP_BUCKETS == 1;
        let mains = self.slots_of(choice).filter(|slot| !overflow(slot));
        match mains.chain(self.slots_of(choice).filter(overflow)).find(is_empty) {
            Some((id, _)) => Choice::Slot(id),
            None if self.slots().any(|(_, slot)| slot.is_frozen()) => Choice::Wait,
            None => Choice::Full,
        }
    }
}

/// Whether `old` is of a bucket of the subtable that is being split into itself and the one of `new`.
pub(super) fn is_split_into(old: Header, new: Header) -> bool {
    let Some(before) = new.depth.checked_sub(1) else {
        return false;
    };
    (old.depth == before || old.depth == new.depth)
        && !old.pending
        && old.suffix == low_bits(new.suffix, before)
}

/// What to do about one's own tentative entry in slot `own`, if these other entries have its key.
///
/// A tentative entry whose client is gone would be in the way forever: a client that has given way often enough is
/// `impatient`, and removes those that come first, too. The removed entry's client cannot confirm it any more.
pub fn settle(own: SlotId, rivals: impl Iterator<Item = (SlotId, Slot)> + Clone, impatient: bool) -> Settled {
    let is_live = |(_, slot): (SlotId, Slot)| slot.kind() == SlotKind::Live;
    if rivals.clone().any(is_live) {
        return Settled::Exists;
    }
    // The order of addresses is the same for all clients.
    match rivals.min_by_key(|(id, _)| *id) {
        None => Settled::Confirm,
        Some((id, slot)) if own < id || impatient => Settled::Remove(id, slot),
        Some(_) => Settled::GiveWay,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::{BlockRef, Bucket, SLOTS};
    use super::*;
    use proptest::prelude::*;

    const LOCATION: Location = Location {
        directory_bits: 0b11,
        pairs: [0, 4],
        fingerprint: 7,
    };

    fn entry(fingerprint: u8, at: u64) -> Slot {
        Slot::new(
            fingerprint,
            BlockRef {
                addr: at * 64,
                units: 1,
            },
            0,
        )
    }

    fn bucket(header: Header, slots: &[Slot]) -> Bucket {
        let mut bucket = Bucket {
            header,
            slots: [Slot::EMPTY; SLOTS],
        };
        bucket.slots[..slots.len()].copy_from_slice(slots);
        bucket
    }

    /// Main and overflow bucket of the first choice, overflow and main bucket of the second one.
    fn candidates(buckets: [Bucket; 4]) -> Candidates {
        let bytes = buckets.map(|bucket| bucket.to_bytes()).concat();
        filled(&bytes).expect("headers")
    }

    fn filled(bytes: &[u8]) -> Result<Candidates, BadHeader> {
        let (first, second) = bytes.split_at(PAIR_BYTES);
        let mut candidates = Candidates::new(LOCATION);
        candidates.fill([first, second])?;
        Ok(candidates)
    }

    fn all(header: Header) -> [Bucket; 4] {
        [bucket(header, &[]); 4]
    }

    #[test]
    fn one_header_of_another_split_is_enough() {
        let header = Header::new(1, 1);
        assert_eq!(candidates(all(header)).verdict(1), Verdict::Here { older: false });
        let split = |which: usize, to: Header| {
            let mut buckets = all(header);
            buckets[which].header = to;
            candidates(buckets)
        };
        for which in 0..4 {
            let older = Verdict::Here { older: true };
            assert_eq!(split(which, Header::new(2, 3)).verdict(1), older);
            assert_eq!(split(which, Header::new(2, 1)).verdict(1), Verdict::Elsewhere);
            let pending = split(which, Header::new(2, 3).pending());
            assert_eq!(pending.verdict(2), Verdict::Pending);
        }
        // The directory is ahead of buckets that are not split yet.
        assert_eq!(candidates(all(header)).verdict(2), Verdict::Here { older: false });
    }

    /// RACE's public code checked the header only after a miss: a match in a bucket whose entries have moved may be out
    /// of date.
    #[test]
    fn race_defect_stale_directory_checked_only_after_a_miss() {
        let mut buckets = all(Header::new(1, 1));
        buckets[1] = bucket(Header::new(2, 1), &[entry(7, 1).frozen()]);
        let candidates = candidates(buckets);
        assert_eq!(candidates.iter(candidates.matches()).count(), 1);
        assert_eq!(candidates.verdict(1), Verdict::Elsewhere);
    }

    #[test]
    fn pending_buckets_are_read_where_the_entries_are() {
        let mut new = all(Header::new(2, 3));
        new[0] = bucket(Header::new(2, 3), &[entry(7, 1)]);
        new[3].header = new[3].header.pending();
        let mut old = all(Header::new(1, 1));
        old[0] = bucket(Header::new(1, 1), &[entry(7, 8)]);
        old[3] = bucket(Header::new(1, 1), &[entry(7, 9)]);
        let merged = candidates(new).with_old(&candidates(old)).expect("the old one");
        let blocks: Vec<_> = merged.iter(merged.matches()).map(|(_, slot)| slot).collect();
        assert_eq!(blocks, [entry(7, 1), entry(7, 9)]);
        // The bucket's header has changed already, and will again by the next split.
        old[3].header = Header::new(2, 1);
        assert!(candidates(new).with_old(&candidates(old)).is_some());
        for header in [Header::new(3, 1), Header::new(3, 5), Header::new(1, 0)] {
            old[3].header = header;
            assert_eq!(candidates(new).with_old(&candidates(old)), None, "{header:?}");
        }
    }

    #[test]
    fn slots_have_their_addresses() {
        let header = Header::new(0, 0);
        let buckets = [1, 2, 3, 4].map(|at| bucket(header, &[entry(7, at); SLOTS]));
        let ids: Vec<_> = candidates(buckets)
            .slots()
            .map(|(id, slot)| (id.bucket, id.slot, slot))
            .collect();
        assert_eq!(ids.len(), BUCKETS * SLOTS);
        for (at, bucket) in [0, 1, 4, 5].into_iter().enumerate() {
            let slots = 0..SLOTS as u8;
            let expected: Vec<_> = slots
                .map(|slot| (bucket, slot, entry(7, at as u64 + 1)))
                .collect();
            assert_eq!(ids[at * SLOTS..][..SLOTS], expected);
        }
    }

    proptest! {
        #[test]
        fn all_headers_are_checked(bad in 0usize..BUCKETS) {
            let mut bytes = [0; 2 * PAIR_BYTES];
            bytes[bad * BUCKET_BYTES] = 17;
            prop_assert!(filled(&bytes).is_err());
        }
    }

    #[test]
    fn the_emptier_pair_is_chosen_and_its_main_bucket_first() {
        let header = Header::new(0, 0);
        let full = [entry(1, 1); SLOTS];
        let mut buckets = all(header);
        let slot = |bucket, slot| Choice::Slot(SlotId { bucket, slot });
        assert_eq!(candidates(buckets).choose(), slot(0, 0));
        buckets[0] = bucket(header, &full[..1]);
        // The second choice's main bucket comes after its overflow bucket.
        assert_eq!(candidates(buckets).choose(), slot(5, 0));
        buckets[3] = bucket(header, &full);
        assert_eq!(candidates(buckets).choose(), slot(0, 1));
        buckets[0] = bucket(header, &full);
        assert_eq!(candidates(buckets).choose(), slot(1, 0));
        buckets[1] = bucket(header, &full);
        assert_eq!(candidates(buckets).choose(), slot(4, 0));
        buckets[2] = bucket(header, &full);
        assert_eq!(candidates(buckets).choose(), Choice::Full);
        buckets[2].slots[6] = Slot::FROZEN_EMPTY;
        assert_eq!(candidates(buckets).choose(), Choice::Wait);
        assert_eq!(candidates(buckets).bad_slot(), None);
        buckets[2].slots[6] = Slot::from_word(4);
        let bad = SlotId { bucket: 4, slot: 6 };
        assert_eq!(candidates(buckets).bad_slot(), Some((bad, Slot::from_word(4))));
    }

    #[test]
    fn readers_ignore_tentative_entries() {
        let mut buckets = all(Header::new(0, 0));
        let slots = [
            entry(7, 1).tentative(),
            entry(8, 2),
            entry(7, 3).frozen(),
            entry(7, 4),
        ];
        buckets[2] = bucket(Header::new(0, 0), &slots);
        let candidates = candidates(buckets);
        let matches = candidates.iter(candidates.matches());
        let found: Vec<_> = matches.map(|(id, _)| (id.bucket, id.slot)).collect();
        assert_eq!(found, [(4, 2), (4, 3)]);
        let own = SlotId { bucket: 4, slot: 3 };
        assert_eq!(candidates.slot(own), Some(entry(7, 4)));
        let rivals = candidates.iter(candidates.rivals(own));
        let rivals: Vec<_> = rivals.map(|(id, _)| id.slot).collect();
        assert_eq!(rivals, [0, 2]);
    }

    #[test]
    fn of_two_tentative_entries_one_is_confirmed() {
        let id = |slot| SlotId { bucket: 3, slot };
        let tentative = entry(7, 1).tentative();
        let others = |list: &[(SlotId, Slot)], impatient| settle(id(2), list.iter().copied(), impatient);
        assert_eq!(others(&[], false), Settled::Confirm);
        let later = (id(4), tentative);
        assert_eq!(others(&[later], false), Settled::Remove(later.0, later.1));
        let first = (id(1), tentative);
        assert_eq!(others(&[later, first], false), Settled::GiveWay);
        assert_eq!(others(&[later, first], true), Settled::Remove(first.0, first.1));
        let confirmed = (id(6), entry(7, 3));
        for impatient in [false, true] {
            assert_eq!(others(&[first, confirmed], impatient), Settled::Exists);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_lead_to_a_choice(bytes in proptest::collection::vec(any::<u8>(), 256), known in any::<u8>()) {
            let mut bytes = bytes;
            for at in [0, 64, 128, 192] {
                bytes[at..at + 8].fill(0);
            }
            let candidates = filled(&bytes).expect("headers");
            prop_assert_eq!(candidates.verdict(known), Verdict::Here { older: false });
            if let Choice::Slot(id) = candidates.choose() {
                prop_assert_eq!(candidates.slot(id), Some(Slot::EMPTY));
            }
            prop_assert!(candidates.iter(candidates.matches()).count() <= 28);
            candidates.bad_slot();
            candidates.with_old(&candidates);
        }

        /// Of clients that see each other's tentative entries, at most one confirms.
        #[test]
        fn patient_clients_agree(slots in proptest::collection::btree_set(0u8..7, 1..5)) {
            let entries: Vec<_> = slots.iter().map(|slot| (SlotId { bucket: 0, slot: *slot }, entry(7, 1).tentative())).collect();
            let decide = |own: SlotId| settle(own, entries.iter().copied().filter(move |(id, _)| *id != own), false);
            let decisions: Vec<_> = entries.iter().map(|(id, _)| decide(*id)).collect();
            prop_assert!(decisions[0] != Settled::GiveWay);
            prop_assert!(decisions[1..].iter().all(|decision| *decision == Settled::GiveWay));
        }
    }
}
