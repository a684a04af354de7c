//! How many items and clients a server has space for.

use super::words::bytes_of;
use super::{Origin, Row, Setting, pick, row};
use crate::exit::Failure;

/// Polling the slots of more clients than this costs more than datagrams do `[HERD §5.5]`.
const SLOT_CLIENTS: usize = 256;

/// Arguments about items and clients.
#[derive(clap::Args, Clone, Default, Debug)]
pub struct CapacityArgs {
    /// Memory for items, MiB [default: 64]
    #[arg(short = 'm', long, value_name = "MIB")]
    pub memory_limit: Option<u64>,
    /// Answer "full" instead of evicting old items
    #[arg(short = 'M', long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub disable_evictions: Option<bool>,
    /// Worker threads; each owns one partition of the keys and one core [default: half the cores, 1 to 4]
    #[arg(short = 't', long, value_name = "COUNT")]
    pub threads: Option<usize>,
    /// Largest item; bytes, or with k or m, from 1k to 8m and no more than half of a partition [default: 1m]
    #[arg(short = 'I', long, value_name = "SIZE")]
    pub max_item_size: Option<String>,
    /// Maximum number of native clients, and of memcached connections [default: 1024]
    #[arg(short = 'c', long, value_name = "COUNT")]
    pub conn_limit: Option<usize>,
    /// Clients that write their requests into slots of the server's memory, which is fastest; further ones, up to -c,
    /// send them as datagrams [default: 256]
    #[arg(long, value_name = "COUNT")]
    pub slot_clients: Option<usize>,
}

/// Space for items and clients.
#[derive(Clone, Debug)]
pub struct CapacitySettings {
    /// Memory for the items of all workers together, MiB.
    pub memory_mib: Setting<u64>,
    /// Whether a full server answers "full" (store mode) instead of evicting old items (cache mode).
    pub disable_evictions: Setting<bool>,
    /// Number of workers, each with one partition.
    pub threads: Setting<usize>,
    /// Maximum item size, bytes.
    pub max_item_bytes: Setting<usize>,
    /// Maximum number of native clients. As many memcached connections are allowed besides.
    pub conn_limit: Setting<usize>,
    /// Maximum number of native clients with request slots; further ones send requests as datagrams.
    pub slot_clients: Setting<usize>,
}

impl CapacitySettings {
    /// Merges command line, file and defaults, in this order. The process may use `core_count` cores.
    pub(super) fn fill(
        typed: CapacityArgs,
        file: CapacityArgs,
        core_count: usize,
    ) -> Result<CapacitySettings, Failure> {
        let by_default = Origin::Default;
        let size = pick(
            typed.max_item_size,
            file.max_item_size,
            "1m".to_string(),
            by_default,
        );
        Ok(CapacitySettings {
            memory_mib: pick(typed.memory_limit, file.memory_limit, 64, by_default),
            disable_evictions: pick(typed.disable_evictions, file.disable_evictions, false, by_default),
            threads: pick(
                typed.threads,
                file.threads,
                (core_count / 2).clamp(1, 4),
                Origin::Machine,
            ),
            max_item_bytes: Setting {
                value: bytes_of("--max-item-size", &size.value)?,
                origin: size.origin,
            },
            conn_limit: pick(typed.conn_limit, file.conn_limit, 1024, by_default),
            slot_clients: pick(typed.slot_clients, file.slot_clients, SLOT_CLIENTS, by_default),
        })
    }

    /// Rows of `drover config`.
    pub(super) fn rows(&self) -> [Row; 6] {
        [
            row("memory-limit", &self.memory_mib, |mib| format!("{mib} MiB")),
            row("disable-evictions", &self.disable_evictions, bool::to_string),
            row("threads", &self.threads, usize::to_string),
            row("max-item-size", &self.max_item_bytes, |bytes| {
                format!("{bytes} bytes")
            }),
            row("conn-limit", &self.conn_limit, usize::to_string),
            row("slot-clients", &self.slot_clients, usize::to_string),
        ]
    }
}
