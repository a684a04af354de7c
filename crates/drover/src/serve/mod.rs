//! `drover serve` and `drover config`.

mod announce;
mod args;
#[cfg(test)]
mod card_numbers;
mod cluster;
mod extended;
mod file_space;
mod gateway;
mod hosted;
mod limits;
mod listen;
mod machine_memory;
mod memcached;
mod memlock;
mod memory_file;
mod native;
#[cfg(test)]
mod nodes_over_tls;
mod ops;
mod plan;
mod pool;
mod processor_time;
mod run;
mod seldom;
mod settings;
mod shortage;
mod ways;
mod worker;

pub use args::Args;
pub use native::own_addr;
pub use ops::{Files, Signal, Signals, tls_options};
pub use run::start_logging;
pub(crate) use settings::item_bytes_of;
pub use settings::{fuzz_config_file, fuzz_settings};

use crate::exit;
use drover_kv::SystemTable;
use settings::Settings;
use std::process::ExitCode;

/// Starts a server and serves until SIGTERM, SIGINT or a failure (with a memory file, also until SIGUSR1); with `-V`,
/// only prints the version.
pub fn run<T: SystemTable>(args: &Args) -> ExitCode {
    if args.program.version {
        println!("drover {}", env!("CARGO_PKG_VERSION"));
        return ExitCode::SUCCESS;
    }
    exit::from_result(
        Settings::resolve::<T>(args).and_then(|(settings, system)| run::serve(&settings, system)),
    )
}

/// Prints every setting of `serve` with its value and origin; starts nothing.
pub fn print_config<T: SystemTable>(args: &Args) -> ExitCode {
    exit::from_result(Settings::resolve::<T>(args).map(|(settings, _)| print!("{settings}")))
}
