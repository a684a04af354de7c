//! Exit statuses. `serve` and `config` use those of `[sysexits]`, as memcached does; the client commands exit with 0
//! found or done, 1 missing, 2 error, so that scripts can distinguish a miss from a failure.

use drover_client::FabricError;
use drover_kv::StartError;
use std::fmt::Display;
use std::process::ExitCode;

/// The command line or the configuration file is invalid.
pub const USAGE: u8 = 64;
/// The user does not exist.
pub const NO_USER: u8 = 67;
/// An address is in use or cannot be bound.
pub const UNAVAILABLE: u8 = 69;
/// A bug of drover.
pub const SOFTWARE: u8 = 70;
/// The system refused a resource: memory, threads, files.
pub const OS_ERROR: u8 = 71;
/// The configuration file cannot be read.
pub const NO_INPUT: u8 = 66;
/// The system denied permission.
pub const NO_PERMISSION: u8 = 77;

/// A failure with its exit status.
#[derive(Debug)]
pub struct Failure {
    /// One of the constants above.
    pub code: u8,
    /// The problem and its remedy.
    pub text: String,
}

impl Failure {
    /// A failure with this description.
    pub fn new(code: u8, text: impl Display) -> Failure {
        Failure {
            code,
            text: text.to_string(),
        }
    }
}

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

/// Converts to an exit status; prints a failure's text to standard error.
pub fn from_result(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("drover: {}", failure.text);
            ExitCode::from(failure.code)
        }
    }
}

/// Prints clap's message: help and version are not errors. Client commands exit with 2 for every error.
pub fn usage(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    let is_client = std::env::args()
        .nth(1)
        .is_some_and(|name| ["get", "set", "delete", "stats"].contains(&name.as_str()));
    match error.exit_code() {
        0 => ExitCode::SUCCESS,
        _ if is_client => ExitCode::from(2),
        _ => ExitCode::from(USAGE),
    }
}
