//! When clients start operations, and what they do in between.

use drover_bench::Pace;

/// Arguments about the clients' pace.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Pace of the clients")]
pub struct PaceArgs {
    /// Idle polling time of a client before it sleeps, microseconds, without time in which others use its core
    /// [default: 50]
    #[arg(long, value_name = "MICROSECONDS", conflicts_with = "rate")]
    spin_us: Option<u64>,
    /// Open loop: operations per second and client
    #[arg(long, value_name = "OPS")]
    rate: Option<f64>,
}

impl PaceArgs {
    /// Open loop at the rate of `--rate`; closed loop without that option.
    pub fn pace(&self) -> Pace {
        self.rate.map_or(Pace::Closed, Pace::Open)
    }

    /// Idle polling time of a client before it sleeps, microseconds; `None`: the default.
    pub fn spin_us(&self) -> Option<u64> {
        self.spin_us
    }

    /// The first argument that is out of range, with that range; `None` if all are in range. Clap has checked the rest.
    pub fn complaint(&self) -> Option<&'static str> {
        let is_bad = self.rate.is_some_and(|rate| !(1.0..=1e9).contains(&rate));
        is_bad.then_some("--rate: 1 to 1e9")
    }
}
