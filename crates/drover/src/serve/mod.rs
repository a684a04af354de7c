//! `drover serve` and `drover config`.

mod args;
mod extended;
mod herd;
mod limits;
mod listen;
mod memcached;
mod memory_file;
mod native;
mod ops;
mod plan;
mod run;
mod settings;
mod ways;

pub use args::Args;
pub use settings::{fuzz_config_file, fuzz_settings};

use crate::exit;
use settings::Settings;
use std::process::ExitCode;

/// Serves until a signal comes.
pub fn run(args: &Args) -> ExitCode {
    if args.version {
        println!("drover {}", env!("CARGO_PKG_VERSION"));
        return ExitCode::SUCCESS;
    }
    exit::from_result(Settings::resolve(args).and_then(|settings| run::serve(&settings)))
}

/// Prints every setting with its origin.
pub fn print_config(args: &Args) -> ExitCode {
    exit::from_result(Settings::resolve(args).map(|settings| print!("{settings}")))
}
