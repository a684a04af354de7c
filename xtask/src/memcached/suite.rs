//! Runs memcached's own tests against a server: [`table`](super::table) lists each test file and its expected result.

use super::over;
use super::server::{Kind, Server};
use super::table::{Fit, Line, TABLE};
use super::{folder, source};
use crate::command::{ENDS_WITH_PARENT, ending_with_us};
use crate::counts::Counts;
use crate::steps::{StepResult, Steps};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// drover (its debug build), memcached, or the path of a build of drover
    #[arg(long, default_value = "drover")]
    pub server: String,
    /// Only files whose names contain this
    #[arg(long)]
    pub only: Option<String>,
    /// Number of files to run in parallel: they mostly wait
    #[arg(long, default_value_t = 8)]
    pub jobs: usize,
    /// Run inapplicable files too: they must fail, or the table is wrong
    #[arg(long)]
    pub all: bool,
    /// Run against a gateway (`serve --connect`) to a service of this system
    #[arg(long, value_name = "SYSTEM")]
    pub over: Option<String>,
}

impl Args {
    /// All files that apply to `serve`, or to a gateway over this system.
    fn all_that_applies(over: Option<&str>) -> Args {
        Args {
            server: "drover".to_string(),
            only: None,
            jobs: 8,
            all: false,
            over: over.map(str::to_string),
        }
    }
}

/// Time limit of a file, seconds; inapplicable files get less, because many of them wait for ever.
const SECONDS: u32 = 80;
const SECONDS_OTHERS: u32 = 20;
/// Exit statuses of `timeout` after a time-out, and after a kill.
const TIME_UP: [&str; 2] = ["124", "137"];

/// Result of one file.
struct Outcome {
    line: &'static Line,
    /// Number of planned assertions, if the file says it.
    planned: Option<usize>,
    /// Numbers of the assertions that passed.
    held: BTreeSet<usize>,
    /// Numbers of the assertions that failed.
    failed: BTreeSet<usize>,
    /// Skipped assertions, with the file's reason.
    skips: Vec<String>,
    /// The file's reason, if it skipped everything.
    skipped: Option<String>,
    status: String,
    said: PathBuf,
}

impl Outcome {
    fn new(line: &'static Line, said: PathBuf) -> Outcome {
        Outcome {
            line,
            planned: None,
            held: BTreeSet::new(),
            failed: BTreeSet::new(),
            skips: Vec::new(),
            skipped: None,
            status: String::new(),
            said,
        }
    }

    /// Whether everything applicable passed, and nothing listed as inapplicable did.
    fn passed(&self) -> bool {
        let broken = self.broken();
        let excused: BTreeSet<usize> = self.line.excused().collect();
        // A file that fails on an inapplicable part may have any exit status, but must end by itself.
        let ended = match excused.is_empty() {
            true => self.status == "0",
            false => !TIME_UP.contains(&self.status.as_str()),
        };
        ended && broken == excused && self.asserted() > 0 && self.skipped.is_none()
    }

    /// Number of assertions made and passed.
    fn asserted(&self) -> usize {
        self.held.len() - self.skips.len()
    }

    /// Assertions that failed, or were planned and never made.
    fn broken(&self) -> BTreeSet<usize> {
        let planned = (1..=self.planned.unwrap_or(0)).filter(|number| !self.held.contains(number));
        planned.chain(self.failed.iter().copied()).collect()
    }
}

/// Runs the suite as one step.
pub fn run(steps: &mut Steps, args: &Args) {
    steps.run("memcached's suite", || suite(args));
}

/// Runs what CI runs, as one step: against `serve` and, at the same time, against a gateway over memory nodes. Both mostly
/// wait.
pub fn run_of_ci(steps: &mut Steps) {
    const OF_CI: [fn() -> StepResult; 2] = [
        || suite(&Args::all_that_applies(None)),
        || suite(&Args::all_that_applies(Some(over::POOL_OF_CI))),
    ];
    steps.run_together("memcached's suite", &OF_CI);
}

fn suite(args: &Args) -> StepResult {
    let place = prepare()?;
    let kind = Kind::named(&args.server)?;
    every_file_is_listed(&place)?;
    let wanted = |line: &&&Line| args.only.as_ref().is_none_or(|part| line.file.contains(part));
    let table: Vec<&'static Line> = match &args.over {
        Some(system) => over::table(system),
        None => TABLE.iter().collect(),
    };
    let lines = table.iter().filter(wanted).copied();
    let lines: Vec<&'static Line> = lines.filter(|line| is_run(line, &kind, args)).collect();
    let over = args.over.as_deref();
    let outcomes = run_all(&lines, &kind, over, &place, args.jobs);
    let server = match over {
        Some(system) => format!("a gateway over {system}"),
        None => format!("{kind:?}"),
    };
    Ok(sum_up(&outcomes, &server, &table))
}

/// Prepares source and tools; CI runs it in parallel with its builds.
pub fn prepare() -> Result<PathBuf, String> {
    crate::setup::install(source::TOOLS)?;
    install_tls()?;
    source::unpacked(&folder().join("memcached-source"), source::Release::Own)
}

/// Perl's TLS sockets are a library, which [`has`](crate::command::has) cannot find.
const TLS: crate::setup::Tool = (
    "IO::Socket::SSL",
    "libio-socket-ssl-perl",
    "memcached's own tests of TLS",
);

fn install_tls() -> StepResult {
    let there = Command::new("perl")
        .args(["-MIO::Socket::SSL", "-e", "1"])
        .stderr(Stdio::null())
        .status();
    let has_tls = there.is_ok_and(|status| status.success());
    crate::setup::install_where(&[TLS], |name| has_beside_tls(name, has_tls))
}

/// Whether a tool is installed: `has_tls` says so for Perl's TLS sockets, `has` for programs.
fn has_beside_tls(name: &str, has_tls: bool) -> bool {
    match name == TLS.0 {
        true => has_tls,
        false => crate::command::has(name),
    }
}

/// Whether a file is run. Inapplicable ones may pass on memcached, and run only on request.
fn is_run(line: &Line, kind: &Kind, args: &Args) -> bool {
    match line.fit {
        Fit::Nothing(_) => false,
        Fit::No(_) => matches!(kind, Kind::Drover(_)) && (args.all || args.only.is_some()),
        _ => true,
    }
}

fn every_file_is_listed(place: &Path) -> StepResult {
    let files = fs::read_dir(place.join("t")).map_err(|e| format!("{}: {e}", place.display()))?;
    let files = files
        .flatten()
        .map(|file| file.file_name().to_string_lossy().into_owned());
    let there: BTreeSet<String> = files.filter(|name| name.ends_with(".t")).collect();
    let listed: BTreeSet<String> = TABLE.iter().map(|line| line.file.to_string()).collect();
    let missing: Vec<&String> = there.difference(&listed).collect();
    match missing.is_empty() {
        true => Ok(Counts::default()),
        false => Err(format!("not in xtask/src/memcached/table.rs: {missing:?}")),
    }
}

fn run_all(
    lines: &[&'static Line],
    kind: &Kind,
    over: Option<&str>,
    place: &Path,
    jobs: usize,
) -> Vec<Outcome> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while let Some(line) = lines.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = run_file(line, kind, over, place);
                    let mut done = done.lock().expect("no thread panics with the lock");
                    tell(&outcome, over);
                    done.push(outcome);
                }
            });
        }
    });
    let mut outcomes = done.into_inner().expect("no thread panics with the lock");
    outcomes.sort_by_key(|outcome| outcome.line.file);
    outcomes
}

/// Name of a file's run, for what it leaves on disk.
fn place_of(file: &str, over: Option<&str>) -> String {
    over.map_or_else(|| file.to_string(), |system| format!("{system}-{file}"))
}

fn run_file(line: &'static Line, kind: &Kind, over: Option<&str>, place: &Path) -> Outcome {
    let said = folder().join(format!("suite-{}.txt", place_of(line.file, over)));
    let mut outcome = Outcome::new(line, said.clone());
    outcome.status = match perl(line, kind, over, place, &said) {
        Ok(status) => status,
        Err(why) => why,
    };
    let text = fs::read(&said).unwrap_or_default();
    count(&String::from_utf8_lossy(&text), &mut outcome);
    outcome
}

/// Runs a file to its end, kills all processes that it started, and returns its exit status as text.
fn perl(line: &Line, kind: &Kind, over: Option<&str>, place: &Path, said: &Path) -> Result<String, String> {
    let home = home_of(&place_of(line.file, over), place)?;
    let server = match line.fit {
        Fit::Running => {
            let log = folder().join(format!("suite-{}-server.txt", line.file));
            Some(Server::start(kind, &["-A"], &log)?)
        }
        _ => None,
    };
    let to = fs::File::create(said).map_err(|e| format!("{}: {e}", said.display()))?;
    let again = to.try_clone().map_err(|e| e.to_string())?;
    let seconds = match line.fit {
        Fit::No(_) => SECONDS_OTHERS,
        _ => SECONDS,
    };
    let mut command = ending_with_us("timeout");
    command.args(["-k", "1", &seconds.to_string()]);
    command
        .args(ENDS_WITH_PARENT)
        .args(["perl", "-It/lib", "-I.", "-MRealTime"])
        .arg(format!("t/{}", line.file));
    command
        .current_dir(&home)
        .env("SUITE_SERVER", kind.words().join("\n"));
    if let Some(system) = over {
        let (server, without) = match over::is_pool(system) {
            true => (kind.pool_words(system, over::memory_mib(line.file)), "-m: -e:"),
            false => (kind.gateway_words(), "-m: -e: -M -C -F -X -W -L"),
        };
        command.env("SUITE_SERVER", server.join("\n"));
        command.env("SUITE_WITHOUT", without);
        if !over::is_pool(system) {
            command.env("SUITE_OVER", kind.service_words(system).join("\n"));
        }
    }
    command.env("SUITE_DROPS", DROPS);
    if matches!(kind, Kind::Drover(_)) {
        command.env("SUITE_NO_UDP", "1");
    }
    if line.fit == Fit::Tls {
        command.env("SSL_TEST", "1");
    }
    if let Some(server) = &server {
        command.env("T_MEMD_USE_DAEMON", server.address().to_string());
    }
    // Its processes share its group: a file that dies leaves servers behind.
    let child = command
        .stdin(Stdio::null())
        .stdout(to)
        .stderr(again)
        .process_group(0)
        .spawn();
    let mut child = child.map_err(|e| format!("timeout: {e}"))?;
    let status = child.wait().map_err(|e| e.to_string())?;
    let group = format!("-{}", child.id());
    let _ = Command::new("kill")
        .args(["-9", "--", &group])
        .stderr(Stdio::null())
        .status();
    Ok(status
        .code()
        .map_or_else(|| status.to_string(), |code| code.to_string()))
}

/// A folder that looks like memcached's build: links to its files, and our programs in place of its own.
fn home_of(name: &str, place: &Path) -> Result<PathBuf, String> {
    let home = folder().join("homes").join(name);
    let _ = fs::remove_dir_all(&home);
    let make = || -> std::io::Result<()> {
        fs::create_dir_all(&home)?;
        for name in ["t", "doc"] {
            std::os::unix::fs::symlink(place.join(name), home.join(name))?;
        }
        fs::write(home.join("RealTime.pm"), include_str!("RealTime.pm"))?;
        program(&home.join("memcached-debug"), include_str!("wrapper.pl"))?;
        // memcached's own program limits time; we limit the whole file's.
        program(&home.join("timedrun"), "#!/bin/sh\nshift\nexec \"$@\"\n")
    };
    make().map_err(|e| format!("{}: {e}", home.display()))?;
    Ok(home)
}

fn program(path: &Path, text: &str) -> std::io::Result<()> {
    fs::write(path, text)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

/// Suboptions of -o that do not apply: those of debugging builds on a shipped build.
const DROPS: &str = "relaxed_privileges";

/// Parses a file's output: TAP, of which everything except plans, verdicts and directives is comment.
fn count(text: &str, outcome: &mut Outcome) {
    for line in text.lines() {
        let upper = line.to_ascii_uppercase();
        let number = |rest: &str| rest.split_whitespace().next().and_then(|word| word.parse().ok());
        if line.starts_with("1..0") {
            outcome.skipped = Some(line.trim_start_matches("1..0").trim().to_string());
        } else if let Some(rest) = line.strip_prefix("1..") {
            outcome.planned = number(rest);
        } else if let Some(rest) = line.strip_prefix("not ok ") {
            let set = if upper.contains("# TODO") {
                &mut outcome.held
            } else {
                &mut outcome.failed
            };
            set.extend(number(rest));
        } else if let Some(rest) = line.strip_prefix("ok ") {
            outcome.held.extend(number(rest));
            if upper.contains("# SKIP") {
                outcome.skips.push(rest.to_string());
            }
        }
    }
}

/// Prints a file's result as soon as it has ended.
fn tell(outcome: &Outcome, over: Option<&str>) {
    let (file, passed) = (&place_of(outcome.line.file, over), outcome.passed());
    match outcome.line.fit {
        Fit::No(reason) if passed => {
            println!("{file:28} passes, though the table says it does not apply: {reason}");
        }
        Fit::No(reason) => println!("{file:28} does not apply: {reason}"),
        _ if passed => {
            println!("{file:28} {:6} assertions", outcome.asserted());
            for (first, last, reason) in outcome.line.but {
                println!("{:28} not {first}-{last}: {reason}", "");
            }
            for skip in &outcome.skips {
                println!("{:28} skips {skip}", "");
            }
        }
        _ => complain(outcome),
    }
}

/// Sums up the files that pass, fail, and do not apply, with reasons.
fn sum_up(outcomes: &[Outcome], server: &str, table: &[&Line]) -> Counts {
    let mut counts = Counts::default();
    for outcome in outcomes {
        match (outcome.line.fit, outcome.passed()) {
            (Fit::No(_), false) => {}
            (Fit::No(_), true) | (_, false) => counts.failed += 1,
            (_, true) => counts.passed += 1,
        }
    }
    for line in table {
        match line.fit {
            Fit::Nothing(reason) => println!("{:28} not run: {reason}", line.file),
            Fit::No(reason) if outcomes.iter().all(|outcome| outcome.line.file != line.file) => {
                println!("{:28} does not apply: {reason}", line.file);
            }
            _ => {}
        }
        counts.skipped += u64::from(matches!(line.fit, Fit::Nothing(_) | Fit::No(_)));
    }
    let assertions: usize = outcomes
        .iter()
        .filter(|outcome| outcome.passed())
        .map(Outcome::asserted)
        .sum();
    println!(
        "of memcached's files {} pass on {server} ({assertions} assertions), {} fail, {} do not apply",
        counts.passed, counts.failed, counts.skipped
    );
    counts
}

/// Maximum number of failed assertions to show per file.
const SHOWN: usize = 12;

fn complain(outcome: &Outcome) {
    let text = String::from_utf8_lossy(&fs::read(&outcome.said).unwrap_or_default()).into_owned();
    println!(
        "{:28} FAILED: assertions {:?} of {}, status {}{}; all of it: {}",
        outcome.line.file,
        outcome.broken(),
        outcome
            .planned
            .unwrap_or(outcome.held.len() + outcome.failed.len()),
        outcome.status,
        outcome
            .skipped
            .as_ref()
            .map(|why| format!(", skipped: {why}"))
            .unwrap_or_default(),
        outcome.said.display()
    );
    let telling = text
        .lines()
        .filter(|line| !line.starts_with("ok ") && !line.starts_with("1..") && !line.contains(" INFO "));
    for line in telling.take(SHOWN) {
        println!("    {}", line.chars().take(160).collect::<String>());
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::line;
    use super::*;

    const WHOLE: Line = line("whole.t", Fit::Own);
    const IN_PART: Line = line("part.t", Fit::Own).but(&[(2, 3, "a reason")]);

    #[test]
    fn perl_without_tls_does_not_hide_what_would_install_it() {
        assert!(!has_beside_tls(TLS.0, false) && has_beside_tls(TLS.0, true));
        assert!(has_beside_tls("sh", false) && !has_beside_tls("no-such-program", true));
    }

    fn counted(line: &'static Line, text: &str, status: &str) -> Outcome {
        let mut outcome = Outcome::new(line, PathBuf::new());
        outcome.status = status.to_string();
        count(text, &mut outcome);
        outcome
    }

    fn whole(text: &str) -> Outcome {
        counted(&WHOLE, text, "0")
    }

    #[test]
    fn verdicts_are_counted_and_nothing_passes_by_silence() {
        let fine = whole("1..2\nok 1 - a\nok 2\n# comment\n");
        assert!(fine.passed() && fine.asserted() == 2);
        assert!(!whole("1..2\nok 1\nnot ok 2 - b\n").passed());
        assert!(whole("1..2\nok 1\nnot ok 2 # TODO later\n").passed());
        assert!(!whole("1..0 # SKIP no such thing\n").passed());
        assert!(!whole("").passed() && !whole("1..1\nok 1 # skip why\n").passed());
        assert!(!whole("1..3\nok 1\nok 2\n").passed(), "one was never made");
        assert!(!counted(&WHOLE, "1..1\nok 1\n", "124").passed(), "time was up");
    }

    #[test]
    fn what_is_excused_must_fail_and_nothing_else() {
        let part = |text, status| counted(&IN_PART, text, status).passed();
        assert!(part("1..4\nok 1\nnot ok 2\nnot ok 3\nok 4\n", "2"));
        assert!(part("1..3\nok 1\nnot ok 2\n", "255"), "it died of it");
        assert!(
            !part("1..4\nok 1\nnot ok 2\nok 3\nok 4\n", "1"),
            "the table is wrong"
        );
        assert!(!part("1..4\nnot ok 1\nnot ok 2\nnot ok 3\nok 4\n", "3"));
        assert!(!part("1..3\nok 1\nnot ok 2\nnot ok 3\n", "124"), "time was up");
    }

    #[test]
    fn each_file_stands_once_in_the_table() {
        let names: BTreeSet<&str> = TABLE.iter().map(|line| line.file).collect();
        assert_eq!(names.len(), TABLE.len());
    }
}
