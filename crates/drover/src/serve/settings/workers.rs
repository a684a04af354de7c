//! Where workers run, and how they look for requests.

use super::words::choose_cores;
use super::{Origin, Row, Setting, pick, row};
use crate::exit::Failure;

/// Arguments about workers.
#[derive(clap::Args, Clone, Default, Debug)]
pub struct WorkerArgs {
    /// Cores to pin workers to, such as 2,3 or 0-3; none: do not pin [default: the last of this process]
    #[arg(long, value_name = "LIST")]
    pub cores: Option<String>,
    /// Maximum requests in flight per client and worker: a power of two up to 256 [default: 256]
    #[arg(long, value_name = "COUNT")]
    pub window_max: Option<u16>,
    /// Maximum size of a client's request slot: a multiple of 64 up to 1024; below 320 the longest keys are refused,
    /// because a slot holds the key and up to 44 bytes more [default: 1024]
    #[arg(long, value_name = "BYTES")]
    pub slot_bytes_max: Option<u16>,
    /// Idle polling time of a worker before it sleeps (or polls rarely, on a fabric without wake-ups), microseconds; 0:
    /// never sleep [default: 50]
    #[arg(long, value_name = "MICROSECONDS")]
    pub spin_us: Option<u64>,
}

/// Settings of the workers.
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// Core of each worker, by worker index; further cores are unused. `None`: workers are not pinned.
    pub cores: Setting<Option<Vec<usize>>>,
    /// Maximum number of request slots per client and worker, a power of two up to 256.
    pub window_max: Setting<u16>,
    /// Maximum bytes of a request slot, a multiple of 64 up to 1024.
    pub slot_bytes_max: Setting<u16>,
    /// Idle polling time of a worker before it sleeps, microseconds; 0: it never sleeps.
    pub spin_us: Setting<u64>,
}

impl WorkerSettings {
    /// Merges command line, file and defaults, in this order, for `count` workers on some of the cores `allowed`.
    pub(super) fn fill(
        typed: WorkerArgs,
        file: WorkerArgs,
        count: usize,
        allowed: &[usize],
    ) -> Result<WorkerSettings, Failure> {
        let cores = pick(typed.cores, file.cores, String::new(), Origin::Machine);
        Ok(WorkerSettings {
            cores: Setting {
                value: choose_cores(&cores.value, count, allowed)?,
                origin: cores.origin,
            },
            window_max: pick(typed.window_max, file.window_max, 256, Origin::Default),
            slot_bytes_max: pick(typed.slot_bytes_max, file.slot_bytes_max, 1024, Origin::Default),
            spin_us: pick(typed.spin_us, file.spin_us, 50, Origin::Default),
        })
    }

    /// Rows of `drover config`.
    pub(super) fn rows(&self) -> [Row; 4] {
        [
            row("cores", &self.cores, |cores| {
                cores.as_ref().map_or("none".into(), |c| join(c))
            }),
            row("window-max", &self.window_max, u16::to_string),
            row("slot-bytes-max", &self.slot_bytes_max, |bytes| {
                format!("{bytes} bytes")
            }),
            row("spin-us", &self.spin_us, |us| format!("{us} microseconds")),
        ]
    }
}

fn join(cores: &[usize]) -> String {
    cores.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}
