//! Runs named steps, times them, and ends with a table and one closing line.

use crate::counts::Counts;
use crate::failures;
use std::fmt;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

/// Result of a step: the number of tests that it ran, if any.
pub type StepResult = Result<Counts, String>;

/// The steps of one run, in order.
pub struct Steps {
    done: Vec<Step>,
    began: f64,
    /// Whether the table at the end goes to standard error.
    leaves_stdout: bool,
}

/// A step that may run in parallel with others.
pub type Work<'a> = (String, Box<dyn FnOnce() -> StepResult + Send + 'a>);

/// The next item of a queue, which is not locked while the item is processed.
fn take<T>(queue: &Mutex<impl Iterator<Item = T>>) -> Option<T> {
    queue.lock().unwrap_or_else(PoisonError::into_inner).next()
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
        Steps {
            done: Vec::new(),
            began: clock(),
            leaves_stdout: false,
        }
    }

    /// Leaves standard output to a chore whose results are data: the table goes to standard error.
    pub fn leave_stdout(&mut self) {
        self.leaves_stdout = true;
    }

    /// Runs `work` as the step `name`. A failure is kept for the table and later steps still run, so that one run shows
    /// all failures. Returns whether the step passed.
    pub fn run(&mut self, name: &str, work: impl FnOnce() -> StepResult) -> bool {
        self.run_with_time(name, || (work(), None))
    }

    /// As [`run`](Steps::run), of `work` that may have begun before, beside other steps: it also returns the seconds that it
    /// took, if it knows them.
    pub fn run_with_time(&mut self, name: &str, work: impl FnOnce() -> (StepResult, Option<f64>)) -> bool {
        eprintln!("\n==> {name}");
        let start = clock();
        let (result, seconds) = work();
        let seconds = seconds.unwrap_or_else(|| clock() - start);
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

    /// Runs single-core steps, as many at a time as there are cores. The table lists them in their order, each with its
    /// own time.
    pub fn run_on_all_cores(&mut self, works: Vec<Work<'_>>) {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let queue = Mutex::new(works.into_iter().enumerate());
        let done = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..cores {
                scope.spawn(|| {
                    while let Some((at, (name, work))) = take(&queue) {
                        let mut alone = Steps::new();
                        alone.run(&name, work);
                        done.lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .push((at, alone.done));
                    }
                });
            }
        });
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_by_key(|(at, _)| *at);
        self.done.extend(done.into_iter().flat_map(|(_, steps)| steps));
    }

    /// Runs the steps of `main` while `idle`, which mostly waits, runs steps of its own. Those come last in the table.
    pub fn run_beside(&mut self, idle: impl FnOnce(&mut Steps) + Send, main: impl FnOnce(&mut Steps)) {
        let mut beside = Steps::new();
        std::thread::scope(|scope| {
            scope.spawn(|| idle(&mut beside));
            main(self);
        });
        self.done.append(&mut beside.done);
    }

    /// Runs works one after the other, each as a step.
    pub fn run_in_turn(&mut self, works: Vec<Work<'_>>) {
        for (name, work) in works {
            self.run(&name, work);
        }
    }

    /// Runs several works in parallel as one step: builds in separate folders, whose last crates use only one core. All
    /// of them run to their end; the step fails with the first that failed.
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

    /// Prints the table of steps and, alone on the last line, the sum of all test runners. A failed step without tests
    /// counts as one failure, so that the line never looks better than the run. The failures stand just before it.
    pub fn finish(self) -> ExitCode {
        let mut total = Counts::default();
        let width = self.done.iter().map(|s| s.name.len()).max().unwrap_or(0).max(4);
        self.print(format_args!("\n{:<width$}  {:>8}  result", "step", "seconds"));
        for step in &self.done {
            total.add(step.counts);
            let result = step.failure.clone().unwrap_or_else(|| describe(step.counts));
            self.print(format_args!(
                "{:<width$}  {:>8.1}  {}",
                step.name,
                step.seconds,
                first_line(&result)
            ));
        }
        self.print(format_args!("{:<width$}  {:>8.1}\n", "all", clock() - self.began));
        self.repeat_failures();
        self.print(format_args!("{total}"));
        if total.failed == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }

    /// Names the failed steps once more, with what they said and the tests that failed.
    fn repeat_failures(&self) {
        let failed = self
            .done
            .iter()
            .filter_map(|step| Some((&step.name, step.failure.as_ref()?)));
        for (name, why) in failed {
            let mut lines = why.lines();
            self.print(format_args!("failed: {name}: {}", lines.next().unwrap_or("")));
            for line in lines {
                self.print(format_args!("  {line}"));
            }
        }
        for line in failures::take() {
            self.print(format_args!("  {line}"));
        }
    }

    fn print(&self, line: fmt::Arguments<'_>) {
        match self.leaves_stdout {
            true => eprintln!("{line}"),
            false => println!("{line}"),
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
