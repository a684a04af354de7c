//! Instructions per operation, counted by valgrind: the count is exactly repeatable on any load, so it can gate
//! regressions, which time cannot.
//!
//! A meter is an example that runs one operation `count` times inside one function. It runs twice; the difference of
//! the totals divided by the difference of the counts is the cost of one operation, without warm-up.

use crate::command::{cargo, output, root, target_dir};
use crate::counts::Counts;
use crate::steps::{StepResult, Steps, Work};
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};

/// Options of the gate.
#[derive(Default, clap::Args)]
pub struct Args {
    /// Write the counts instead of comparing: after a change that should cost, or that saved.
    #[arg(long)]
    pub write: bool,
    /// Only meters whose names begin so, `farm` or `"herd client"`, say; all if none is named.
    pub meters: Vec<String>,
}

impl Args {
    fn names(&self, name: &str) -> bool {
        self.meters.is_empty() || self.meters.iter().any(|begin| name.starts_with(begin.as_str()))
    }
}

/// File of the agreed counts, one `"meter operation" = number` per line.
const FILE: &str = "docs/instructions.toml";
/// A count may exceed the agreed one by this much.
const TOLERANCE: f64 = 1.03;
/// Number of operations in the shorter and in the longer run.
const RUNS: (u64, u64) = (2_000, 12_000);

/// An example that runs an operation `COUNT` times: `example OPERATION COUNT`.
struct Meter {
    package: &'static str,
    example: &'static str,
    /// The system, for an example that knows several.
    system: Option<&'static str>,
    /// Prefix of the names of its counts.
    name: &'static str,
    /// Function whose instructions count: other work of the process (such as setting its clock) varies between runs.
    inside: &'static str,
    operations: &'static [&'static str],
}

/// All meters.
const METERS: &[Meter] = &[
    Meter {
        package: "drover-store",
        example: "instructions",
        system: None,
        name: "store",
        inside: "instructions::Keys::each",
        operations: &[
            "none",
            "get",
            "put",
            "prefetch-get",
            "prefetch-put",
            "insert",
            "miss",
            "delete",
        ],
    },
    Meter {
        package: "drover-kv-herd",
        example: "worker_instructions",
        system: None,
        name: "herd worker",
        inside: "worker_instructions::serve",
        operations: &["get", "put", "paper-get", "paper-put"],
    },
    Meter {
        package: "drover-kv-herd",
        example: "client_instructions",
        system: None,
        name: "herd client",
        inside: "client_instructions::turn",
        operations: &["get", "put", "paper-get", "paper-put"],
    },
    // A GET that hits costs these servers nothing: what a step costs that finds nothing to do stands in its place.
    Meter {
        package: "drover-one-sided",
        example: "one_sided_instructions",
        system: Some("farm"),
        name: "farm client",
        inside: "one_sided_instructions::turn*",
        operations: &["get", "put"],
    },
    Meter {
        package: "drover-one-sided",
        example: "one_sided_instructions",
        system: Some("farm"),
        name: "farm server",
        inside: "one_sided_instructions::serve*",
        operations: &["put", "idle"],
    },
    Meter {
        package: "drover-one-sided",
        example: "one_sided_instructions",
        system: Some("pilaf"),
        name: "pilaf client",
        inside: "one_sided_instructions::turn*",
        operations: &["get", "put"],
    },
    Meter {
        package: "drover-one-sided",
        example: "one_sided_instructions",
        system: Some("pilaf"),
        name: "pilaf server",
        inside: "one_sided_instructions::serve*",
        operations: &["put", "idle"],
    },
    // A list of so many, or as many completions; beside it what a program without us would do for the same.
    Meter {
        package: "drover-verbs-ibv",
        example: "ibv_instructions",
        system: None,
        name: "ibv",
        inside: "ibv_instructions::repeat",
        operations: &[
            "write-1",
            "write-16",
            "read-1",
            "datagram-1",
            "datagram-16",
            "recv-1",
            "recv-16",
            "poll-1",
            "poll-16",
            "bare-write-1",
            "bare-write-16",
            "bare-recv-16",
            "bare-poll-1",
            "bare-poll-16",
        ],
    },
];

/// Measures every meter and compares.
pub fn run(steps: &mut Steps, args: &Args) {
    steps.run("instructions", || run_meters(args));
}

/// The same for CI, as one work.
pub fn all<'a>() -> Work<'a> {
    (
        "instructions".to_string(),
        Box::new(|| run_meters(&Args::default())),
    )
}

fn run_meters(args: &Args) -> StepResult {
    let measured = measure(args)?;
    let mut agreed = agreed()?;
    if args.write {
        agreed.retain(|name, _| !args.names(name));
        agreed.extend(measured);
        write(&agreed)
    } else {
        agreed.retain(|name, _| args.names(name));
        compare(&measured, &agreed)
    }
}

fn measure(args: &Args) -> Result<BTreeMap<String, f64>, String> {
    let meters = || METERS.iter().filter(|meter| args.names(meter.name));
    build_all(meters())?;
    let mut measured = BTreeMap::new();
    for meter in meters() {
        for operation in meter.operations {
            let total = |count: u64| count_instructions(meter, operation, count);
            let price = (total(RUNS.1)? - total(RUNS.0)?) as f64 / (RUNS.1 - RUNS.0) as f64;
            let name = format!("{} {operation}", meter.name);
            println!("{name}: {price:.1} instructions");
            measured.insert(name, price);
        }
    }
    Ok(measured)
}

/// Builds all meters together with the release profile: linking takes most of the time.
pub fn build() -> StepResult {
    build_all(METERS.iter())
}

fn build_all<'a>(meters: impl Iterator<Item = &'a Meter>) -> StepResult {
    let mut command = cargo(&["build", "--release", "--quiet"]);
    let examples: BTreeSet<_> = meters.map(|meter| (meter.package, meter.example)).collect();
    for (package, example) in examples {
        command.args(["-p", package, "--example", example]);
    }
    crate::command::run(&mut command)
}

fn count_instructions(meter: &Meter, operation: &str, count: u64) -> Result<i64, String> {
    let program = target_dir("release").join("examples").join(meter.example);
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(format!("--toggle-collect={}", meter.inside));
    command
        .arg(program)
        .args(meter.system)
        .arg(operation)
        .arg(count.to_string());
    let out = command
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("valgrind: {e}; sudo apt-get install valgrind"))?;
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    if !out.status.success() {
        return Err(format!(
            "{} {operation} {count} ended with {}:\n{text}",
            meter.example, out.status
        ));
    }
    match refs_of(&text) {
        Some(0) => Err(format!("no function {} in {}", meter.inside, meter.example)),
        Some(count) => Ok(count),
        None => Err(format!("no instruction count in valgrind's answer:\n{text}")),
    }
}

/// Parses the number in `==1== I   refs:      1,234`.
fn refs_of(text: &str) -> Option<i64> {
    let line = text
        .lines()
        .find(|line| line.contains("I ") && line.contains("refs:"))?;
    line.rsplit(':').next()?.trim().replace(',', "").parse().ok()
}

fn agreed() -> Result<BTreeMap<String, f64>, String> {
    let text = std::fs::read_to_string(root().join(FILE)).map_err(|e| format!("{FILE}: {e}"))?;
    Ok(parse(&text))
}

fn parse(text: &str) -> BTreeMap<String, f64> {
    let entries = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(" = "));
    entries
        .filter_map(|(name, number)| Some((name.trim_matches('"').to_string(), number.trim().parse().ok()?)))
        .collect()
}

fn compare(measured: &BTreeMap<String, f64>, agreed: &BTreeMap<String, f64>) -> StepResult {
    let mut counts = Counts::default();
    let mut stale = false;
    if let Some(name) = agreed.keys().find(|name| !measured.contains_key(*name)) {
        return Err(format!("{name} is in {FILE}, but nothing measures it"));
    }
    for (name, price) in measured {
        match agreed.get(name) {
            Some(old) if *price <= old * TOLERANCE => {
                counts.add(Counts::ONE);
                if *price < old / TOLERANCE {
                    eprintln!("{}", change(name, *price, *old));
                    stale = true;
                }
            }
            Some(old) => {
                eprintln!("{}", change(name, *price, *old));
                counts.failed += 1;
            }
            None => {
                return Err(format!(
                    "{name} is not in {FILE}: run `cargo xtask instructions --write`"
                ));
            }
        }
    }
    if stale {
        eprintln!("{FILE} allows more than that: update it with `cargo xtask instructions --write`");
    }
    Ok(counts)
}

fn change(name: &str, price: f64, old: f64) -> String {
    let percent = (price / old - 1.0) * 100.0;
    format!("{name}: {price:.1} instructions, agreed {old:.1}: {percent:+.1} %")
}

fn write(measured: &BTreeMap<String, f64>) -> StepResult {
    let rustc = output(Command::new("rustc").arg("--version"))?;
    let mut text =
        format!("# Instructions per operation, written by `cargo xtask instructions --write` with {rustc}");
    for (name, price) in measured {
        text.push_str(&format!("\"{name}\" = {price:.1}\n"));
    }
    std::fs::write(root().join(FILE), text).map_err(|e| format!("{FILE}: {e}"))?;
    Ok(Counts::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prices(text: &str) -> BTreeMap<String, f64> {
        parse(text)
    }

    #[test]
    fn reads_valgrind() {
        assert_eq!(
            refs_of("==7== \n==7== I   refs:      1,234,567\n"),
            Some(1_234_567)
        );
        assert_eq!(refs_of("==7== I refs:  12\n"), Some(12));
        assert_eq!(refs_of("nothing"), None);
    }

    #[test]
    fn three_percent_more_is_allowed_and_four_are_not() {
        let agreed = prices("# a comment\n\"a get\" = 100.0\n");
        assert_eq!(compare(&prices("\"a get\" = 103.0"), &agreed), Ok(Counts::ONE));
        assert_eq!(
            compare(&prices("\"a get\" = 104.0"), &agreed).map(|c| c.failed),
            Ok(1)
        );
        assert!(compare(&prices("\"a put\" = 1.0"), &agreed).is_err());
    }

    #[test]
    fn less_is_no_failure() {
        let agreed = prices("\"a get\" = 100.0\n");
        assert_eq!(compare(&prices("\"a get\" = 50.0"), &agreed), Ok(Counts::ONE));
    }
}
