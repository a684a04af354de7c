//! drover held against memcached: memcached's own tests, real clients, random command streams to both at once, abuse,
//! and speed. Everything takes the server as an argument; with `--server memcached` it must go well too, which is its
//! own test.

pub mod abuse;
pub mod clients;
pub mod differ;
mod load;
pub mod newest;
mod server;
mod source;
pub mod suite;
mod table;

use crate::command::{self, cargo, target_dir};
use std::path::PathBuf;

/// Where sources are kept, and what servers and tests said.
fn folder() -> PathBuf {
    target_dir("memcached")
}

/// The program that talks to servers, built as tests are.
fn versus() -> Result<std::process::Command, String> {
    command::run(&mut cargo(&[
        "build",
        "--quiet",
        "--workspace",
        "--examples",
        "--bin",
        "versus",
    ]))?;
    Ok(built_versus())
}

/// The same, if it has been built.
fn built_versus() -> std::process::Command {
    std::process::Command::new(target_dir("debug").join("versus"))
}
