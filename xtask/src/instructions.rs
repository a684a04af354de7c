//! Instructions per operation, counted by valgrind: the count hardly depends on the machine's load, so it can gate
//! regressions, which time cannot.
//!
//! A meter is an example that runs one operation `count` times inside one function. It runs twice; the difference of
//! the totals divided by the difference of the counts is the cost of one operation, without warm-up.

use crate::command::{cargo, output, root, target_dir};
use crate::counts::Counts;
use crate::steps::{StepResult, Steps, Work};
use serde_json::Value;
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

/// An example that runs an operation `COUNT` times: `example [SYSTEM] OPERATION COUNT`. Packages declare theirs in their
/// Cargo.toml, as `[[package.metadata.meters]]`.
#[derive(Debug)]
struct Meter {
    package: String,
    example: String,
    /// The system, for an example that knows several.
    system: Option<String>,
    /// Prefix of the names of its counts.
    name: String,
    /// Function whose instructions count: other work of the process (such as setting its clock) varies between runs.
    inside: String,
    operations: Vec<String>,
}

/// The meters of all packages.
fn meters() -> Result<Vec<Meter>, String> {
    let metadata = output(&mut cargo(&["metadata", "--format-version", "1", "--no-deps"]))?;
    let metadata: Value =
        serde_json::from_str(&metadata).map_err(|error| format!("cargo metadata: {error}"))?;
    let mut all = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        all.extend(meters_of(package)?);
    }
    match all.is_empty() {
        true => Err("no package declares a meter".to_owned()),
        false => Ok(all),
    }
}

/// The meters that a package, in the form of `cargo metadata`, declares.
fn meters_of(package: &Value) -> Result<Vec<Meter>, String> {
    let name = package["name"].as_str().unwrap_or_default();
    let declared = package["metadata"]["meters"].as_array();
    let meter = |declared: &Value| {
        let text = |key: &str| {
            let text = declared[key].as_str().map(str::to_owned);
            text.ok_or_else(|| format!("{name}: a meter without {key}"))
        };
        let operations = declared["operations"].as_array().into_iter().flatten();
        Ok(Meter {
            package: name.to_owned(),
            example: text("example")?,
            system: declared["system"].as_str().map(str::to_owned),
            name: text("name")?,
            inside: text("inside")?,
            operations: operations.filter_map(Value::as_str).map(str::to_owned).collect(),
        })
    };
    declared.into_iter().flatten().map(meter).collect()
}

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
    let mut agreed = agreed()?;
    let measured = measure(args, &agreed)?;
    if args.write {
        agreed.retain(|name, _| !args.names(name));
        agreed.extend(measured);
        write(&agreed)
    } else {
        agreed.retain(|name, _| args.names(name));
        compare(&measured, &agreed)
    }
}

fn measure(args: &Args, agreed: &BTreeMap<String, f64>) -> Result<BTreeMap<String, f64>, String> {
    let mut meters = meters()?;
    meters.retain(|meter| args.names(&meter.name));
    build_all(&meters)?;
    let mut measured = BTreeMap::new();
    for meter in &meters {
        for operation in &meter.operations {
            let name = format!("{} {operation}", meter.name);
            let mut price = price_of(meter, operation)?;
            println!("{name}: {price:.1} instructions");
            if agreed.get(&name).is_some_and(|old| price > old * TOLERANCE) {
                // On a busy machine timers come due in the middle of operations, which only adds to them.
                price = price.min(price_of(meter, operation)?);
                println!("{name}: once more, the lesser: {price:.1} instructions");
            }
            measured.insert(name, price);
        }
    }
    Ok(measured)
}

fn price_of(meter: &Meter, operation: &str) -> Result<f64, String> {
    let total = |count: u64| count_instructions(meter, operation, count);
    Ok((total(RUNS.1)? - total(RUNS.0)?) as f64 / (RUNS.1 - RUNS.0) as f64)
}

/// Builds all meters together with the release profile: linking takes most of the time.
pub fn build() -> StepResult {
    build_all(&meters()?)
}

fn build_all(meters: &[Meter]) -> StepResult {
    let mut command = cargo(&["build", "--release", "--quiet"]);
    let examples: BTreeSet<_> = meters
        .iter()
        .map(|meter| (&meter.package, &meter.example))
        .collect();
    for (package, example) in examples {
        command.args(["-p", package.as_str(), "--example", example]);
    }
    crate::command::run(&mut command)
}

fn count_instructions(meter: &Meter, operation: &str, count: u64) -> Result<i64, String> {
    let program = target_dir("release").join("examples").join(&meter.example);
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(format!("--toggle-collect={}", meter.inside));
    command
        .arg(program)
        .args(&meter.system)
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
    fn packages_declare_their_meters() {
        let text = r#"{"name": "drover-store", "metadata": {"meters": [
            {"example": "instructions", "name": "store", "inside": "each", "operations": ["get", "put"]}]}}"#;
        let package = serde_json::from_str(text).expect("JSON");
        let found = meters_of(&package).expect("well-formed");
        assert_eq!(
            (found[0].package.as_str(), found[0].system.as_ref()),
            ("drover-store", None)
        );
        assert_eq!(found[0].operations, ["get", "put"]);
        let wrong = serde_json::from_str(&text.replace("inside", "outside")).expect("JSON");
        assert!(
            meters_of(&wrong)
                .expect_err("a key is unknown")
                .starts_with("drover-store: ")
        );
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
