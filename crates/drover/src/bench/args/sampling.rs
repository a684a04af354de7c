//! How long and how often is measured, and which samples count.

use drover_base::Ns;
use drover_bench::bound::Placement;
use drover_bench::session::{Sampling, Wanted};

/// Arguments about samples.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Samples")]
pub struct SamplingArgs {
    /// Length of a sample, seconds
    #[arg(long, default_value_t = 1.0, value_name = "S")]
    seconds: f64,
    /// Number of samples
    #[arg(long, default_value_t = 5, value_name = "COUNT")]
    repeats: usize,
    /// Count only samples with the two cores this far apart, and wait for such; virtual cores move
    #[arg(long, value_parser = ["smt", "near", "far"], value_name = "WHERE")]
    placement: Option<String>,
    /// With --placement: also wait until both cores run at full speed, and count only samples with full speed before
    /// and after; a virtual core may share a real one with other machines' work
    #[arg(long, requires = "placement")]
    full_speed: bool,
    /// With --placement: give up after this many seconds
    #[arg(long, default_value_t = 120.0, value_name = "S", requires = "placement")]
    patience: f64,
    /// Warm-up before the first sample, seconds
    #[arg(long, default_value_t = 0.5, value_name = "S")]
    warm_up: f64,
}

impl SamplingArgs {
    /// Length and number of the samples, which samples count, and the warm-up before them.
    pub fn plan(&self) -> Sampling {
        Sampling {
            time: seconds(self.seconds),
            repeats: self.repeats,
            wanted: self.wanted(),
            warm_up: seconds(self.warm_up),
        }
    }

    fn wanted(&self) -> Option<Wanted> {
        let placement = Placement::named(self.placement.as_deref()?)?;
        Some(Wanted {
            placement,
            full_speed: self.full_speed,
            patience: seconds(self.patience),
        })
    }

    /// Whether `--placement` is given. Then only samples count in which the first client core and the first server core
    /// have that distance.
    pub fn has_placement(&self) -> bool {
        self.placement.is_some()
    }

    /// The first argument that is out of range, with that range; `None` if all are in range. Clap has checked the rest.
    pub fn complaint(&self) -> Option<&'static str> {
        let bad = |seconds: f64| !(seconds.is_finite() && seconds > 0.0 && seconds <= 3600.0);
        match () {
            () if bad(self.seconds) => Some("--seconds: over 0, at most 3600"),
            () if self.warm_up != 0.0 && bad(self.warm_up) => Some("--warm-up: 0 to 3600"),
            () if bad(self.patience) => Some("--patience: over 0, at most 3600"),
            () if self.repeats == 0 => Some("--repeats: at least 1"),
            () => None,
        }
    }
}

fn seconds(seconds: f64) -> Ns {
    Ns((seconds * 1e9) as u64)
}
