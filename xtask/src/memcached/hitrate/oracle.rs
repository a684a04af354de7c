//! [`Oracle`]: hit rates of published eviction policies for the same requests, by the Python package libcachesim.

use super::super::folder;
use super::client::KEY_BYTES;
use super::stream::Stream;
use crate::command::{self, has};
use std::fmt;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Whether to simulate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum Mode {
    /// Never.
    Off,
    /// If the package can be had; the reason is printed if not.
    #[default]
    Auto,
    /// The chore fails without it.
    Require,
}

/// The Python package.
const PACKAGE: &str = "libcachesim";
/// Reads a trace and prints `NAME HIT_RATE` for each policy.
const SCRIPT: &str = include_str!("oracle.py");

/// The installed package.
pub struct Oracle {
    python: PathBuf,
}

/// Result of a policy.
#[derive(Clone, PartialEq, Debug)]
pub struct Simulated {
    name: String,
    percent: f64,
}

impl Oracle {
    /// Installs the package below the target folder, unless it is there.
    ///
    /// # Errors
    /// The reason why there is no oracle.
    pub fn install() -> Result<Oracle, String> {
        let venv = folder().join("hitrate-venv");
        let oracle = Oracle {
            python: venv.join("bin").join("python"),
        };
        if oracle.imports() {
            return Ok(oracle);
        }
        if !has("python3") {
            return Err("python3 is missing".to_owned());
        }
        let run = |command: &mut Command| command::run(command).map(|_| ());
        run(Command::new("python3").args(["-m", "venv"]).arg(&venv))
            .map_err(|why| format!("{why}; Debian's package python3-venv"))?;
        run(Command::new(&oracle.python).args(["-m", "pip", "install", "--quiet", PACKAGE]))?;
        match oracle.imports() {
            true => Ok(oracle),
            false => Err(format!("{PACKAGE} was installed but cannot be imported")),
        }
    }

    fn imports(&self) -> bool {
        let mut python = Command::new(&self.python);
        let out = python.args(["-c", &format!("import {PACKAGE}")]).output();
        out.is_ok_and(|out| out.status.success())
    }

    /// Plays `stream` to every policy with a cache of `cache_bytes` of keys and values; the second half counts.
    ///
    /// # Errors
    /// The trace cannot be written, or the package fails.
    pub fn simulate(&self, stream: &Stream, seed: u64, cache_bytes: u64) -> Result<Vec<Simulated>, String> {
        let trace = folder().join("hitrate-trace.bin");
        write_trace(&trace, stream, seed).map_err(|e| format!("{}: {e}", trace.display()))?;
        let mut python = Command::new(&self.python);
        python.args(["-c", SCRIPT]).arg(&trace);
        python
            .arg(stream.counted_from().to_string())
            .arg(cache_bytes.to_string());
        let text = command::output(&mut python);
        let _ = std::fs::remove_file(&trace);
        parse(&text?)
    }
}

/// Writes the requests as libCacheSim's format "oracleGeneral": time (4 bytes), key (8), size of key and value (4),
/// index of the next request for the key (8, -1: unknown); little endian, without padding.
fn write_trace(path: &Path, stream: &Stream, seed: u64) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for (index, request) in stream.requests(seed).enumerate() {
        file.write_all(&(index as u32).to_le_bytes())?;
        file.write_all(&request.key.to_le_bytes())?;
        file.write_all(&(KEY_BYTES as u32 + request.value_bytes).to_le_bytes())?;
        file.write_all(&(-1_i64).to_le_bytes())?;
    }
    file.flush()
}

fn parse(text: &str) -> Result<Vec<Simulated>, String> {
    let simulated = |line: &str| {
        let (name, rate) = line.split_once(' ')?;
        Some(Simulated {
            name: name.to_owned(),
            percent: 100.0 * rate.parse::<f64>().ok()?,
        })
    };
    let line = |line: &str| simulated(line).ok_or_else(|| format!("{PACKAGE} printed: {line}"));
    text.lines().map(line).collect()
}

impl Simulated {
    /// Name of the policy.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its hit rate, percent.
    pub fn percent(&self) -> f64 {
        self.percent
    }
}

impl fmt::Display for Simulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:.2} %", self.name, self.percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_results() {
        let found = parse("S3-FIFO 0.75\nLRU 0.5\n").expect("well-formed");
        let texts: Vec<String> = found.iter().map(Simulated::to_string).collect();
        assert_eq!(texts, ["S3-FIFO 75.00 %", "LRU 50.00 %"]);
        assert!(parse("Traceback").is_err());
    }
}
