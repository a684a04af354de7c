//! The test runners: unit and integration tests, doctests, examples, and the long campaigns.

use crate::command::{self, cargo, has, root, run_tests, target_dir};
use crate::counts::Counts;
use crate::steps::{StepResult, Steps};
use crate::systems;

/// Options of the kill campaign.
#[derive(clap::Args)]
pub struct KillArgs {
    /// Number of kills in each setting of HERD, or of the only system; every other system is killed a quarter as often.
    #[arg(short = 'N', long, default_value_t = 200)]
    pub count: u32,
    /// The only system to kill, as `--system` of `drover serve` has it.
    #[arg(long)]
    pub system: Option<String>,
}

/// Options of the pause campaign.
#[derive(clap::Args)]
pub struct PauseArgs {
    /// Rounds per setting (slots, datagrams, both), each with a pause of up to 10 s; 100 take six minutes.
    #[arg(long, default_value_t = 100)]
    pub rounds: u32,
}

/// Options of the campaign beside a client that means harm.
#[derive(clap::Args)]
pub struct HostileArgs {
    /// Time for all systems together, or for the only one, seconds.
    #[arg(long, default_value_t = 600)]
    pub seconds: u32,
    /// The only system to attack, as `--system` of `drover serve` has it.
    #[arg(long)]
    pub system: Option<String>,
}

/// Options of the writes that a hot key lives through.
#[derive(clap::Args)]
pub struct LivesArgs {
    /// Number of writes of other keys, for each kind of client and number of threads.
    #[arg(long, default_value_t = 1_000_000)]
    pub writes: u32,
}

/// Options of the recorded histories.
#[derive(clap::Args)]
pub struct HistoryArgs {
    /// Rounds on a real server.
    #[arg(long, default_value_t = 300)]
    pub rounds: u32,
    /// Fresh seeds in one thread; DROVER_SEED=S in the environment begins with S instead.
    #[arg(long, default_value_t = 5000)]
    pub seeds: u32,
}

/// Runs every test of the workspace.
pub fn run(steps: &mut Steps) {
    steps.run("tests", || {
        let counts = run_tests(&mut workspace_tests())?;
        if counts.passed == 0 {
            Err("no test ran".to_string())
        } else {
            Ok(counts)
        }
    });
    steps.run("doctests", || {
        run_tests(&mut cargo(&["test", "--workspace", "--doc", "--quiet"]))
    });
}

/// nextest if it is installed (it ends tests that hang, see .config/nextest.toml), else cargo's own runner. Without examples,
/// of which most are meters that only other profiles run: clippy has checked that they compile.
fn workspace_tests() -> std::process::Command {
    if has("cargo-nextest") {
        let threads = test_threads().to_string();
        let mut command = cargo(&["nextest", "run", "--workspace", "--lib", "--bins", "--tests"]);
        command.args(["--test-threads", &threads]);
        command
    } else {
        cargo(&[
            "test",
            "--workspace",
            "--lib",
            "--bins",
            "--tests",
            "--no-fail-fast",
        ])
    }
}

/// Tests at a time: three for every two cores. Some wait, above all for items to expire: nine suites of systems do for 14 s each,
/// and a core would wait with them.
fn test_threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    cores + cores / 2
}

/// Runs the tests that `filter` names, ignored ones, too, in this environment. The selection is that of the workspace's tests, so
/// that nothing is compiled again.
///
/// # Errors
/// No test has this name.
pub fn chosen(filter: &str, environment: &[(&str, &std::ffi::OsStr)]) -> StepResult {
    let mut command = cargo(&["nextest", "run", "--workspace", "--lib", "--bins", "--tests"]);
    command.args(["--run-ignored", "all", "-E", filter]);
    command.envs(environment.iter().copied());
    match run_tests(&mut command)? {
        Counts {
            passed: 0, failed: 0, ..
        } => Err("no test ran".to_owned()),
        // All others were left out, not skipped.
        counts => Ok(Counts { skipped: 0, ..counts }),
    }
}

/// Kills client or server at random points under load.
pub fn kill(steps: &mut Steps, args: &KillArgs) {
    steps.run("kill", || {
        let mut command = campaign("campaigns::kill", "DROVER_KILLS", args.count);
        choose(&mut command, args.system.as_ref())?;
        run_tests(&mut command)
    });
}

/// Honest clients beside one that rewrites everything it can reach.
pub fn hostile(steps: &mut Steps, args: &HostileArgs) {
    steps.run("hostile", || {
        let mut command = campaign("campaigns::hostile::", "DROVER_SECONDS", args.seconds);
        choose(&mut command, args.system.as_ref())?;
        run_tests(&mut command)
    });
}

/// Has a campaign run for one system only, if one is given.
fn choose(command: &mut std::process::Command, system: Option<&String>) -> Result<(), String> {
    let Some(system) = system else { return Ok(()) };
    let names = systems::names()?;
    if !names.contains(system) {
        return Err(format!("no system {system:?}; there are: {}", names.join(", ")));
    }
    command.env("DROVER_SYSTEM", system);
    Ok(())
}

/// Reads a key after every write of another: a full cache must keep it.
pub fn lives(steps: &mut Steps, args: &LivesArgs) {
    steps.run("lives", || {
        run_tests(&mut campaign("lives::", "DROVER_WRITES", args.writes))
    });
}

/// Stops and continues client, server or both at random points under load.
pub fn pause(steps: &mut Steps, args: &PauseArgs) {
    steps.run("pause", || {
        run_tests(&mut campaign("campaigns::pause::", "DROVER_ROUNDS", args.rounds))
    });
}

/// What runs the campaigns of one module, `count` rounds each.
fn campaign(module: &str, variable: &str, count: u32) -> std::process::Command {
    let mut command = cargo(&["test", "-p", "drover", "--test", "it", "--release", "--"]);
    command
        .args([module, "--nocapture"])
        .env(variable, count.to_string());
    command
}

/// Runs tests whose names include their number of seeds, fresh ones in every run: too long for CI, which runs a few
/// fixed ones of each. `DROVER_SEED` in the environment, which a failure prints, repeats one.
pub fn races(steps: &mut Steps) {
    for (package, tests) in races_of_systems() {
        steps.run(&format!("races {package} {tests}"), || {
            let mut command = cargo(&["test", "-p", &package, "--test", "it", "--"]);
            run_tests(command.args([tests, "--include-ignored", "--nocapture"]))
        });
    }
}

/// Packages of the systems that have such tests, with the modules that the tests are in.
fn races_of_systems() -> Vec<(String, &'static str)> {
    let mut found = Vec::new();
    for system in systems::crates().unwrap_or_default() {
        for (file, module) in [
            ("race.rs", "conformance::race::"),
            ("growth.rs", "conformance::growth::"),
        ] {
            let path = format!("crates/systems/kv-{system}/tests/it/conformance/{file}");
            if root().join(path).exists() {
                found.push((format!("drover-kv-{system}"), module));
            }
        }
    }
    found
}

/// Checks histories of both kinds of clients, many times longer than in an ordinary run.
pub fn history(steps: &mut Steps, args: &HistoryArgs) {
    for package in ["drover", "drover-memcached"] {
        steps.run(&format!("history {package}"), || {
            let mut command = cargo(&[
                "test",
                "-p",
                package,
                "--test",
                "it",
                "--",
                "history::",
                "--nocapture",
            ]);
            command.env("DROVER_ROUNDS", args.rounds.to_string());
            run_tests(command.env("DROVER_SEEDS", args.seeds.to_string()))
        });
    }
}

/// Runs the numbered examples as a user would. They are built with the workspace, as its tests are, so that nothing is
/// rebuilt with fewer features.
pub fn examples(steps: &mut Steps) {
    let names = example_names();
    let built = steps.run("examples build", || {
        let mut build = cargo(&["build", "--quiet", "--workspace"]);
        names.iter().for_each(|name| {
            build.args(["--example", name]);
        });
        command::run(&mut build)
    });
    for name in names.iter().filter(|_| built) {
        let program = target_dir("debug").join("examples").join(name);
        steps.run(&format!("example {name}"), || {
            let mut example = std::process::Command::new(program);
            command::run(example.args(["--provider", "shm"])).map(|_| Counts::ONE)
        });
    }
}

fn example_names() -> Vec<String> {
    let Ok(folder) = std::fs::read_dir(root().join("examples/examples")) else {
        return Vec::new();
    };
    let names = folder
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names
        .filter_map(|name| Some(name.strip_suffix(".rs")?.to_string()))
        .collect();
    names.sort();
    names
}
