//! Costs of readers of a cuckoo table, compared with computed values: mean probes fresh and under churn, READs per GET
//! with and without fingerprints. Counts, not times.
#![cfg(not(any(loom, miri)))]

use crate::common::{churn, filled, reads_per_get};
use drover_index::cuckoo::SCRUB_PER_DELETE;

const ENTRIES: usize = 1 << 14;

#[track_caller]
fn within_3_percent(measured: f64, computed: f64) {
    assert!(
        (measured / computed - 1.0).abs() < 0.03,
        "{measured:.3}, computed {computed}"
    );
}

#[test]
fn mean_probes_of_a_fresh_table() {
    for (load, computed) in [(0.5, 1.32), (0.75, 1.56), (0.9, 1.80)] {
        let table = filled(ENTRIES, load).expect("breadth-first search fills to 0.9");
        within_3_percent(table.mean_probes(), computed);
    }
}

/// Pilaf's released code walks at random, at most 32 steps, and gives up although a path exists.
#[test]
fn pilaf_a_million_keys_find_their_places() {
    let entries = 1 << 21;
    let table = filled(entries, 0.75).expect("no path fails");
    assert!(table.len() > 1_000_000);
    let mean = table.mean_probes();
    assert!((1.54..=1.65).contains(&mean), "{mean:.3}");
    assert!(filled(1 << 16, 0.9).is_ok());
}

#[test]
fn churn_without_the_scrubber_drifts_away() {
    let mut table = filled(ENTRIES, 0.75).expect("space");
    churn(&mut table, 10, 0);
    within_3_percent(table.mean_probes(), 1.88);
}

#[test]
fn the_scrubber_keeps_readers_at_1_65_probes() {
    let mut table = filled(ENTRIES, 0.75).expect("space");
    churn(&mut table, 10, SCRUB_PER_DELETE);
    assert!(table.mean_probes() <= 1.65, "{:.3}", table.mean_probes());
}

/// Without a fingerprint, an entry of another key also costs a READ of its record: Pilaf's released code pays that, its
/// emulations do not.
#[test]
fn pilaf_fingerprints_save_half_a_read_and_more() {
    let table = filled(ENTRIES, 0.75).expect("space");
    let (with, without) = reads_per_get(&table, 0..table.len() as u64);
    within_3_percent(with, 2.56);
    within_3_percent(without, 3.12);
}

/// Pilaf's released code declares a load limit of 0.75 and resizes only when its walk fails.
#[test]
fn pilaf_the_load_limit_is_looked_at() {
    assert!(!filled(ENTRIES, 0.74).expect("space").wants_growth());
    assert!(filled(ENTRIES, 0.751).expect("space").wants_growth());
}
