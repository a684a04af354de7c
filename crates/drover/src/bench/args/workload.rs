//! What clients ask for.

use super::usage;
use crate::exit::Failure;
use drover_bench::session::WorkloadPlan;
use drover_bench::workload::{Mix, Popularity};

/// Arguments about keys, values and operations.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Keys, values and operations")]
pub struct WorkloadArgs {
    /// Operations: a, b, c, d, f or put=SHARE
    #[arg(long, default_value = "b", value_name = "MIX")]
    mix: String,
    /// Popularity of the keys [default: uniform; mix d: latest]
    #[arg(long, value_parser = ["uniform", "zipf", "latest"])]
    dist: Option<String>,
    /// Interleave a second popularity of the keys with that of --dist and compare the two
    #[arg(long, value_parser = ["uniform", "zipf", "latest"])]
    beside_dist: Option<String>,
    /// Exponent of zipf and latest
    #[arg(long, default_value_t = 0.99, value_name = "S")]
    zipf: f64,
    /// Keys loaded before the run [default: 1000000; with one-sided systems and auto 786432, which fill a table of 2^20
    /// slots to three quarters]
    #[arg(long, value_name = "N")]
    keys: Option<u32>,
    /// After the samples, replace all keys this many times in random order and report the READs per GET; for systems
    /// whose GETs are READs [default: 1 over shared memory where bench starts the server, else 0]
    #[arg(long, value_name = "COUNT")]
    churn: Option<u32>,
    /// Bytes of a key
    #[arg(long, default_value_t = 16, value_name = "BYTES")]
    key_size: usize,
    /// Bytes of a value, or a range such as 16-64; with --system auto, several separated by commas
    #[arg(long, default_value = "32", value_name = "BYTES")]
    value_size: String,
}

impl WorkloadArgs {
    /// The workload of these options with `key_count` keys and values of `value_bytes` (minimum and maximum); `seed`
    /// determines keys and operations.
    ///
    /// # Errors
    /// The mix is malformed or unsupported.
    pub fn plan(&self, key_count: u32, value_bytes: [usize; 2], seed: u64) -> Result<WorkloadPlan, Failure> {
        let mix = self.mix()?;
        Ok(WorkloadPlan {
            popularity: self.popularity(&mix),
            beside: self.beside(),
            mix,
            key_count,
            key_bytes: self.key_size,
            value_bytes,
            seed,
        })
    }

    /// The mix as it was given.
    pub fn mix_name(&self) -> &str {
        &self.mix
    }

    /// The parsed `--mix`.
    ///
    /// # Errors
    /// The mix is malformed or unsupported.
    pub fn mix(&self) -> Result<Mix, Failure> {
        Mix::parse(&self.mix).map_err(|why| usage(format!("--mix {}: {why}", self.mix)))
    }

    /// Popularity of the keys: that of `--dist`, otherwise `latest` if `mix` inserts keys, otherwise `uniform`.
    pub fn popularity(&self, mix: &Mix) -> Popularity {
        let default = match mix.insert_share > 0.0 {
            true => "latest",
            false => "uniform",
        };
        self.named(self.dist.as_deref().unwrap_or(default))
    }

    /// The second popularity of `--beside-dist`, which is interleaved with that of `--dist`; `None` without that
    /// option.
    pub fn beside(&self) -> Option<Popularity> {
        self.beside_dist.as_deref().map(|name| self.named(name))
    }

    fn named(&self, popularity: &str) -> Popularity {
        match popularity {
            "zipf" => Popularity::Zipf(self.zipf),
            "latest" => Popularity::Latest(self.zipf),
            _ => Popularity::Uniform,
        }
    }

    /// Minimum and maximum bytes of a value.
    ///
    /// # Errors
    /// `--value-size` is malformed or lists several sizes.
    pub fn value_bytes(&self) -> Result<[usize; 2], Failure> {
        match &self.value_list()?[..] {
            [one] => Ok(*one),
            _ => Err(usage(format!(
                "--value-size {}: several sizes need --system auto",
                self.value_size
            ))),
        }
    }

    /// Minimum and maximum bytes of each value size in the list of `--value-size`.
    ///
    /// # Errors
    /// The list is malformed.
    pub fn value_list(&self) -> Result<Vec<[usize; 2]>, Failure> {
        let one = |text: &str| {
            let (from, to) = text.split_once('-').unwrap_or((text, text));
            match (from.parse(), to.parse()) {
                (Ok(from), Ok(to)) if from <= to => Ok([from, to]),
                _ => Err(usage(format!("--value-size {text}: bytes, or FROM-TO"))),
            }
        };
        self.value_size.split(',').map(one).collect()
    }

    /// Number of keys: that of `--keys`, otherwise 786432 for a system whose GETs READ a table (`is_one_sided`) and
    /// 1000000 for others.
    pub fn key_count(&self, is_one_sided: bool) -> u32 {
        self.keys.unwrap_or(match is_one_sided {
            false => 1_000_000,
            // Fills a table to three quarters, the load for which READs were computed.
            true => 3 << 18,
        })
    }

    /// Value of `--churn`: number of times that all keys are replaced; `None` without that option.
    pub fn churn(&self) -> Option<u32> {
        self.churn
    }

    /// Checks `--keys`, `--churn` and `--zipf`: returns the first that is out of range, with that range; `None` if all
    /// are in range. Other methods check `--mix` and `--value-size`; `--key-size` is checked with the keys.
    pub fn complaint(&self) -> Option<&'static str> {
        match () {
            () if self.keys.is_some_and(|keys| keys == 0 || keys >= 1 << 30) => Some("--keys: 1 to 2^30 - 1"),
            () if self.churn.is_some_and(|churn| churn > 100) => Some("--churn: 0 to 100"),
            () if !(self.zipf > 0.0 && self.zipf < 10.0) => Some("--zipf: over 0, under 10"),
            () => None,
        }
    }
}
