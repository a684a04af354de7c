//! How many items and clients a server has space for.

use super::offered::Feature::{Eviction as Choice, Slots};
use super::words::{bytes_of, eviction_of, name_of};
use super::{flags, parsed, value};
use drover_kv::SHARDS_MAX;
use drover_store::Eviction;

/// Polling the slots of more clients than this costs more than datagrams do `[HERD §5.5]`.
const SLOT_CLIENTS: usize = 256;

flags! {
    /// Arguments about items and clients.
    #[command(next_help_heading = "Items and clients")]
    struct CapacityArgs;
    /// Space for items and clients.
    struct CapacitySettings(core_count: usize);

    /// Memory for items and their index, MiB [default: 64]
    #[arg(long = "memory-limit", short = 'm', value_name = "MIB")]
    memory_mib: u64 = value(64)
        .show(|mib| format!("{mib} MiB"))
        .check(|mib| *mib > 0, |_| "--memory-limit must be at least 1 MiB".to_string());

    /// Which items are evicted when the memory is full: s3fifo, those that are used least; or fifo, those that were stored
    /// longest ago [default: s3fifo]
    #[arg(long = "eviction", value_name = "POLICY")]
    eviction: String as Eviction = parsed("s3fifo".to_string(), eviction_of)
        .needs(Choice)
        .show(|eviction| name_of(*eviction).to_string());

    /// Answer "full" instead of evicting items
    #[switch(long = "disable-evictions", short = 'M')]
    disable_evictions: bool = value(false);

    /// Worker threads; each owns one partition of the keys and one core [default: half the cores, 1 to 4]
    #[arg(long = "threads", short = 't', value_name = "COUNT")]
    threads: usize = value((core_count / 2).clamp(1, 4)).of_machine().check(
        |count| (1..=SHARDS_MAX).contains(count),
        |count| format!("--threads {count}: from 1 to {SHARDS_MAX}"),
    );

    /// Largest item; bytes, or with k or m, from 1k to 8m, because a value's length has 23 bits, and no more than half of a
    /// partition [default: 1m]
    #[arg(long = "max-item-size", short = 'I', value_name = "SIZE")]
    max_item_bytes: String as usize = parsed("1m".to_string(), bytes_of).show(|bytes| format!("{bytes} bytes"));

    /// Maximum number of native clients, and of memcached connections [default: 1024]
    #[arg(long = "conn-limit", short = 'c', value_name = "COUNT")]
    conn_limit: usize = value(1024)
        .check(|count| *count > 0, |_| "--conn-limit must be at least 1".to_string());

    /// Clients that write their requests into slots of the server's memory, which is fastest; further ones, up to -c,
    /// send them as datagrams [default: 256]
    #[arg(long = "slot-clients", value_name = "COUNT")]
    slot_clients: usize = value(SLOT_CLIENTS).needs(Slots);
}
