//! What a GET reads, counted at the client of a service that stores real values, at a load of 0.75.

use drover_index::hopscotch::{Geometry, SlotKind};
use drover_kv_farm::Farm;
use drover_kv_farm::server::ServerOptions;
use drover_testkit::beds::read_each_once;

const SLOTS: usize = 1 << 13;
const KEYS: u64 = SLOTS as u64 * 3 / 4;
/// Memory of the shard.
const MEMORY_BYTES: usize = 4 << 20;

#[test]
fn a_get_reads_a_neighbourhood_and_an_object_if_need_be_as_computed() {
    for (kind, objects, computed) in [(SlotKind::Wide, 0, 1.011), (SlotKind::Narrow, KEYS, 2.011)] {
        let stats = read_each_once::<Farm, _>(
            KEYS,
            8,
            |options| ServerOptions {
                geometry: Geometry::CLASSIC,
                home_count: SLOTS,
                block_count: SLOTS / 16,
                kind,
                memory_bytes: MEMORY_BYTES,
                ..options
            },
            |client| client.stats(),
        );
        // Messages are PUTs.
        assert_eq!(
            (
                stats.hits,
                stats.neighbourhood_reads,
                stats.object_reads,
                stats.messages
            ),
            (KEYS, KEYS, objects, KEYS)
        );
        let reads = stats.reads() as f64 / KEYS as f64;
        let overflow = stats.overflow_reads as f64 / KEYS as f64;
        println!("{kind:?}: {reads:.3} READs a GET (computed {computed}), {overflow:.4} of them overflow");
        assert!(
            (reads / computed - 1.0).abs() < 0.03,
            "{kind:?}: {reads:.3} READs a GET"
        );
        assert!(
            (0.005..0.02).contains(&overflow),
            "{kind:?}: {overflow:.4} in overflow"
        );
    }
}

/// Fewer buffers for long objects than operations: who finds none keeps what it has read.
#[test]
fn who_waits_for_a_buffer_does_not_look_its_key_up_again() {
    let keys = 200;
    let stats = read_each_once::<Farm, _>(
        keys,
        9000,
        |options| ServerOptions {
            memory_bytes: MEMORY_BYTES,
            ..options
        },
        |client| client.stats(),
    );
    assert_eq!(
        (stats.neighbourhood_reads, stats.object_reads, stats.retries),
        (keys, keys, 0)
    );
}
