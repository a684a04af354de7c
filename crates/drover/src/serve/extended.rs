//! `-o`: memcached's extended options.

use super::settings::Feature::Memcached;
use super::settings::{flags, parsed};
use crate::exit::{self, Failure};

flags! {
    /// The argument of extended options.
    #[command(next_help_heading = "Commands of memcached clients")]
    struct ExtendedArgs;
    /// Extended options.
    struct ExtendedSettings();

    /// Extended options, separated by commas: see below
    #[arg(long = "extended", short = 'o', value_name = "LIST", value_delimiter = ',')]
    extended: Vec<String> as Extended = parsed(Vec::new(), parse).needs(Memcached).rows([
        ("idle_timeout", |options| format!("{} seconds", options.idle_timeout_s)),
        ("maxconns_fast", |options| options.maxconns_fast.to_string()),
    ]);
}

/// Parsed words of `-o`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Extended {
    /// Seconds without input and output after which a connection is closed; 0: never.
    pub idle_timeout_s: u32,
    /// Whether connections beyond `-c` are refused instead of left waiting.
    pub maxconns_fast: bool,
    /// Maximum KiB of lines queued for each connection that has sent `watch`.
    pub watcher_kib: usize,
    /// TLS options, not yet checked: names that begin with `ssl_`, and their values.
    pub tls: super::ops::TlsWords,
    /// Given options that memcached knows and drover ignores.
    pub ignored: Vec<String>,
}

impl Extended {
    /// Whether no option was given but those of TLS.
    pub fn is_about_tls_alone(&self) -> bool {
        let tls = self.tls.clone();
        *self
            == Extended {
                tls,
                ..Extended::default()
            }
    }
}

impl Default for Extended {
    fn default() -> Extended {
        Extended {
            idle_timeout_s: 0,
            maxconns_fast: true,
            watcher_kib: 256,
            tls: Vec::new(),
            ignored: Vec::new(),
        }
    }
}

/// Options about features that drover lacks, or always has.
const IGNORED: [&str; 37] = [
    "hash_algorithm",
    "hashpower",
    "hot_lru_pct",
    "hot_max_factor",
    "inline_ascii_resp",
    "lru_crawler",
    "lru_crawler_sleep",
    "lru_crawler_tocrawl",
    "lru_maintainer",
    "lru_segmented",
    "modern",
    "no_chunked_items",
    "no_drop_privileges",
    "no_hashexpand",
    "no_inline_ascii_resp",
    "no_lru_crawler",
    "no_lru_maintainer",
    "no_lru_segmented",
    "no_modern",
    "no_slab_automove",
    "no_slab_reassign",
    "read_buf_mem_limit",
    "resp_obj_mem_limit",
    "slab_automove",
    "slab_automove_freeratio",
    "slab_automove_ratio",
    "slab_automove_window",
    "slab_chunk_max",
    "slab_reassign",
    "slab_sizes",
    "tail_repair_time",
    "temp_lru",
    "temporary_ttl",
    "track_sizes",
    "warm_lru_pct",
    "warm_max_factor",
    "worker_logbuf_size",
];

/// Parses the words of `-o`, `NAME` or `NAME=VALUE`. Names that begin with `ssl_` are only collected.
///
/// # Errors
/// A word is not an option, or its number is missing or out of range.
fn parse(words: Vec<String>) -> Result<Extended, Failure> {
    let mut extended = Extended::default();
    for word in words
        .iter()
        .map(|word| word.trim())
        .filter(|word| !word.is_empty())
    {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        match name {
            "idle_timeout" => extended.idle_timeout_s = seconds(name, value)?,
            "watcher_logbuf_size" => extended.watcher_kib = kib(name, value)?,
            "maxconns_fast" => extended.maxconns_fast = true,
            "no_maxconns_fast" => extended.maxconns_fast = false,
            _ if name.starts_with("ssl_") => {
                extended
                    .tls
                    .push((name.to_owned(), value.unwrap_or_default().to_owned()));
            }
            _ if IGNORED.contains(&name) => extended.ignored.push(name.to_owned()),
            _ => {
                let text = format!("-o {word}: no such option; `drover serve --help` lists those there are");
                return Err(Failure::new(exit::USAGE, text));
            }
        }
    }
    Ok(extended)
}

fn kib(name: &str, value: Option<&str>) -> Result<usize, Failure> {
    let number = value.and_then(|value| value.parse().ok());
    let number = number.filter(|kib| (1..=1 << 20).contains(kib));
    number.ok_or_else(|| Failure::new(exit::USAGE, format!("-o {name}: expected {name}=KIB")))
}

fn seconds(name: &str, value: Option<&str>) -> Result<u32, Failure> {
    let number = value.and_then(|value| value.parse().ok());
    number.ok_or_else(|| Failure::new(exit::USAGE, format!("-o {name}: expected {name}=SECONDS")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Extended, String> {
        let words: Vec<String> = text.split(',').map(str::to_owned).collect();
        parse(words).map_err(|failure| failure.text)
    }

    #[test]
    fn options_that_exist_options_that_mean_nothing_and_others() {
        assert_eq!(parsed("").unwrap(), Extended::default());
        let got = parsed("idle_timeout=7, no_maxconns_fast,slab_chunk_max=16384,modern").unwrap();
        assert_eq!((got.idle_timeout_s, got.maxconns_fast), (7, false));
        assert_eq!(got.ignored, ["slab_chunk_max", "modern"]);
        assert_eq!(
            parsed("idle_timeout").unwrap_err(),
            "-o idle_timeout: expected idle_timeout=SECONDS"
        );
        assert_eq!(
            parsed("idle_timeout=x").unwrap_err(),
            "-o idle_timeout: expected idle_timeout=SECONDS"
        );
        assert_eq!(parsed("watcher_logbuf_size=8").unwrap().watcher_kib, 8);
        assert_eq!(
            parsed("watcher_logbuf_size=0").unwrap_err(),
            "-o watcher_logbuf_size: expected watcher_logbuf_size=KIB"
        );
        assert!(
            parsed("faster")
                .unwrap_err()
                .starts_with("-o faster: no such option; ")
        );
        assert!(IGNORED.is_sorted());
    }
}
