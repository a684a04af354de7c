//! Compares drover with memcached: memcached's own tests, real clients, random command streams to both, abuse, and
//! hit rates. Every chore but hitrate takes the server as an argument; with `--server memcached` it must pass too, which
//! proves the chore.

pub mod abuse;
pub mod clients;
pub mod differ;
pub mod hitrate;
mod load;
pub mod newest;
mod over;
mod server;
mod source;
pub mod suite;
mod table;
pub mod transcripts;

use crate::command::{self, target_dir};
use std::path::PathBuf;

/// Folder of sources, and of the output of servers and tests.
fn folder() -> PathBuf {
    target_dir("memcached")
}

/// Builds `versus` as tests are built.
fn versus() -> Result<std::process::Command, String> {
    command::build_as_tests("versus")?;
    Ok(built_versus())
}

/// The command of `versus`, if it has been built.
fn built_versus() -> std::process::Command {
    std::process::Command::new(target_dir("debug").join("versus"))
}
