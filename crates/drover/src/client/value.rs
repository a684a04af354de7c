//! The value of a storing command, and how long it lives.

use crate::advice;
use clap::Args;
use std::error::Error;
use std::io::Read;
use std::path::PathBuf;

/// Where a value comes from.
#[derive(Args)]
pub struct ValueArgs {
    /// Value; read from standard input if neither it nor --file is given
    #[arg(allow_hyphen_values = true)]
    value: Option<String>,
    /// Read the value from this file, as it is
    #[arg(long, value_name = "FILE", conflicts_with = "value")]
    file: Option<PathBuf>,
}

/// What is stored with a value.
#[derive(Args)]
pub struct ItemArgs {
    /// Seconds until it expires; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub ttl: u32,
    /// Flags to store with it
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub flags: u32,
}

impl ValueArgs {
    /// Reads the value.
    ///
    /// # Errors
    /// The file or standard input cannot be read.
    pub fn read(&self) -> Result<Vec<u8>, Box<dyn Error>> {
        match (&self.value, &self.file) {
            (Some(value), _) => Ok(value.clone().into_bytes()),
            (None, Some(file)) => {
                std::fs::read(file).map_err(|error| advice::of_file("--file", file, &error).into())
            }
            (None, None) => {
                let mut value = Vec::new();
                let read = std::io::stdin().read_to_end(&mut value);
                read.map_err(|error| format!("standard input: {error}"))?;
                Ok(value)
            }
        }
    }
}
