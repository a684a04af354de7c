//! `drover serve` and `drover config`.

mod args;
mod limits;
mod listen;
mod settings;

pub use args::Args;

use crate::exit::{self, Failure};
use settings::Settings;
use std::process::ExitCode;

/// Serves until a signal comes.
pub fn run(args: &Args) -> ExitCode {
    exit::from_result(Settings::resolve(args).and_then(|settings| serve(&settings)))
}

/// Prints every setting and where its value came from.
pub fn print_config(args: &Args) -> ExitCode {
    exit::from_result(Settings::resolve(args).map(|settings| print!("{settings}")))
}

fn serve(settings: &Settings) -> Result<(), Failure> {
    limits::check(settings)?;
    if settings.lock_memory.value {
        limits::lock_all()?;
    }
    let _listeners = listen::open_all(settings)?;
    Ok(())
}
