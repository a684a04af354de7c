//! `drover perf`: latency and rate of single verbs, measured as by perftest, on every fabric.

mod args;
mod cluster;
mod doorbells;
mod ends;
mod plan_args;

pub use args::Args;

use crate::exit::{self, Failure};
use args::Endpoints;
use drover_perf::{PerfError, Plan, Row, head};
use serde_json::json;
use std::io::Write;
use std::process::ExitCode;

/// Measures single verbs, or serves a client that does.
pub fn run(args: &Args) -> ExitCode {
    exit::from_result(perf(args))
}

fn perf(args: &Args) -> Result<(), Failure> {
    if let Some(threads) = args.doorbells {
        return doorbells::compare(args, threads.into());
    }
    match args.place()? {
        Endpoints::Threads => ends::threads(args),
        Endpoints::Cluster(profile) => cluster::measure(args, &profile),
        Endpoints::Client(addr) => ends::client(args, &addr),
        Endpoints::Server(addr) => ends::server(args, &addr),
    }
}

/// Prints result rows as they arrive, as text or JSON.
struct Output {
    fabric: String,
    plan: Plan,
    json: bool,
    rows: Vec<Row>,
}

impl Output {
    /// Prints the header.
    fn new(args: &Args, plan: &Plan, fabric: String, mtu_bytes: usize) -> Output {
        if !args.json {
            print!("{}", head(plan, &fabric, mtu_bytes));
        }
        Output {
            fabric,
            plan: plan.clone(),
            json: args.json,
            rows: Vec::new(),
        }
    }

    fn row(&mut self, row: &Row) {
        if !self.json {
            println!("{row}");
            // Show each line at once, also in a pipe.
            let _ = std::io::stdout().flush();
        }
        self.rows.push(*row);
    }

    fn finish(self) {
        if self.json {
            let settings: serde_json::Map<String, serde_json::Value> = self
                .plan
                .shown()
                .into_iter()
                .map(|(name, value)| (name.trim_start_matches('-').to_string(), value.into()))
                .collect();
            let whole = json!({ "fabric": self.fabric, "settings": settings, "rows": self.rows });
            println!("{whole:#}");
        }
    }
}

fn failure(error: PerfError) -> Failure {
    let code = match error {
        PerfError::Plan(_) => exit::USAGE,
        _ => exit::UNAVAILABLE,
    };
    Failure::new(code, error)
}
