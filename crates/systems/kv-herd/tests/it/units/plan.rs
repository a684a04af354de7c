//! The plan of a service by its memory.

use drover_kv::{Capacity, HostingSystem, Sizes, System};
use drover_kv_herd::Herd;

#[test]
fn partitions_share_the_memory_and_stay_within_it() {
    let partition_bytes = |mib: usize, shard_count| {
        let sizes = Sizes {
            shard_count,
            capacity: Capacity::Memory { bytes: mib << 20 },
            value_bytes_max: 1 << 20,
            window: 16,
        };
        Herd::plan(&sizes).map(|plan| Herd::partition(&plan).bytes())
    };
    assert_eq!(partition_bytes(64, 1), Ok(64 << 20));
    assert_eq!(partition_bytes(100, 1), Ok(100 << 20));
    let whole_pages = (64 << 20) / 3 / 4096 * 4096;
    assert_eq!(partition_bytes(64, 3), Ok(whole_pages));
    let refused = "too little or too much for 32 partitions".to_owned();
    assert_eq!(partition_bytes(1, 32), Err(refused));
}
