//! Every defect found in public code of this kind, as a scenario. Each runs on our partition and must pass, and on a
//! toy with only that flaw and must fail: otherwise the scenario would prove nothing.
//!
//! Defects 1 and 2 have a second test next to the code concerned (`index: cache_table`, `store: log`). Defect 8, a
//! reply that still reads an item while a later PUT changes it, does not compile: see the `compile_fail` example of the
//! crate. Its form in a batch of the worker is tested in `kv-herd`.

use crate::common::{FIFO, Flaw, Kv, Ours, Toy};
use drover_store::Mode;

/// Runs `scenario` on a flawless toy, on our partition and on the flawed toy.
fn ours_passes_and_the_flaw_is_caught(scenario: fn(&mut dyn Kv) -> bool, flaw: Flaw) {
    // The other two concern eviction, which does not exist in store mode.
    if !matches!(flaw, Flaw::EvictsNewest | Flaw::TrustsFirstStage) {
        assert!(scenario(&mut Ours::new(Mode::Store)), "store mode");
        assert!(scenario(&mut Ours::new(Mode::Lru)), "LRU mode");
    }
    assert!(scenario(&mut Toy::new(Flaw::None)), "the scenario itself");
    assert!(scenario(&mut Ours::new(FIFO)), "cache mode");
    assert!(!scenario(&mut Toy::new(flaw)), "{flaw:?} must be caught");
}

#[test]
fn defect_1_full_bucket_evicts_oldest_not_newest() {
    fn scenario(kv: &mut dyn Kv) -> bool {
        (0..9).for_each(|k| kv.put(k, b"value"));
        kv.get(0).is_none() && (1..9).all(|k| kv.get(k).is_some())
    }
    ours_passes_and_the_flaw_is_caught(scenario, Flaw::EvictsNewest);
}

#[test]
fn defect_3_reinserted_key_stays_reachable() {
    fn scenario(kv: &mut dyn Kv) -> bool {
        // 5, 105 and 205 share a tag.
        kv.put(5, b"a");
        kv.put(105, b"b");
        kv.delete(105);
        kv.put(205, b"c");
        kv.put(105, b"d");
        let value = |kv: &mut dyn Kv, k| kv.get(k).unwrap_or_default();
        value(kv, 5) == b"a" && value(kv, 105) == b"d" && value(kv, 205) == b"c"
    }
    ours_passes_and_the_flaw_is_caught(scenario, Flaw::LastFreeSlotFirstTag);
}

#[test]
fn defect_4_put_of_another_length_is_served() {
    fn scenario(kv: &mut dyn Kv) -> bool {
        [3usize, 40, 0, 200, 199, 8, 1].into_iter().all(|len| {
            let value: Vec<u8> = (0..len).map(|i| (i + len) as u8).collect();
            kv.put(1, &value);
            kv.get(1).as_deref() == Some(&value[..])
        })
    }
    ours_passes_and_the_flaw_is_caught(scenario, Flaw::FixedLength);
}

#[test]
fn defect_5_no_stale_version_survives_in_a_lower_slot() {
    fn scenario(kv: &mut dyn Kv) -> bool {
        kv.put(1, b"one");
        kv.put(2, b"old");
        kv.delete(1);
        kv.put(2, b"new"); // Takes the free slot before its old version, unless the insert searches further.
        kv.delete(2);
        kv.get(2).is_none()
    }
    ours_passes_and_the_flaw_is_caught(scenario, Flaw::StopsAtEmpty);
}

#[test]
fn defect_5_all_eight_slots_are_used() {
    fn scenario(kv: &mut dyn Kv) -> bool {
        (0..8).for_each(|k| kv.put(k, b"value"));
        (0..8).all(|k| kv.get(k).is_some())
    }
    ours_passes_and_the_flaw_is_caught(scenario, Flaw::StopsAtEmpty);
}

#[test]
fn defect_6_second_stage_checks_everything_again() {
    fn scenario(kv: &mut dyn Kv) -> bool {
        kv.put(7, b"seven");
        kv.look_ahead(7);
        (10..18).for_each(|k| kv.put(k, b"other")); // Evicts 7 between the stages.
        kv.get(7).is_none()
    }
    ours_passes_and_the_flaw_is_caught(scenario, Flaw::TrustsFirstStage);
}

#[test]
fn defect_6_an_item_overwritten_between_the_stages_is_a_miss() {
    let mut ours = Ours::new(FIFO);
    ours.put(7, b"seven");
    ours.look_ahead(7);
    for i in 0..40 {
        ours.put(8, &vec![7; 100 + 8 * i]); // One slot, but more than the whole log.
    }
    assert_eq!(ours.get(7), None);
    assert_eq!(ours.partition.stats().evicted_log_wrapped, 1);
}

#[test]
fn defect_7_growing_in_place_spares_the_next_item() {
    fn scenario(kv: &mut dyn Kv) -> bool {
        kv.put(1, &[1; 16]);
        kv.put(2, &[2; 16]);
        kv.put(1, &[3; 24]); // 8 bytes longer: as much as a header.
        kv.get(1).as_deref() == Some(&[3; 24]) && kv.get(2).as_deref() == Some(&[2; 16])
    }
    ours_passes_and_the_flaw_is_caught(scenario, Flaw::RoomIncludesHeader);
}
