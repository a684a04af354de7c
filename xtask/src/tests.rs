//! The test runners: unit and integration tests, doctests, examples, and the long campaigns.

use crate::command::{self, cargo, has, root, run_tests};
use crate::counts::Counts;
use crate::steps::{StepResult, Steps};

/// Options of the kill campaign.
#[derive(clap::Args)]
pub struct KillArgs {
    /// How many kills.
    #[arg(short = 'N', long, default_value_t = 200)]
    pub count: u32,
}

/// Every test of the workspace.
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

/// nextest where it is installed (it ends tests that hang, see .config/nextest.toml), else cargo's own.
fn workspace_tests() -> std::process::Command {
    if has("cargo-nextest") {
        cargo(&["nextest", "run", "--workspace"])
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

/// The package whose tests kill processes, and the test that does.
const KILL: (&str, &str) = ("drover", "kill");

/// kill -9 of client or server at random points under load.
pub fn kill(steps: &mut Steps, args: &KillArgs) {
    let (package, test) = KILL;
    steps.run("kill", || {
        if !root()
            .join("crates/server/tests")
            .join(format!("{test}.rs"))
            .exists()
        {
            return Err(format!("there is no test `{test}` in `{package}` yet"));
        }
        let mut command = cargo(&[
            "test",
            "-p",
            package,
            "--test",
            test,
            "--release",
            "--",
            "--include-ignored",
        ]);
        run_tests(command.env("DROVER_KILLS", args.count.to_string()))
    });
}

/// The numbered examples, each as a user would run it.
pub fn examples(steps: &mut Steps) {
    for name in example_names() {
        let args = [
            "run",
            "--quiet",
            "-p",
            "drover-examples",
            "--example",
            &name,
            "--",
            "--provider",
            "shm",
        ];
        steps.run(&format!("example {name}"), || {
            command::run(&mut cargo(&args)).map(|_| Counts::ONE)
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

/// The README's first command, cut short: it starts its own server, measures, and every key is found.
pub fn bench_smoke(steps: &mut Steps) {
    steps.run("bench smoke", || {
        let words = "run --release --quiet -- bench --keys 100000 --seconds 1 --repeats 1 --json -";
        let mut bench = cargo(&words.split(' ').collect::<Vec<_>>());
        let text = command::output(bench.arg("--results").arg(command::target_dir("bench-results")))?;
        let report: serde_json::Value = serde_json::from_str(&text).map_err(|e| format!("{e} in {text}"))?;
        match (report["throughput_ops"].as_f64(), report["hit_rate"].as_f64()) {
            (Some(ops), Some(hits)) if ops > 0.0 && hits > 0.9 => Ok(Counts::ONE),
            _ => Err(format!(
                "throughput_ops or hit_rate is missing or too low in {text}"
            )),
        }
    });
}

/// One ordinary bench run whose result file stays.
pub fn bench(steps: &mut Steps) {
    steps.run("bench", || -> StepResult {
        let file = root().join("results").join("xtask-bench.json");
        std::fs::create_dir_all(root().join("results")).map_err(|e| format!("results/: {e}"))?;
        let file = file.to_string_lossy().into_owned();
        let args = [
            "run",
            "--release",
            "--quiet",
            "-p",
            "drover",
            "--",
            "bench",
            "--system",
            "herd",
            "--fabric",
            "shm",
            "--mix",
            "b",
            "--dist",
            "zipf",
            "--keys",
            "1000000",
            "--key-size",
            "16",
            "--value-size",
            "32",
            "--window",
            "16",
            "--server-cores",
            "1",
            "--client-cores",
            "1",
            "--seconds",
            "3",
            "--repeats",
            "5",
            "--bound",
            "--json",
            &file,
        ];
        command::run(&mut cargo(&args))
    });
}
