//! Runs named steps, times them, and ends with a table and one closing line.

use crate::counts::Counts;
use std::process::ExitCode;

/// What a step that went well has to say: how many tests it ran, if it ran any.
pub type StepResult = Result<Counts, String>;

/// The steps of one run, in order.
pub struct Steps {
    done: Vec<Step>,
}

struct Step {
    name: String,
    seconds: f64,
    counts: Counts,
    failure: Option<String>,
}

impl Steps {
    /// No steps yet.
    pub fn new() -> Steps {
        Steps { done: Vec::new() }
    }

    /// Runs `work` as the step `name`. A failure is kept for the table; later steps run all the same, so
    /// that one run tells everything. Returns whether it went well.
    pub fn run(&mut self, name: &str, work: impl FnOnce() -> StepResult) -> bool {
        eprintln!("\n==> {name}");
        let start = clock();
        let result = work();
        let seconds = clock() - start;
        let (counts, failure) = match result {
            Ok(counts) if counts.failed == 0 => (counts, None),
            Ok(counts) => (counts, Some(format!("{} tests failed", counts.failed))),
            Err(why) => (
                Counts {
                    failed: 1,
                    ..Counts::default()
                },
                Some(why),
            ),
        };
        if let Some(why) = &failure {
            eprintln!("{name}: {why}");
        }
        let well = failure.is_none();
        self.done.push(Step {
            name: name.to_string(),
            seconds,
            counts,
            failure,
        });
        well
    }

    /// Runs several works side by side as one step: builds in folders of their own, whose last crates keep only one
    /// core busy. All of them run to their end; the step fails with the first that did.
    pub fn run_together(&mut self, name: &str, works: &[fn() -> StepResult]) -> bool {
        self.run(name, || {
            std::thread::scope(|scope| {
                let running: Vec<_> = works.iter().map(|work| scope.spawn(work)).collect();
                let mut total = Ok(Counts::default());
                for work in running {
                    let result = work.join().unwrap_or_else(|_| Err("panicked".to_string()));
                    total = total.and_then(|mut total| {
                        total.add(result?);
                        Ok(total)
                    });
                }
                total
            })
        })
    }

    /// Prints the table of steps and, alone on the last line, the sum of all test runners. A failed step
    /// that is no test runner counts as one failure, so the line never looks better than the run was.
    pub fn finish(self) -> ExitCode {
        let mut total = Counts::default();
        let width = self.done.iter().map(|s| s.name.len()).max().unwrap_or(0).max(4);
        println!("\n{:<width$}  {:>8}  result", "step", "seconds");
        for step in &self.done {
            total.add(step.counts);
            let result = step.failure.clone().unwrap_or_else(|| describe(step.counts));
            println!(
                "{:<width$}  {:>8.1}  {}",
                step.name,
                step.seconds,
                first_line(&result)
            );
        }
        println!(
            "{:<width$}  {:>8.1}\n",
            "all",
            self.done.iter().map(|s| s.seconds).sum::<f64>()
        );
        println!("{total}");
        if total.failed == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

fn describe(counts: Counts) -> String {
    if counts == Counts::default() {
        "ok".to_string()
    } else {
        counts.to_string()
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or("")
}

/// Seconds on a clock that only this table reads.
#[allow(
    clippy::disallowed_methods,
    reason = "the table of steps shows real time; nothing depends on it"
)]
fn clock() -> f64 {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_secs_f64()
}
