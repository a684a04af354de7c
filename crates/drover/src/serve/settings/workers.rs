//! Where workers run, and how they look for requests.

use super::offered::Feature::{Slots, Transfer};
use super::words::{choose_cores, cores_shown, transfer_of};
use super::{flags, parsed, value};
use drover_kv::ResultTransfer;

flags! {
    /// Arguments about workers.
    #[command(next_help_heading = "Workers and native clients")]
    struct WorkerArgs;
    /// Settings of the workers.
    struct WorkerSettings(worker_count: usize, allowed: &[usize]);

    /// Cores to pin workers to, such as 2,3 or 0-3; none: do not pin [default: the last of this
    /// process, or none if it has no more cores than workers]
    #[arg(long = "cores", value_name = "LIST")]
    cores: String as Option<Vec<usize>> =
        parsed(String::new(), |text| choose_cores(&text, worker_count, allowed)).of_machine().show(cores_shown);

    /// Maximum requests in flight per client and worker: a power of two up to 256 [default: 256]
    #[arg(long = "window-max", value_name = "COUNT")]
    window_max: u16 = value(256_u16).needs(Slots).check(
        |window| window.is_power_of_two() && *window <= 256,
        |window| format!("--window-max {window}: a power of two from 1 to 256"),
    );

    /// Maximum size of a client's request slot: a multiple of 64 up to 1024; below 320 the longest keys are refused,
    /// because a slot holds the key and up to 44 bytes more [default: 1024]
    #[arg(long = "slot-bytes-max", value_name = "BYTES")]
    slot_bytes_max: u16 = value(1024_u16).needs(Slots).show(|bytes| format!("{bytes} bytes")).check(
        |bytes| bytes.is_multiple_of(64) && (64..=1024).contains(bytes),
        |bytes| format!("--slot-bytes-max {bytes}: a multiple of 64 from 64 to 1024"),
    );

    /// Idle polling time of a worker before it sleeps (or polls rarely, on a fabric without wake-ups), microseconds; 0:
    /// never sleep [default: 50]
    #[arg(long = "spin-us", value_name = "MICROSECONDS")]
    spin_us: u64 = value(50).show(|us| format!("{us} microseconds"));

    /// How results come to clients that do not say how: auto (clients read them, or have them written while the server is
    /// slow), fetch (clients read them) or reply (the server writes them, which costs it more and its clients less)
    /// [default: auto]
    #[arg(long = "transfer", value_name = "HOW")]
    transfer: String as ResultTransfer = parsed("auto".to_string(), transfer_of)
        .needs(Transfer)
        .show(|transfer| transfer.name().to_string());
}
