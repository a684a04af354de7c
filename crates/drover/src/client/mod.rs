//! `drover get`, `set`, `incr` and so on: operations on keys of a running server, or of a pool of memory nodes; and
//! `drover stats`. Exit status 0 found or done, 1 missing or not done, 2 error.

mod delete;
mod get;
mod keys;
mod number;
mod server;
mod stats;
mod store;
mod target;
mod touch;
mod value;

pub use delete::Delete;
pub use get::Get;
pub use number::{Count, Direction};
pub use stats::Stats;
pub use store::{Cas, Join, JoinAt, Set, Store};
pub use touch::Touch;

use drover_kv::SystemTable;
use std::error::Error;
use std::process::ExitCode;

/// The commands of this module, as they are typed.
pub const NAMES: [&str; 12] = [
    "get", "set", "add", "replace", "append", "prepend", "cas", "incr", "decr", "touch", "delete", "stats",
];

/// Ends the help of commands on keys.
const STATUSES: &str =
    "Exit status: 0 found or done; 1 no such key, or a condition that does not hold; 2 an error.";

/// Whether the key was there, or the update was done.
type Answer = Result<bool, Box<dyn Error>>;

/// A command of this module.
pub trait ClientCommand {
    /// Executes it with the systems of table `T`.
    ///
    /// # Errors
    /// The server or the pool cannot be reached, or the operation failed.
    fn execute<T: SystemTable>(&self) -> Answer;
}

/// Runs `command` and returns its exit status.
pub fn run<T: SystemTable>(command: &impl ClientCommand) -> ExitCode {
    match command.execute::<T>() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("drover: {error}");
            ExitCode::from(2)
        }
    }
}

/// Says on standard error that there is no such key.
fn report_missing(key: &str) {
    eprintln!("drover: no key {}", key.escape_debug());
}
