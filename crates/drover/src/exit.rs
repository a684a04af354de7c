//! Exit statuses. Most commands use those of `[sysexits]`, as memcached does; the client commands exit with 0 found or
//! done, 1 missing, 2 error, so that scripts can distinguish a miss from a failure. `sim` and `doctor` exit with 1 if
//! they found something wrong.

use crate::client;
use drover_client::FabricError;
use drover_kv::StartError;
use std::error::Error;
use std::ffi::OsStr;
use std::fmt::{self, Display, Formatter};
use std::process::ExitCode;

/// The command line, the configuration file, a profile or an inherited socket is invalid, or asks for what drover or
/// the chosen system cannot do.
pub const USAGE: u8 = 64;
/// The user of `-u` is not in `/etc/passwd`, or that entry is malformed.
pub const NO_USER: u8 = 67;
/// A service or device cannot be used: an address is in use or cannot be bound, no RDMA device fits, a server does not
/// answer, or a measurement failed.
pub const UNAVAILABLE: u8 = 69;
/// A bug of drover, such as a worker that has ended by itself.
pub const SOFTWARE: u8 = 70;
/// The system refused a resource: memory, huge pages, threads, descriptors, or a file to write.
pub const OS_ERROR: u8 = 71;
/// A file cannot be read: the configuration file, or a profile. A trace cannot be read or is invalid. A file of users or certificates cannot be read or is
/// invalid.
pub const NO_INPUT: u8 = 66;
/// The process lacks a right: to bind an address, to lock that much memory, to become another user, or to use another
/// user's memory file.
pub const NO_PERMISSION: u8 = 77;

/// A failure of a command with its exit status.
#[derive(Debug)]
pub struct Failure {
    /// Exit status: a constant of this module, or 1 if `sim` found a violation or missed a planted mistake.
    pub code: u8,
    /// Description of the problem, and of the remedy if there is one.
    pub text: String,
}

impl Failure {
    /// Creates a failure with this exit status and description.
    pub fn new(code: u8, text: impl Display) -> Failure {
        Failure {
            code,
            text: text.to_string(),
        }
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for Failure {}

impl From<FabricError> for Failure {
    fn from(error: FabricError) -> Failure {
        let code = match error {
            FabricError::Usage(_) => USAGE,
            _ => UNAVAILABLE,
        };
        Failure::new(code, error)
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Failure {
        let code = match error {
            StartError::Options { .. } => USAGE,
            _ => OS_ERROR,
        };
        Failure::new(code, error)
    }
}

/// Converts to an exit status: 0, or a failure's `code`, whose text is printed to standard error.
pub fn from_result(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("drover: {}", failure.text);
            ExitCode::from(failure.code)
        }
    }
}

/// Prints clap's message and returns its exit status: 0 for help and version, otherwise 2 for client commands and
/// [`USAGE`] for others. `command` is the first word after the program's name.
pub fn usage(error: &clap::Error, command: Option<&OsStr>) -> ExitCode {
    let _ = error.print();
    let is_client = command.is_some_and(|name| client::NAMES.iter().any(|client| name == *client));
    match error.exit_code() {
        0 => ExitCode::SUCCESS,
        _ if is_client => ExitCode::from(2),
        _ => ExitCode::from(USAGE),
    }
}
