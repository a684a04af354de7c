//! Converts settings to the options of a HERD server: how memory is divided, and the log lines about it.

use super::limits::free_huge_bytes;
use super::settings::{Origin, Settings};
use crate::exit::{self, Failure};
use drover_base::Ns;
use drover_kv_herd::server::ServerOptions;
use drover_mem::PageWish;
use drover_rt::Idle;
use drover_store::{Mode, PartitionOptions, VALUE_BYTES_MAX};
use drover_verbs::Caps;
use drover_verbs_shm::{ShmDevice, ShmOptions};

/// With usual items (16-byte keys, 32-byte values), a full log fills half of the index's 8 slots per bucket: then 0.84
/// % of the items find their bucket full, where half the index would lose 14 % (`index_losses_at_three_loads`). Larger
/// items leave slots free; items of half the size lose those 14 %.
const LOG_BYTES_PER_BUCKET: usize = 4 * drover_store::item_bytes(16, 32);
const _: () = assert!(LOG_BYTES_PER_BUCKET.is_power_of_two());
/// Minimum log size of a partition.
const LOG_BYTES_MIN: usize = 1 << 16;

/// 16 requests in flight for each of 64 clients.
const DATAGRAM_RECVS: usize = 1024;
/// Every sender of datagrams has a ring at every worker, with this many lines (64 bytes) per RECV of *all* clients:
/// here 64 KiB, several times one client's requests in flight.
const RING_LINES_PER_RECV: usize = 1;

/// Shared memory with the properties that such a server needs.
pub fn shm_device() -> ShmDevice {
    let mut options = ShmOptions::default();
    options.ring_lines_per_recv = RING_LINES_PER_RECV;
    ShmDevice::open(options)
}

/// The options of a server with these settings.
pub fn server_options(settings: &Settings) -> Result<ServerOptions, Failure> {
    let log_bytes = log_bytes(
        settings.capacity.memory_mib.value,
        settings.capacity.threads.value,
    )?;
    let mode = if settings.capacity.disable_evictions.value {
        Mode::Store
    } else {
        Mode::Cache { move_to_head: 1.0 }
    };
    let partition = PartitionOptions {
        mode,
        log_bytes,
        bucket_count: log_bytes / LOG_BYTES_PER_BUCKET,
        pages: if settings.memory.large_pages.value {
            PageWish::Huge
        } else {
            PageWish::HugeIfAny
        },
        ..PartitionOptions::default()
    };
    Ok(ServerOptions {
        partition_count: settings.capacity.threads.value,
        partition,
        item_bytes_max: item_bytes(settings, log_bytes)?,
        window_max: settings.workers.window_max.value.into(),
        slot_bytes_max: settings.workers.slot_bytes_max.value.into(),
        clients_max: settings.capacity.conn_limit.value,
        slot_clients_max: settings.capacity.slot_clients.value,
        datagram_recvs: match settings.capacity.slot_clients.value < settings.capacity.conn_limit.value {
            true => DATAGRAM_RECVS,
            false => 0,
        },
        idle: match settings.workers.spin_us.value {
            0 => Idle::Spin,
            us => Idle::Adaptive {
                spin: Ns::from_us(us),
            },
        },
        ..ServerOptions::default()
    })
}

/// `-I`. As with memcached an item takes at most half of the memory for items; memcached's default is silently reduced
/// to that, an explicit value is refused.
fn item_bytes(settings: &Settings, log_bytes: usize) -> Result<usize, Failure> {
    let asked = &settings.capacity.max_item_bytes;
    if asked.origin != Origin::Default && asked.value > log_bytes / 2 {
        let (asked, most) = (size(asked.value), size(log_bytes / 2));
        let text = format!(
            "-I: items of {asked} are longer than half of a partition, {most}: more memory (-m) or fewer workers (-t)"
        );
        return Err(Failure::new(exit::USAGE, text));
    }
    Ok(asked.value.min(VALUE_BYTES_MAX))
}

/// Bytes of each partition's log: its share of `-m`, rounded down to a power of two to keep the limit.
fn log_bytes(memory_mib: u64, threads: usize) -> Result<usize, Failure> {
    let share = (memory_mib as usize)
        .checked_mul(1 << 20)
        .map(|bytes| bytes / threads);
    match share {
        Some(share) if share >= LOG_BYTES_MIN => Ok(1 << share.ilog2()),
        _ => {
            let text = format!("-m {memory_mib}: too little or too much for {threads} partitions");
            Err(Failure::new(exit::USAGE, text))
        }
    }
}

/// Logs the choices and their reasons.
pub fn announce(settings: &Settings, options: &ServerOptions, caps: &Caps) {
    let log = size(options.partition.log_bytes);
    let index_kib = (options.partition.bucket_count * 64) >> 10;
    let (asked, count) = (settings.capacity.memory_mib.value, options.partition_count);
    tracing::info!(
        "items: {count} partition(s) of {log} ({asked} MiB requested by {}; each a power of two) and {index_kib} KiB of index",
        settings.capacity.memory_mib.origin
    );
    tracing::info!(
        "when full: {}",
        if settings.capacity.disable_evictions.value {
            "answers \"full\" (-M)"
        } else {
            "evicts the oldest items"
        }
    );
    tracing::info!("pages: {}", pages(settings, options));
    match &settings.workers.cores.value {
        Some(cores) => tracing::info!(
            "workers: {count}, on cores {cores:?} ({})",
            settings.workers.cores.origin
        ),
        None => tracing::info!(
            "workers: {count}, not pinned ({}): too few cores, or not wanted",
            settings.workers.cores.origin
        ),
    }
    let (clients, slots) = (
        settings.capacity.conn_limit.value,
        settings.capacity.slot_clients.value,
    );
    match clients.checked_sub(slots) {
        None | Some(0) => tracing::info!("clients: {clients}, all with request slots"),
        Some(more) => {
            tracing::info!("clients: {clients}; {slots} with request slots, {more} more by datagrams")
        }
    }
    match settings.workers.spin_us.value {
        0 => tracing::info!("idle workers poll for ever (--spin-us 0)"),
        us if !caps.memory_wait => tracing::info!(
            "idle workers poll for {us} us, then at intervals of up to a millisecond ({}): requests on this fabric \
             raise no event",
            settings.workers.spin_us.origin
        ),
        us => tracing::info!(
            "idle workers poll for {us} us, then sleep ({})",
            settings.workers.spin_us.origin
        ),
    }
}

/// A size for people: powers of two of at least a KiB.
fn size(bytes: usize) -> String {
    match bytes >> 20 {
        0 => format!("{} KiB", bytes >> 10),
        mib => format!("{mib} MiB"),
    }
}

fn pages(settings: &Settings, options: &ServerOptions) -> String {
    let wanted =
        options.partition_count * (options.partition.log_bytes + options.partition.bucket_count * 64);
    let free = free_huge_bytes();
    if settings.memory.large_pages.value {
        return "reserved huge pages (-L)".to_string();
    }
    if free >= wanted as u64 {
        return format!("reserved huge pages, {} MiB are free", free >> 20);
    }
    format!(
        "transparent huge pages where available: {} MiB wanted, {} MiB of huge pages reserved (see `drover doctor`)",
        wanted >> 20,
        free >> 20
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_share_the_memory_and_stay_within_it() {
        assert_eq!(log_bytes(64, 1).unwrap(), 64 << 20);
        assert_eq!(log_bytes(100, 1).unwrap(), 64 << 20);
        assert_eq!(log_bytes(64, 3).unwrap(), 16 << 20);
        assert_eq!(
            log_bytes(1, 32).unwrap_err().text,
            "-m 1: too little or too much for 32 partitions"
        );
        assert!(log_bytes(u64::MAX, 1).is_err());
    }
}
