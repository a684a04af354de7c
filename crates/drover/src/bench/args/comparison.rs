//! What the system is compared with.

use super::usage;
use crate::exit::Failure;
use drover_bench::rivals::Entrant;
use drover_bench::session::Comparison;

/// Arguments that select what to measure for comparison: rivals (memcached, redis, drover through memcached's protocol)
/// and the machine's own bounds.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Comparison")]
pub struct ComparisonArgs {
    /// Rivals to compare with, if installed: memcached, redis; drover: this program through memcached's protocol.
    /// NAME=PATH adds another build of a rival
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    vs: Vec<String>,
    /// Rivals only in modes whose names contain one of these: unix, tcp, 50x1, 50x32, multiget, depth 1
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    vs_modes: Vec<String>,
    /// Measure this machine's own bounds, interleaved with the samples
    #[arg(long)]
    bound: bool,
}

impl ComparisonArgs {
    /// The rivals, their modes (`--vs-modes`) and whether to measure the machine's bounds.
    ///
    /// # Errors
    /// A rival is unknown.
    pub fn plan(&self) -> Result<Comparison, Failure> {
        Ok(Comparison {
            bound: self.bound,
            rivals: self.rivals()?,
            rival_modes: self.vs_modes.clone(),
        })
    }

    /// The rivals of `--vs`, whether or not they are installed.
    ///
    /// # Errors
    /// A rival is unknown.
    pub fn rivals(&self) -> Result<Vec<Entrant>, Failure> {
        let named = |name: &String| {
            Entrant::named(name)
                .ok_or_else(|| usage(format!("--vs {name}: memcached, redis and drover are known")))
        };
        self.vs.iter().map(named).collect()
    }

    /// Name of the option that asks for a comparison: `--bound`, otherwise `--vs`; `None` if neither was given.
    pub fn flag(&self) -> Option<&'static str> {
        match () {
            () if self.bound => Some("--bound"),
            () if !self.vs.is_empty() => Some("--vs"),
            () => None,
        }
    }
}
