//! What a GET reads, counted at the client of a service that stores real records: entries at a load of 0.75, and one record.

use drover_kv_pilaf::Pilaf;
use drover_kv_pilaf::server::ServerOptions;
use drover_testkit::beds::read_each_once;

const ENTRIES: usize = 1 << 13;
const KEYS: u64 = ENTRIES as u64 * 3 / 4;
/// Memory of the shard.
const MEMORY_BYTES: usize = 4 << 20;

#[test]
fn a_get_reads_one_record_and_as_many_entries_as_computed() {
    let stats = read_each_once::<Pilaf, _>(
        KEYS,
        8,
        |options| ServerOptions {
            entry_count: ENTRIES,
            entry_count_max: ENTRIES,
            memory_bytes: MEMORY_BYTES,
            ..options
        },
        |client| client.stats(),
    );
    assert_eq!((stats.hits, stats.record_reads, stats.asked), (KEYS, KEYS, 0));
    let entries = stats.entry_reads as f64 / KEYS as f64;
    println!(
        "{entries:.3} entries a GET (computed 1.56), {:.3} READs (2.56)",
        entries + 1.0
    );
    assert!((entries / 1.56 - 1.0).abs() < 0.03, "{entries:.3} entries a GET");
}

/// Fewer buffers for long records than operations: who finds none keeps what it has read.
#[test]
fn who_waits_for_a_buffer_does_not_look_its_key_up_again() {
    let keys = 200;
    let stats = read_each_once::<Pilaf, _>(
        keys,
        9000,
        |options| ServerOptions {
            memory_bytes: MEMORY_BYTES,
            ..options
        },
        |client| client.stats(),
    );
    assert_eq!((stats.record_reads, stats.torn), (keys, 0));
    // One, or now and then a second, as of any key.
    assert!(stats.entry_reads < keys * 3 / 2, "{} entries", stats.entry_reads);
}
