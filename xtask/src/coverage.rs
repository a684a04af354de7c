//! Branches of the protocol that the campaigns of simulated clusters never reach.
//!
//! The simulator is built with the compiler's coverage instrumentation, runs every scenario for a share of the seeds,
//! and `xtask/coverage` reads the counts. File, function and the text of the line identify a branch, not a number, so
//! the explanations in [`FILE`] stay valid when lines move.

use crate::command::{output, root, run as start, target_dir};
use crate::counts::Counts;
use crate::steps::{StepResult, Steps, Work};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options of a coverage run.
#[derive(clap::Args)]
pub struct Args {
    /// Number of seeds, divided among the scenarios.
    #[arg(long, default_value_t = SEEDS)]
    pub seeds: u64,
    /// The first seed of each scenario.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Scenario to run, or `all`: each of them, and `default` four times as long.
    #[arg(long, default_value = "all")]
    pub scenario: String,
}

/// Number of seeds to which the explanations apply.
const SEEDS: u64 = 10_000;
/// Sources to check.
const SOURCES: &str = "crates/systems/kv-herd/src/";
/// Document that explains unreached branches.
const FILE: &str = "docs/sim-coverage.md";
/// The scenario with the largest share.
const MIXTURE: &str = "default";
/// Weight of that scenario.
const MIXTURE_SHARE: usize = 4;
/// The instrumented build names its target, so that build scripts and macros stay uninstrumented.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// Builds, runs the scenarios, and compares with the explanations.
pub fn run(steps: &mut Steps, args: &Args) {
    if !steps.run_together("coverage build", &[build_program, build_reader]) {
        return;
    }
    let pieces = match pieces(args) {
        Ok(pieces) => pieces,
        Err(why) => {
            steps.run("coverage scenarios", || Err(why));
            return;
        }
    };
    let profiles: Vec<PathBuf> = pieces.iter().map(Piece::profile).collect();
    let works = pieces
        .iter()
        .map(|piece| -> Work<'_> { (piece.name(), Box::new(|| piece.run())) });
    steps.run_on_all_cores(works.collect());
    let is_full = args.scenario == "all" && args.seeds >= SEEDS;
    steps.run("coverage", || report(&profiles, is_full));
}

fn build_program() -> StepResult {
    start(
        Command::new("cargo")
            .args(["build", "--quiet", "--target", TRIPLE])
            .args(["-p", "drover-swarm", "--example", "campaign"])
            .current_dir(root())
            .env("CARGO_TARGET_DIR", target_dir("coverage"))
            .env("RUSTFLAGS", "-Cinstrument-coverage"),
    )
}

fn build_reader() -> StepResult {
    start(
        Command::new("cargo")
            .args(["build", "--release", "--quiet"])
            .current_dir(root().join("xtask/coverage"))
            .env("CARGO_TARGET_DIR", reader_dir()),
    )
}

fn reader_dir() -> PathBuf {
    target_dir("coverage").join("reader")
}

fn program() -> PathBuf {
    let built = target_dir("coverage").join(TRIPLE);
    built.join("debug/examples/campaign")
}

/// Work for one core.
struct Piece {
    scenario: String,
    seed: u64,
    seeds: u64,
}

impl Piece {
    fn name(&self) -> String {
        format!("coverage {} {}", self.scenario, self.seed)
    }

    fn profile(&self) -> PathBuf {
        let name = format!("{}-{}.profraw", self.scenario, self.seed);
        target_dir("coverage").join("profiles").join(name)
    }

    fn run(&self) -> StepResult {
        start(
            Command::new(program())
                .args([&self.scenario, &self.seed.to_string(), &self.seeds.to_string()])
                .env("LLVM_PROFILE_FILE", self.profile()),
        )
    }
}

/// Equal pieces of the seeds: one per scenario, several of `default`. Threads of one process would lose counts.
fn pieces(args: &Args) -> Result<Vec<Piece>, String> {
    let mut names: Vec<String> = match args.scenario.as_str() {
        "all" => {
            let list = output(&mut Command::new(program()))?;
            list.lines().map(str::to_owned).collect()
        }
        one => vec![one.to_owned()],
    };
    let mixtures: Vec<String> = names
        .iter()
        .filter(|name| *name == MIXTURE)
        .flat_map(|name| vec![name.clone(); MIXTURE_SHARE - 1])
        .collect();
    names.splice(0..0, mixtures);
    let seeds = (args.seeds / names.len() as u64).max(1);
    let mut next = BTreeMap::new();
    let pieces = names.into_iter().map(|scenario| {
        let next = next.entry(scenario.clone()).or_insert(args.seed);
        let seed = *next;
        *next += seeds;
        Piece {
            scenario,
            seed,
            seeds,
        }
    });
    Ok(pieces.collect())
}

/// Prints the unreached branches, and where the explanations are wrong.
fn report(profiles: &[PathBuf], is_full: bool) -> StepResult {
    let reader = reader_dir().join("release/drover-coverage");
    let text = output(Command::new(reader).arg(program()).arg(SOURCES).args(profiles))?;
    let files = Files::read(&text, &root().join(SOURCES))?;
    let explained = std::fs::read_to_string(root().join(FILE)).map_err(|e| format!("{FILE}: {e}"))?;
    let explanations = explanations(&explained);
    let mut verdict = files.compare(&explanations);
    if !is_full {
        verdict.outdated.clear(); // a partial run reaches less, so that branches begin earlier and have other names
    }
    verdict.print();
    let count = verdict.unexplained.len() + verdict.outdated.len();
    match is_full && count > 0 {
        true => Err(format!("{count} lines of {FILE} are missing or no longer true")),
        false => Ok(Counts::ONE),
    }
}

/// Start, end and execution count of a source region.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Region {
    line: usize,
    column: usize,
    count: u64,
}

/// A branch as named in explanations.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Branch {
    file: String,
    function: String,
    text: String,
}

/// Unreached parts of a file.
#[derive(Debug, Default)]
struct Unreached {
    /// Branches, each with the line of its first region.
    branches: Vec<(usize, Branch)>,
    /// Functions that were at least partly reached.
    alive: BTreeSet<String>,
    /// Number of unreached places that only pass an error on.
    handed_on: usize,
}

/// Files by name.
struct Files(BTreeMap<String, Unreached>);

impl Files {
    fn read(regions: &str, folder: &Path) -> Result<Files, String> {
        let mut by_file: BTreeMap<&str, Vec<Region>> = BTreeMap::new();
        for line in regions.lines() {
            let (file, region) = parse(line).ok_or_else(|| format!("not a region: {line}"))?;
            by_file.entry(file).or_default().push(region);
        }
        let mut files = BTreeMap::new();
        for (file, regions) in by_file {
            let path = folder.join(file);
            let source = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            files.insert(file.to_owned(), unreached(file, &source, regions));
        }
        Ok(Files(files))
    }

    /// Splits unreached branches into explained and unexplained ones, and finds explanations without a branch.
    fn compare<'a>(&'a self, explanations: &'a [Explanation]) -> Verdict<'a> {
        let mut verdict = Verdict::default();
        let mut used = vec![false; explanations.len()];
        for (file, unreached) in &self.0 {
            verdict.handed_on += unreached.handed_on;
            for (line, branch) in &unreached.branches {
                let mut explained = false;
                for (explanation, used) in explanations.iter().zip(&mut used) {
                    if explanation.file == *file && explanation.covers(branch, &unreached.alive) {
                        (*used, explained) = (true, true);
                    }
                }
                match explained {
                    true => verdict.explained += 1,
                    false => verdict.unexplained.push((*line, branch)),
                }
            }
        }
        let outdated = explanations.iter().zip(used).filter(|(_, used)| !used);
        verdict.outdated = outdated.map(|(explanation, _)| explanation).collect();
        verdict
    }
}

/// Parses a line of the reader: file, first line, column, last line, column, count.
fn parse(line: &str) -> Option<(&str, Region)> {
    let mut words = line.split('\t');
    let file = words.next()?;
    let numbers: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
    let &[line, column, _, _, count] = &numbers[..] else {
        return None;
    };
    let region = Region {
        line: line as usize,
        column: column as usize,
        count,
    };
    Some((file, region))
}

/// The unreached parts of a file with these regions.
fn unreached(file: &str, source: &str, mut regions: Vec<Region>) -> Unreached {
    let lines: Vec<&str> = source.lines().collect();
    let mut found = Unreached::default();
    regions.sort_unstable();
    let mut open: Option<usize> = None;
    for region in &regions {
        let at = region.line - 1;
        if region.count > 0 {
            // A reached region on the line where a branch begins precedes the choice.
            open = open.filter(|first| *first == at);
            found.alive.insert(function_of(&lines, at));
            continue;
        }
        if is_noise(&lines, at) || open.is_some_and(|first| continues(&lines, first, at)) {
            continue;
        }
        if hands_on(&lines, region) {
            found.handed_on += 1;
            continue;
        }
        open = Some(at);
        let branch = Branch {
            file: file.to_owned(),
            function: function_of(&lines, at),
            text: text_of(&lines, at),
        };
        if found.branches.iter().all(|(_, known)| *known != branch) {
            found.branches.push((region.line, branch));
        }
    }
    found
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The code of a line, without what follows it.
fn code(line: &str) -> &str {
    line.split(" // ").next().unwrap_or("").trim()
}

/// Whether line `at` belongs to the unreached branch that began at line `first`, with nothing reached in between: it is
/// indented deeper, or continues the same block. Another match arm does not.
fn continues(lines: &[&str], first: usize, at: usize) -> bool {
    let (outer, inner) = (indent(lines[first]), indent(lines[at]));
    let text = code(lines[at]);
    let begins = text.contains("=>") || text.contains("fn ") || text.contains("else");
    at == first || inner > outer || (inner == outer && !begins)
}

/// Whether a line is of a log call, an assertion's message, or only a closing bracket.
fn is_noise(lines: &[&str], at: usize) -> bool {
    let text = code(lines[at]);
    let own = ["tracing::", "debug_assert", "assert", "\"", "#["];
    let closes = text.starts_with(['}', ')']) && !text.contains("else");
    // The arguments of a multi-line macro are indented deeper than its first line.
    let within = lines[..at]
        .iter()
        .rev()
        .find(|line| !line.trim().is_empty() && indent(line) < indent(lines[at]))
        .is_some_and(|line| own.iter().any(|own| line.trim_start().starts_with(own)));
    closes || within || own.iter().any(|own| text.starts_with(own))
}

/// Whether the region is a `?` or makes the error for one: only the error's origin counts.
fn hands_on(lines: &[&str], region: &Region) -> bool {
    let line = lines[region.line - 1];
    let rest = line.get(region.column - 1..).unwrap_or("");
    let makes_error = ["map_err(", ".ok_or(", "|error"]
        .iter()
        .any(|call| line.contains(call));
    rest.starts_with('?') || makes_error
}

/// The function that contains or begins at line `at`.
fn function_of(lines: &[&str], at: usize) -> String {
    let own = indent(lines[at]);
    let head = |at: &usize| {
        let line = lines[*at];
        name_of(line).filter(|_| indent(line) < own)
    };
    name_of(lines[at])
        .or_else(|| (0..at).rev().find_map(|at| head(&at)))
        .unwrap_or_default()
        .to_owned()
}

/// The name after a line's `fn`.
fn name_of(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let is_head = before
        .split_whitespace()
        .all(|word| ["pub", "const", "async", "unsafe"].contains(&word) || word.starts_with("pub("));
    let end = after.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    (is_head && end > 0).then(|| &after[..end])
}

/// The line, with the condition above it if it is the first of a block, or with the next line if it is short.
fn text_of(lines: &[&str], at: usize) -> String {
    let text = code(lines[at]);
    if name_of(lines[at]).is_some() {
        return "fn".to_owned();
    }
    let before = at.checked_sub(1).map_or("", |before| code(lines[before]));
    if before.ends_with('{') && name_of(before).is_none() && !text.contains("=>") {
        return format!("{before} {text}");
    }
    match lines.get(at + 1) {
        Some(next) if text.ends_with('{') && text.len() < 24 => format!("{text} {}", code(next)),
        _ => text.to_owned(),
    }
}

/// An explanation: for a file or function of which nothing is reached, or for a branch.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Explanation {
    file: String,
    function: Option<String>,
    text: Option<String>,
}

impl Explanation {
    fn covers(&self, branch: &Branch, alive: &BTreeSet<String>) -> bool {
        match (&self.function, &self.text) {
            (Some(function), Some(text)) => *function == branch.function && *text == branch.text,
            (Some(function), None) => *function == branch.function && !alive.contains(function),
            (None, _) => alive.is_empty(),
        }
    }
}

/// The list items of a document that name a source: `file`, `function`, `text`, as far as given.
fn explanations(document: &str) -> Vec<Explanation> {
    let items = document.lines().filter_map(|line| line.strip_prefix("- `"));
    items
        .filter_map(|item| {
            let mut quoted = item.split('`').step_by(2);
            let file = quoted.next().filter(|file| file.ends_with(".rs"))?;
            let mut more = || quoted.next().filter(|text| !text.is_empty()).map(str::to_owned);
            Some(Explanation {
                file: file.to_owned(),
                function: more(),
                text: more(),
            })
        })
        .collect()
}

/// Result of the comparison.
#[derive(Debug, Default)]
struct Verdict<'a> {
    explained: usize,
    handed_on: usize,
    unexplained: Vec<(usize, &'a Branch)>,
    outdated: Vec<&'a Explanation>,
}

impl Verdict<'_> {
    fn print(&self) {
        let mut file = "";
        for (line, branch) in &self.unexplained {
            if branch.file != file {
                file = &branch.file;
                println!("\n{SOURCES}{file}: never reached, and not explained");
            }
            println!("- `{file}` `{}` `{}` (line {line})", branch.function, branch.text);
        }
        if !self.outdated.is_empty() {
            println!("\nin {FILE}, but reached, or not there:");
        }
        for outdated in &self.outdated {
            let (function, text) = (outdated.function.as_deref(), outdated.text.as_deref());
            println!(
                "- `{}` `{}` `{}`",
                outdated.file,
                function.unwrap_or(""),
                text.unwrap_or("")
            );
        }
        println!(
            "\nbranches never reached: {} explained, {} not; {} explanations of what is reached; {} errors that were \
             never handed on",
            self.explained,
            self.unexplained.len(),
            self.outdated.len(),
            self.handed_on
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
impl Door {
    fn open(&mut self) -> bool {
        match self.state {
            State::Shut => self.turn(),
            State::Stuck => {
                self.push();
                self.push()
            }
            State::Open => false,
        }
    }

    fn close(&mut self) {
        self.turn();
        self.turn();
    }
}
";

    fn region(line: usize, column: usize, count: u64) -> Region {
        Region { line, column, count }
    }

    /// Only the first of the three arms is executed; the channel stays open.
    fn door() -> Files {
        let regions = [
            (2, 5, 1),
            (4, 28, 1),
            (5, 29, 0),
            (6, 17, 0),
            (7, 17, 0),
            (8, 13, 0),
            (9, 28, 0),
            (11, 5, 1),
            (13, 5, 0),
            (14, 9, 0),
            (16, 5, 0),
        ];
        let regions = regions.map(|(line, column, count)| region(line, column, count));
        let found = unreached("door.rs", SOURCE, regions.to_vec());
        Files(BTreeMap::from([("door.rs".to_owned(), found)]))
    }

    #[test]
    fn every_arm_and_every_function_is_told_once() {
        let files = door();
        let verdict = files.compare(&[]);
        let told: Vec<_> = verdict
            .unexplained
            .iter()
            .map(|(line, branch)| (*line, &*branch.function, &*branch.text))
            .collect();
        let stuck = "State::Stuck => { self.push();";
        let open = "State::Open => false,";
        assert_eq!(told, [(5, "open", stuck), (9, "open", open), (13, "close", "fn")]);
    }

    #[test]
    fn what_is_explained_is_not_told_and_what_is_reached_not_explained() {
        let document = "\
# Reasons
- `door.rs` `open`: `State::Stuck => { self.push();`
- `door.rs` `close`
- `door.rs` `open` `State::Shut => self.turn(),`
- `door.rs` `open`: everything in it
- `door.rs`
- not a source
";
        let (files, explanations) = (door(), explanations(document));
        let verdict = files.compare(&explanations);
        assert_eq!((verdict.explained, verdict.unexplained.len()), (2, 1));
        let outdated: Vec<_> = verdict.outdated.iter().map(|it| it.function.as_deref()).collect();
        assert_eq!(outdated, [Some("open"), Some("open"), None]);
    }

    #[test]
    fn reads_regions() {
        let parsed = parse("client/bulk.rs\t3\t5\t4\t6\t70");
        assert_eq!(parsed, Some(("client/bulk.rs", region(3, 5, 70))));
        assert_eq!(parse("client/bulk.rs\t3\tx"), None);
    }

    #[test]
    fn log_lines_are_no_branches() {
        let source = [
            "    if odd {",
            "        tracing::warn!(",
            "            odd,",
            "        );",
        ];
        assert!(is_noise(&source, 1) && is_noise(&source, 2) && is_noise(&source, 3));
        assert!(!is_noise(&source, 0));
    }
}
