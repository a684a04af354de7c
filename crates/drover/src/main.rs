//! The binary `drover`: the library's program with the table of systems.
#![forbid(unsafe_code)]

use drover_systems::System;
use std::process::ExitCode;

fn main() -> ExitCode {
    drover::main_with::<System>(std::env::args_os())
}
