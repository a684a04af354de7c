//! `drover top`: a server's activity, from its admin port.

mod scrape;
mod view;

pub use scrape::{Reading, read};

use crate::auth::CredentialArgs;
use crate::cluster::{self, OptionalServiceArgs};
use crate::exit::{self, Failure};
use drover_base::{Cpu, Ns};
use drover_kv::{Facts, SystemTable};
use drover_mem::NativeCpu;
use rustix::event::Timespec;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// Arguments of `top`.
#[derive(clap::Args)]
pub struct Args {
    /// The server's admin port (`serve --metrics-listen`)
    #[arg(value_name = "IP:PORT", default_value = "127.0.0.1:9150")]
    addr: String,
    /// Seconds between two readings
    #[arg(short = 'i', long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=3600))]
    interval: u32,
    /// Print tables one below the other, without colours or cursor movements; also when the output is not a terminal
    #[arg(short = 'b', long)]
    batch: bool,
    /// Stop after this many tables
    #[arg(short = 'n', long, value_name = "COUNT")]
    count: Option<u32>,
    /// Print one table of averages since the server started
    #[arg(long, conflicts_with = "count")]
    once: bool,
    #[command(flatten)]
    service: OptionalServiceArgs,
    #[command(flatten)]
    auth: CredentialArgs,
}

/// Shows one table (`--once`), `--count` tables, or tables until stopped or the output closes. The first, and the first
/// after a restart of the server, has averages since the server started, the others since the previous table. Exit
/// status 69: the metrics cannot be read, or not all workers answer.
pub fn run<T: SystemTable>(args: &Args) -> ExitCode {
    exit::from_result(match args.service.open() {
        Ok(None) => show::<T>(args),
        Ok(Some(service)) => show_service(service, args),
        Err(failure) => Err(failure),
    })
}

/// Shows the members of a service, as `drover cluster status` does, again and again.
fn show_service(mut service: cluster::Service, args: &Args) -> Result<(), Failure> {
    let credentials = args.auth.read()?;
    let mut shown = 0;
    while args.count().is_none_or(|count| shown < count) {
        if shown > 0 {
            pause(args.interval);
        }
        let table = cluster::table(&mut service, credentials.as_deref())?;
        if !print(&table, args.is_live()) {
            return Ok(());
        }
        shown += 1;
    }
    Ok(())
}

impl Args {
    /// Number of tables; `None`: until stopped.
    fn count(&self) -> Option<u32> {
        if self.once { Some(1) } else { self.count }
    }

    fn is_live(&self) -> bool {
        !self.batch && !self.once && std::io::stdout().is_terminal()
    }
}

fn show<T: SystemTable>(args: &Args) -> Result<(), Failure> {
    let unavailable = |why: String| Failure::new(exit::UNAVAILABLE, format!("{}: {why}", args.addr));
    let (live, count) = (args.is_live(), args.count());
    let cpu = NativeCpu::new(0);
    let credentials = args.auth.read()?;
    let mut before: Option<(Reading, Ns)> = None;
    let mut shown = 0;
    while count.is_none_or(|count| shown < count) {
        if shown > 0 {
            pause(args.interval);
        }
        let reading = scrape::read(&args.addr, credentials.as_deref()).map_err(unavailable)?;
        let now = cpu.refresh();
        let facts = facts_of::<T>(&reading).map_err(unavailable)?;
        let table = match &before {
            Some((old, then)) if old.uptime_s() <= reading.uptime_s() => {
                let seconds = now.since(*then).to_duration().as_secs_f64();
                view::table(&reading, Some(old), seconds, &args.addr, facts)
            }
            // The server has been restarted since.
            _ => view::table(&reading, None, reading.uptime_s(), &args.addr, facts),
        };
        if !print(&table, live) {
            return Ok(());
        }
        before = Some((reading, now));
        shown += 1;
    }
    Ok(())
}

/// What the server's system counts. `None`: the server names no system; then it has workers, whose metrics have names
/// of their own.
fn facts_of<T: SystemTable>(reading: &Reading) -> Result<Option<&'static Facts>, String> {
    match reading.values("drover_system", "system")[..] {
        [] => Ok(None),
        [name, ..] => match T::named(name) {
            Some(system) => Ok(Some(system.facts())),
            None => Err(format!(
                "the server's system is {name}, which this program does not know"
            )),
        },
    }
}

/// Prints a table; returns `false` when the output is closed.
fn print(table: &str, live: bool) -> bool {
    let mut out = std::io::stdout().lock();
    // Cursor to the top; clear each line and the rest: no flicker.
    let written = match live {
        true => write!(out, "\x1b[H{}\x1b[J", table.replace('\n', "\x1b[K\n")),
        false => writeln!(out, "{table}"),
    };
    written.and_then(|()| out.flush()).is_ok()
}

fn pause(seconds: u32) {
    let time = Timespec {
        tv_sec: seconds.into(),
        tv_nsec: 0,
    };
    let _ = rustix::event::poll(&mut [], Some(&time)); // an early wake-up shows a shorter interval
}
