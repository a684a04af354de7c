//! The three kinds of item and how one becomes another: the behaviour that memcached's commands rely on, one per test,
//! in both modes.

use crate::common::{FIFO, S3_FIFO, hash_at, partition};
use drover_mem::NativeCpu;
use drover_store::{
    Condition, CopiedExtras, CopiedFields, EXTRAS_BYTES, ExtraOutcome, ExtraPut, Hint, ItemRef, Join, Key,
    Mark, Mode, NewCas, Partition, PutOutcome, TERMS_BYTES, item_bytes,
};

/// One key of a partition with space for some items of a kilobyte.
struct One {
    partition: Partition,
    cpu: NativeCpu,
}

const KEY: &[u8] = b"thirteen byte";

fn key() -> Key<'static> {
    Key {
        hash: hash_at(1, 5, 9),
        bytes: KEY,
    }
}

impl One {
    fn new(mode: Mode) -> One {
        One {
            partition: partition(mode, 1 << 13, 4),
            cpu: NativeCpu::new(1),
        }
    }

    fn put(&mut self, put: ExtraPut<'_>) -> ExtraOutcome {
        self.partition.put_extra(&self.cpu, key(), &put, 5)
    }

    /// A PUT that records accesses, as memcached's meta commands do.
    fn set(&mut self, value: &[u8], flags: u32) -> u64 {
        self.set_as(value, flags, true)
    }

    /// A PUT that does not, as its classic commands.
    fn classic_set(&mut self, value: &[u8], flags: u32) -> u64 {
        self.set_as(value, flags, false)
    }

    fn set_as(&mut self, value: &[u8], flags: u32, track_access: bool) -> u64 {
        let outcome = self.put(ExtraPut {
            value: &[value],
            flags,
            track_access,
            ..Default::default()
        });
        let ExtraOutcome::Stored { cas } = outcome else {
            panic!("{outcome:?}");
        };
        cas
    }

    fn native_put(&mut self, value: &[u8]) -> u32 {
        match self.partition.put(&self.cpu, key(), value, 0, 5) {
            PutOutcome::Stored { version } => version,
            refused => panic!("{refused:?}"),
        }
    }

    /// Bytes that the item's optional fields take.
    fn fields_bytes(&mut self) -> usize {
        let item = self.item();
        item.bytes() - item_bytes(item.key_len(), item.value_len())
    }

    fn item(&mut self) -> ItemRef<'_> {
        self.partition.get(&self.cpu, key(), 5).expect("a hit")
    }

    fn mark(&mut self, now_s: u32, mark: Mark) -> ItemRef<'_> {
        let hint = Hint::NONE;
        self.partition
            .get_and_mark(&self.cpu, key(), now_s, hint, |_| mark)
            .expect("a hit")
    }
}

const MODES: [Mode; 4] = [FIFO, Mode::Store, S3_FIFO, Mode::Lru];

fn in_all_modes(test: impl Fn(One)) {
    MODES.map(One::new).into_iter().for_each(test);
}

#[test]
fn a_native_put_of_the_same_length_drops_extras_and_changes_the_cas() {
    in_all_modes(|mut one| {
        let cas = one.set(b"12345", 77);
        assert_eq!((one.item().flags(), one.item().cas()), (77, cas));
        let version = one.native_put(b"54321");
        let item = one.item();
        assert!(!item.has_extras());
        assert_eq!(
            (item.flags(), item.cas(), item.to_value().as_slice()),
            (0, u64::from(version), b"54321".as_slice())
        );
        assert_ne!(u64::from(version), cas);
    });
}

#[test]
fn a_put_with_extras_over_a_native_item_of_the_same_length_finds_its_room() {
    in_all_modes(|mut one| {
        for len in [0, 5, 8, 100, 1000] {
            one.native_put(&vec![1; len]);
            one.set(&vec![2; len], 3);
            assert_eq!((one.item().flags(), one.item().to_value()), (3, vec![2; len]));
            one.native_put(&vec![4; len]);
            assert_eq!((one.item().flags(), one.item().to_value()), (0, vec![4; len]));
        }
    });
}

#[test]
fn both_kinds_of_condition_see_both_kinds_of_item() {
    in_all_modes(|mut one| {
        let cas = one.set(b"v", 0);
        let version = one.item().version().into();
        let by_version = Condition::IfVersion(version);
        let outcome = one.partition.put_if(&one.cpu, key(), b"w", 0, 5, by_version);
        assert!(matches!(outcome, PutOutcome::Stored { .. }));
        let stale = one.put(ExtraPut {
            condition: Condition::IfVersion(cas),
            ..Default::default()
        });
        let now = one.item().cas();
        assert_eq!(stale, ExtraOutcome::Present { cas: now });
        let fresh = one.put(ExtraPut {
            condition: Condition::IfVersion(now),
            ..Default::default()
        });
        assert!(matches!(fresh, ExtraOutcome::Stored { .. }));
    });
}

#[test]
fn a_chosen_cas_stays_until_the_next_update_and_the_version_moves_all_the_same() {
    in_all_modes(|mut one| {
        one.set(b"v", 0);
        let version = one.item().version();
        let chosen = one.put(ExtraPut {
            cas: Some(1 << 60),
            ..Default::default()
        });
        assert_eq!(chosen, ExtraOutcome::Stored { cas: 1 << 60 });
        assert_ne!(one.item().version(), version);
        assert_eq!(one.item().cas(), 1 << 60);
        assert!(one.set(b"v", 0) < 1 << 60);
    });
}

#[test]
fn append_and_prepend_keep_flags_and_expiry_until_the_log_laps() {
    in_all_modes(|mut one| {
        one.put(ExtraPut {
            value: &[b"|"],
            flags: 9,
            expire_s: 50,
            ..Default::default()
        });
        let mut want = b"|".to_vec();
        for i in 0..300u32 {
            let join = if i % 2 == 0 { Join::Append } else { Join::Prepend };
            let piece = [i as u8; 3];
            let outcome = one.put(ExtraPut {
                value: &[&piece[..1], &piece[1..]],
                join,
                keep: true,
                condition: Condition::IfPresent,
                ..Default::default()
            });
            assert!(matches!(outcome, ExtraOutcome::Stored { .. }), "{i}: {outcome:?}");
            let at = if i % 2 == 0 { want.len() } else { 0 };
            want.splice(at..at, piece);
            let item = one.item();
            assert_eq!((item.flags(), item.expire_s()), (9, 50));
            assert_eq!(item.to_value(), want, "after {i}");
        }
    });
}

#[test]
fn a_joined_value_beyond_the_limit_is_refused_and_the_old_one_stays() {
    in_all_modes(|mut one| {
        one.set(&[1; 5000], 0);
        let outcome = one.put(ExtraPut {
            value: &[&[2; 5000]],
            join: Join::Append,
            ..Default::default()
        });
        assert_eq!(outcome, ExtraOutcome::TooLarge);
        assert_eq!(one.item().to_value(), [1; 5000]);
        assert_eq!(one.partition.stats().too_large, 1);
    });
}

#[test]
fn a_short_value_is_rewritten_in_place_with_all_its_marks() {
    in_all_modes(|mut one| {
        one.set(b"00009", 4);
        let seen = Mark {
            access: true,
            ..Default::default()
        };
        one.mark(6, seen);
        let before = one.partition.stats();
        one.put(ExtraPut {
            value: &[b"00010"],
            keep: true,
            ..Default::default()
        });
        let stats = one.partition.stats();
        assert_eq!(stats.updates_in_place, before.updates_in_place + 1);
        assert_eq!(stats.updates_moved, before.updates_moved);
        let item = one.item();
        assert_eq!((item.flags(), item.accessed_s(), item.is_fetched()), (4, 6, true));
        assert_eq!(item.to_value(), b"00010");
    });
}

#[test]
fn an_access_is_noted_once_it_happened() {
    in_all_modes(|mut one| {
        one.set(b"v", 0);
        assert_eq!((one.item().accessed_s(), one.item().is_fetched()), (5, false));
        let mut before = None;
        let marked = one
            .partition
            .get_and_mark(&one.cpu, key(), 8, Hint::NONE, |item| {
                before = Some((item.accessed_s(), item.is_fetched()));
                Mark {
                    access: true,
                    ..Default::default()
                }
            });
        assert_eq!(before, Some((5, false)));
        assert!(marked.is_some_and(|item| item.is_fetched() && item.accessed_s() == 8));
        one.set(b"v", 0);
        assert!(!one.item().is_fetched(), "a new value");
    });
}

#[test]
fn a_native_item_notes_no_access_but_can_be_made_stale() {
    in_all_modes(|mut one| {
        let version = one.native_put(&[3; 40]);
        let seen = Mark {
            access: true,
            expire_s: Some(60),
            ..Default::default()
        };
        let item = one.mark(6, seen);
        assert!(!item.has_extras() && !item.is_fetched());
        assert_eq!((item.expire_s(), item.version()), (60, version));
        let invalid = Mark {
            stale: Some(true),
            cas: NewCas::Next,
            ..Default::default()
        };
        let item = one.mark(6, invalid);
        assert!(item.is_stale() && !item.is_won() && item.has_extras());
        assert_eq!((item.expire_s(), item.to_value()), (60, vec![3; 40]));
        assert_ne!(item.version(), version);
    });
}

#[test]
fn a_late_invalidation_stores_as_stale_and_keeps_expiry_and_who_won() {
    in_all_modes(|mut one| {
        one.put(ExtraPut {
            expire_s: 90,
            cas: Some(100),
            ..Default::default()
        });
        let won = Mark {
            won: Some(true),
            ..Default::default()
        };
        one.mark(6, won);
        let late = |cas| ExtraPut {
            value: &[b"late"],
            condition: Condition::IfVersion(cas),
            or_older: true,
            cas: Some(100),
            ..Default::default()
        };
        assert_eq!(one.put(late(101)), ExtraOutcome::Present { cas: 100 });
        assert_eq!(one.put(late(99)), ExtraOutcome::Stored { cas: 100 });
        let item = one.item();
        assert!(item.is_stale() && item.is_won());
        assert_eq!(
            (item.expire_s(), item.to_value().as_slice()),
            (90, b"late".as_slice())
        );
        assert_eq!(one.put(late(100)), ExtraOutcome::Stored { cas: 100 });
        let item = one.item();
        assert!(!item.is_stale() && !item.is_won());
        assert_eq!(item.expire_s(), 0);
    });
}

/// Bytes of the optional fields of an item that has none where that is possible.
fn least(mode: Mode) -> usize {
    if matches!(mode, Mode::Store | Mode::Lru) {
        TERMS_BYTES
    } else {
        0
    }
}

const ALL: usize = TERMS_BYTES + EXTRAS_BYTES;

#[test]
fn an_item_has_the_fields_that_its_content_needs() {
    for mode in MODES {
        let mut one = One::new(mode);
        one.native_put(&[1; 32]);
        assert_eq!(one.fields_bytes(), least(mode), "native");
        let cas = one.classic_set(&[2; 32], 0);
        assert_eq!((one.fields_bytes(), one.item().cas()), (least(mode), cas));
        assert_eq!(u64::from(one.item().version()), cas);
        one.classic_set(&[3; 32], 7);
        assert_eq!((one.fields_bytes(), one.item().flags()), (TERMS_BYTES, 7));
        let outcome = one.partition.put(&one.cpu, key(), &[4; 32], 60, 5);
        assert!(matches!(outcome, PutOutcome::Stored { .. }));
        assert_eq!((one.fields_bytes(), one.item().expire_s()), (TERMS_BYTES, 60));
        one.set(&[5; 32], 0);
        assert_eq!((one.fields_bytes(), one.item().accessed_s()), (ALL, 5));
        one.put(ExtraPut {
            value: &[&[6; 32]],
            cas: Some(9),
            ..Default::default()
        });
        assert_eq!((one.fields_bytes(), one.item().cas()), (ALL, 9));
        one.native_put(&[7; 32]);
        assert_eq!(one.fields_bytes(), least(mode), "and back");
        assert_eq!(one.item().to_value(), [7; 32]);
    }
}

#[test]
fn a_touch_of_a_plain_item_adds_terms_and_keeps_the_rest() {
    for mode in MODES {
        let mut one = One::new(mode);
        let version = one.native_put(&[1; 40]);
        assert!(one.partition.set_expiry(&one.cpu, key(), 0, 5));
        assert_eq!(one.fields_bytes(), least(mode), "nothing to say");
        assert!(one.partition.set_expiry(&one.cpu, key(), 90, 5));
        let item = one.item();
        assert_eq!((item.expire_s(), item.version()), (90, version));
        assert_eq!(item.to_value(), [1; 40]);
        assert_eq!(one.fields_bytes(), TERMS_BYTES);
        assert!(one.partition.set_expiry(&one.cpu, key(), 0, 5));
        assert_eq!((one.item().expire_s(), one.fields_bytes()), (0, TERMS_BYTES));
        assert_eq!(one.item().cas(), u64::from(version));
    }
}

#[test]
fn a_touch_of_the_longest_item_finds_space() {
    for mode in MODES {
        let mut one = One::new(mode);
        let store = |one: &mut One, len| {
            let outcome = one.partition.put(&one.cpu, key(), &vec![1; len], 0, 5);
            matches!(outcome, PutOutcome::Stored { .. })
        };
        let longest = (0..1 << 13).rev().find(|&len| store(&mut one, len));
        assert!(longest.is_some_and(|len| len > 7000), "{longest:?}");
        assert!(one.partition.set_expiry(&one.cpu, key(), 90, 5));
        assert_eq!(one.item().expire_s(), 90);
    }
}

#[test]
fn a_mark_of_a_plain_item_adds_extras_and_keeps_the_rest() {
    for mode in MODES {
        let mut one = One::new(mode);
        let version = one.classic_set(&[1; 40], 0);
        let won = Mark {
            won: Some(true),
            ..Default::default()
        };
        let item = one.mark(6, won);
        assert!(item.is_won() && !item.is_stale() && !item.is_fetched());
        assert_eq!((item.cas(), item.accessed_s()), (version, 0));
        assert_eq!(item.to_value(), [1; 40]);
        assert_eq!(one.fields_bytes(), ALL);
    }
}

#[test]
fn an_access_of_an_item_without_extras_is_not_recorded() {
    for mode in MODES {
        let mut one = One::new(mode);
        let seen = Mark {
            access: true,
            ..Default::default()
        };
        for flags in [0, 3] {
            one.classic_set(&[1; 40], flags);
            let bytes = one.fields_bytes();
            let item = one.mark(6, seen);
            assert_eq!((item.accessed_s(), item.is_fetched()), (0, false));
            assert_eq!(one.fields_bytes(), bytes);
        }
    }
}

#[test]
fn a_change_in_place_keeps_the_fields_that_it_needs() {
    in_all_modes(|mut one| {
        one.set(b"00009", 0);
        let outcome = one.put(ExtraPut {
            value: &[b"00010"],
            keep: true,
            ..Default::default()
        });
        assert!(matches!(outcome, ExtraOutcome::Stored { .. }));
        assert_eq!(one.item().accessed_s(), 5, "its last access is kept");
        one.put(ExtraPut {
            value: &[b"1"],
            join: Join::Append,
            keep: true,
            ..Default::default()
        });
        assert!(!one.item().has_extras(), "not recorded any more");
        assert_eq!(one.item().to_value(), b"000101");
    });
}

#[test]
fn fields_cost_what_they_take_in_the_log() {
    let mut one = One::new(FIFO);
    one.native_put(&[1; 32]);
    let plain = one.partition.stats().bytes;
    assert_eq!(plain, item_bytes(KEY.len(), 32) as u64);
    assert_eq!((item_bytes(16, 32), item_bytes(16, 400)), (56, 424));
    let mut before = plain;
    for (hash, flags, track_access, bytes) in [
        (hash_at(2, 9, 10), 0, false, 0),
        (hash_at(2, 6, 11), 1, false, TERMS_BYTES),
        (hash_at(2, 7, 12), 0, true, ALL),
    ] {
        let put = ExtraPut {
            value: &[&[1; 32]],
            flags,
            track_access,
            ..Default::default()
        };
        one.partition
            .put_extra(&one.cpu, Key { hash, bytes: KEY }, &put, 5);
        let after = one.partition.stats().bytes;
        assert_eq!(after - before, plain + bytes as u64);
        before = after;
    }
}

#[test]
fn a_store_without_room_for_extras_leaves_the_item_as_it_was() {
    let mut one = One::new(Mode::Store);
    one.native_put(&[7; 4000]);
    let filler = Key {
        hash: hash_at(2, 5, 10),
        bytes: b"filler",
    };
    let outcome = one.partition.put(&one.cpu, filler, &[1; 4000], 0, 5);
    assert!(matches!(outcome, PutOutcome::Stored { .. }));
    let invalid = Mark {
        stale: Some(true),
        ..Default::default()
    };
    let item = one.mark(6, invalid);
    assert!(!item.is_stale() && !item.has_extras());
    assert_eq!(item.to_value(), [7; 4000]);
    let tracked = ExtraPut {
        value: &[&[2; 4000]],
        track_access: true,
        ..Default::default()
    };
    assert_eq!(one.put(tracked), ExtraOutcome::Full);
    assert_eq!(one.item().to_value(), [7; 4000]);
    // Expiry and flags take nothing more.
    assert!(one.partition.set_expiry(&one.cpu, key(), 90, 5));
    one.classic_set(&[3; 4000], 8);
    assert_eq!((one.item().flags(), one.item().to_value()), (8, vec![3; 4000]));
}

#[test]
fn a_copy_keeps_version_and_extras_and_later_updates_go_on_above() {
    for mode in [FIFO, S3_FIFO, Mode::Lru, Mode::Store] {
        let mut one = One::new(mode);
        let extras = CopiedExtras {
            cas: 1 << 40,
            accessed_s: 3,
            fetched: true,
            stale: true,
            won: false,
        };
        for extras in [None, Some(extras)] {
            let fields = CopiedFields { version: 77, extras };
            one.put(ExtraPut {
                value: &[b"value"],
                copied: Some(fields),
                ..Default::default()
            });
            assert_eq!(CopiedFields::of(&one.item()), fields, "{mode:?}");
        }
        one.partition.raise_version(100);
        one.partition.raise_version(50);
        assert_eq!(one.partition.last_version(), 100);
        assert_eq!(one.native_put(b"next"), 101, "{mode:?}");
        one.partition.raise_version(u64::MAX);
        let last = one.native_put(b"last");
        assert_eq!(last, 1, "{mode:?}: 2^62 + 1, as far as an item stores it");
    }
}
