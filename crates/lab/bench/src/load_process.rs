//! [`LoadProcess`]: clients in a separate process, one member of the measuring process's [`LoadThreads`].
//!
//! ```text
//! load_threads -- channel -- thread in here == standard input and output == child process: a load_threads of threads
//! ```
//! The child is this program again. Each line of its input is a JSON object: first the options of its clients, then one
//! command after the other; each is answered by a line of its output. The child ends when its input ends, and so with
//! this process.

use crate::driver::{Measured, Pace, Rates, RunOptions};
use crate::flight::Counts;
use crate::helper::die_with_parent;
use crate::latency::Latency;
use crate::load_threads::{LoadOptions, LoadThreads, System};
use crate::target::TargetError;
use drover_base::Ns;
use drover_kv::{Calls, Reads};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Lines, Write};
use std::ops::Range;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of pieces of a load, for the progress bar.
const LOAD_PIECES: u64 = 64;

#[derive(Serialize, Deserialize)]
enum Order {
    Load {
        indices: Range<u32>,
        window: usize,
    },
    Churn {
        key_count: u32,
        indices: Range<u32>,
        window: usize,
    },
    Run {
        client_count: usize,
        window: usize,
        rate: Option<f64>,
        time_ns: u64,
        ops_min: u64,
        other_tape: bool,
    },
}

#[derive(Serialize, Deserialize)]
enum Answer {
    /// Connected, or loaded.
    Done,
    Measured {
        counts: Counts,
        latency: Box<Latency>,
        elapsed_ns: u64,
        began: u64,
        rates: Rates,
        reads: Option<Reads>,
        calls: Option<Box<Calls>>,
        processor_ns: u64,
    },
    Failed {
        why: String,
    },
}

impl Order {
    fn run(options: &RunOptions, client_count: usize) -> Order {
        Order::Run {
            client_count,
            window: options.window,
            rate: match options.pace {
                Pace::Closed => None,
                Pace::Open(rate) => Some(rate),
            },
            time_ns: options.time.0,
            ops_min: options.ops_min,
            other_tape: options.other_tape,
        }
    }
}

/// Our end of a child process. Dropping it ends the child.
pub(crate) struct LoadProcess {
    child: Child,
    orders: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
}

impl LoadProcess {
    /// Starts `command` with clients as in `options`; they are connected when this returns. The calling thread must
    /// outlive it.
    pub(crate) fn start(
        mut command: Command,
        options: &LoadOptions,
    ) -> Result<LoadProcess, Box<TargetError>> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| words(&error))?;
        let answers = child.stdout.take().expect("its output is piped");
        let mut process = LoadProcess {
            orders: child.stdin.take(),
            answers: BufReader::new(answers).lines(),
            child,
        };
        process.ask(options)?;
        Ok(process)
    }

    /// As [`LoadThreads::load`].
    pub(crate) fn load(
        &mut self,
        all: Range<u32>,
        window: usize,
        progress: &AtomicU64,
    ) -> Result<(), Box<TargetError>> {
        let count = u64::from(all.end - all.start);
        let cut = |nth: u64| all.start + (count * nth / LOAD_PIECES) as u32;
        for nth in 0..LOAD_PIECES {
            let indices = cut(nth)..cut(nth + 1);
            let loaded = u64::from(indices.end - indices.start);
            self.ask(&Order::Load { indices, window })?;
            // Relaxed: a statistic.
            progress.fetch_add(loaded, Ordering::Relaxed);
        }
        Ok(())
    }

    /// As [`LoadThreads::churn`]. Each client must see the whole turnover at once, so it is not split into pieces.
    pub(crate) fn churn(
        &mut self,
        key_count: u32,
        indices: Range<u32>,
        window: usize,
        progress: &AtomicU64,
    ) -> Result<(), Box<TargetError>> {
        let replaced = u64::from(indices.end - indices.start);
        self.ask(&Order::Churn {
            key_count,
            indices,
            window,
        })?;
        // Relaxed: a statistic.
        progress.fetch_add(replaced, Ordering::Relaxed);
        Ok(())
    }

    /// As [`LoadThreads::run`].
    pub(crate) fn run(
        &mut self,
        client_count: usize,
        options: &RunOptions,
    ) -> Result<Measured, Box<TargetError>> {
        match self.ask(&Order::run(options, client_count))? {
            Answer::Measured {
                counts,
                latency,
                elapsed_ns,
                began,
                rates,
                reads,
                calls,
                processor_ns,
            } => Ok(Measured {
                counts,
                latency: *latency,
                elapsed: Ns(elapsed_ns),
                began,
                rates,
                reads,
                calls: calls.map(|calls| *calls),
                processor_time: Ns(processor_ns),
            }),
            _ => Err(TargetError::new("a client process gave another answer")),
        }
    }

    /// Sends a command to the child and waits for its answer.
    fn ask(&mut self, what: &impl Serialize) -> Result<Answer, Box<TargetError>> {
        let told = self.orders.as_mut().is_some_and(|orders| send(orders, what));
        let line = told.then(|| self.answers.next()).flatten();
        let Some(Ok(line)) = line else {
            let end = self.child.wait();
            let end = end.map_or_else(|error| error.to_string(), |status| status.to_string());
            return Err(TargetError::new(format!("a client process ended: {end}")));
        };
        match serde_json::from_str(&line) {
            Ok(Answer::Failed { why }) => Err(TargetError::new(why)),
            Ok(answer) => Ok(answer),
            Err(error) => Err(TargetError::new(format!(
                "a client process said '{line}': {error}"
            ))),
        }
    }
}

impl Drop for LoadProcess {
    fn drop(&mut self) {
        // Closing its input ends the child, which has nothing to save.
        drop(self.orders.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Main function of a child process started with the command of [`System::process`]: connects clients of `system` and
/// executes the parent's commands, one JSON object per line of standard input, until the input ends. Errors of the
/// clients go to the parent as answers; the exit code is a failure only if the first line is malformed.
pub fn client_process<S: System>(system: &S) -> ExitCode {
    die_with_parent();
    let mut lines = std::io::stdin().lines();
    let Some(Ok(first)) = lines.next() else {
        return ExitCode::SUCCESS;
    };
    let options: LoadOptions = match serde_json::from_str(&first) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("this command is started by bench itself ({error})");
            return ExitCode::FAILURE;
        }
    };
    std::thread::scope(|scope| {
        let load_threads = match LoadThreads::start(scope, system, &options) {
            Ok(load_threads) => load_threads,
            Err(error) => return answer_with(&failed(&error)),
        };
        answer_with(&Answer::Done);
        for line in lines.map_while(Result::ok) {
            let answer = obey(&load_threads, &line).unwrap_or_else(|error| failed(&error));
            answer_with(&answer);
        }
    });
    ExitCode::SUCCESS
}

fn obey(load_threads: &LoadThreads, line: &str) -> Result<Answer, Box<TargetError>> {
    match serde_json::from_str(line).map_err(|error| words(&error))? {
        Order::Load { indices, window } => {
            load_threads.load(indices, window, &Arc::default())?;
            Ok(Answer::Done)
        }
        Order::Churn {
            key_count,
            indices,
            window,
        } => {
            load_threads.churn(key_count, indices, window, &Arc::default())?;
            Ok(Answer::Done)
        }
        Order::Run {
            client_count,
            window,
            rate,
            time_ns,
            ops_min,
            other_tape,
        } => {
            let options = RunOptions {
                window,
                pace: rate.map_or(Pace::Closed, Pace::Open),
                time: Ns(time_ns),
                ops_min,
                other_tape,
            };
            let measured = load_threads.run(client_count, &options)?;
            Ok(Answer::Measured {
                counts: measured.counts,
                latency: Box::new(measured.latency),
                elapsed_ns: measured.elapsed.0,
                began: measured.began,
                rates: measured.rates,
                reads: measured.reads,
                calls: measured.calls.map(Box::new),
                processor_ns: measured.processor_time.0,
            })
        }
    }
}

fn failed(error: &TargetError) -> Answer {
    Answer::Failed {
        why: error.to_string(),
    }
}

/// Answers the parent; exits if the parent is gone.
fn answer_with(answer: &Answer) {
    send(&mut std::io::stdout(), answer);
}

fn send(to: &mut impl Write, what: &impl Serialize) -> bool {
    let line = serde_json::to_string(what).expect("our own types are JSON");
    writeln!(to, "{line}").and_then(|()| to.flush()).is_ok()
}

fn words(error: &dyn std::fmt::Display) -> Box<TargetError> {
    TargetError::new(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pipe transfers the measurements exactly.
    #[test]
    fn a_measurement_survives_the_pipe() {
        let mut latency = Latency::new();
        (0..100_000u64).for_each(|n| latency.record(n * n % 7_000_003 + 1));
        let counts = Counts {
            ops: 5,
            gets: 4,
            hits: 3,
            ..Counts::default()
        };
        let reads = Reads {
            probes: 7,
            ..Reads::default()
        };
        let calls = Calls {
            failed_reads: [3; 17],
            ..Calls::default()
        };
        let rates = Rates {
            clients: 3,
            sum: 0.1,
            least: 1e-7,
        };
        let sent = Answer::Measured {
            counts,
            latency: Box::new(latency.clone()),
            elapsed_ns: 9,
            began: u64::MAX - 1,
            rates,
            reads: Some(reads),
            calls: Some(Box::new(calls)),
            processor_ns: 17,
        };
        let line = serde_json::to_string(&sent).expect("JSON");
        let Ok(Answer::Measured {
            counts: got,
            latency: arrived,
            elapsed_ns: 9,
            began: 0xffff_ffff_ffff_fffe,
            rates: rated,
            reads: Some(read),
            calls: Some(called),
            processor_ns: 17,
        }) = serde_json::from_str(&line)
        else {
            panic!("{line}");
        };
        assert_eq!((read, *called, rated), (reads, calls, rates));
        assert_eq!((got, arrived.count()), (counts, latency.count()));
        assert_eq!(arrived.summary(), latency.summary());
        assert_eq!(arrived.to_hdr_text(), latency.to_hdr_text());
    }
}
