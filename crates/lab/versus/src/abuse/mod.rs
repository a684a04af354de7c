//! Abuse of a running server: whatever its clients do, its memory stays within bounds, others are served, and no
//! connection leaves anything behind.
//!
//! Each scenario is a line of [`SCENARIOS`]. While it goes on, a [`Witness`] asks and is answered; the abuser waits for
//! it again and again, so that being served is told by count and not by time. What must be true afterwards is the same
//! for all: see [`Watched::settle`].

mod flood;
mod garbage;
mod idle;
mod kill;
mod readers;
mod slow;
mod watched;
mod witness;

pub use kill::kill_me;
pub use watched::{Bounds, Watched};
pub use witness::Witness;

use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::sync::OnceLock;
use std::time::Duration;

/// Whoever is not answered for so long is not served.
static PATIENCE: OnceLock<Duration> = OnceLock::new();

/// Sets it, before anything else is called.
pub fn set_patience(patience: Duration) {
    let _ = PATIENCE.set(patience);
}

fn patience() -> Duration {
    *PATIENCE.get_or_init(|| Duration::from_secs(60))
}

/// How much abuse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// What sizes, orders and bytes are drawn from.
    pub seed: u64,
    /// A small part of everything, for CI.
    pub short: bool,
    /// A mistake to make on purpose, which the checks must notice.
    pub canary: Option<Canary>,
}

impl Options {
    /// `full`, or a share of it if the run is a short one.
    fn amount(&self, full: u64, short: u64) -> u64 {
        if self.short { short } else { full }
    }
}

/// Mistakes on purpose. That limits are kept is proven by servers whose limits are others: `cargo xtask abuse` knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Canary {
    /// A connection is kept open over the end.
    Leak,
    /// The server is stopped for good in the midst of it.
    Stop,
}

/// What a scenario says when all went well.
pub type Said = Result<String, String>;

/// One kind of abuse.
pub struct Scenario {
    /// For the command line.
    pub name: &'static str,
    /// What is done to the server.
    pub what: &'static str,
    run: fn(&Watched, &mut Witness, &Options) -> Said,
}

/// All of them.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "idle",
        what: "10,000 connections that say nothing, and load on others",
        run: idle::run,
    },
    Scenario {
        name: "slow",
        what: "requests that come a byte at a time, and values of which only a part ever comes",
        run: slow::run,
    },
    Scenario {
        name: "garbage",
        what: "1 GiB of pipelined nonsense, random bytes and well-formed",
        run: garbage::run,
    },
    Scenario {
        name: "flood",
        what: "values of every size in random order, ten times the memory",
        run: flood::run,
    },
    Scenario {
        name: "readers",
        what: "huge multigets by clients that never read",
        run: readers::run,
    },
    Scenario {
        name: "kill",
        what: "clients killed in the middle of anything",
        run: kill::run,
    },
];

/// Runs the scenario `name` against `watched`. Errors: what did not hold.
pub fn run(name: &str, watched: &Watched, options: &Options) -> Said {
    let scenario = SCENARIOS
        .iter()
        .find(|scenario| scenario.name == name)
        .ok_or_else(|| format!("no scenario is called {name}"))?;
    watched.settle("before")?;
    let mut witness = Witness::start(watched)?;
    witness.progress(WARM_ROUNDS)?;
    let leak = (options.canary == Some(Canary::Leak)).then(|| watched.connect());
    if options.canary == Some(Canary::Stop) {
        watched.stop()?;
    }
    let said = (scenario.run)(watched, &mut witness, options)?;
    let rounds = witness.finish()?;
    watched.settle("after")?;
    drop(leak);
    Ok(format!(
        "{said}; others asked {rounds} times and were answered; {}",
        watched.seen()
    ))
}

/// Rounds of the witness before the abuse begins.
const WARM_ROUNDS: u64 = 20;

/// A system error as a sentence.
fn failed(what: &str) -> impl Fn(io::Error) -> String {
    move |error| format!("{what}: {error}")
}

/// Writes what the socket takes now. `None`: the server hung up.
fn offer(stream: &mut TcpStream, bytes: &[u8]) -> Option<usize> {
    loop {
        match io::Write::write(stream, bytes) {
            Ok(count) => return Some(count),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Some(0),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

/// Reads and forgets what has arrived, all of it. `None`: the server hung up.
fn discard(stream: &mut TcpStream, buffer: &mut [u8]) -> Option<usize> {
    let mut all = 0;
    loop {
        match io::Read::read(stream, buffer) {
            Ok(0) => return None,
            Ok(count) => all += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Some(all),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

/// Lets others run for a moment.
#[allow(
    clippy::disallowed_methods,
    reason = "another process is waited for; nothing depends on how long"
)]
fn pause() {
    std::thread::sleep(Duration::from_millis(2));
}

/// Tries again and again. Errors: `what` did not come true for as long as anybody waits.
#[allow(
    clippy::disallowed_methods,
    reason = "an upper bound for waiting for another process"
)]
fn until(what: &str, mut is_true: impl FnMut() -> Result<bool, String>) -> Result<(), String> {
    let start = std::time::Instant::now();
    while !is_true()? {
        if start.elapsed() > patience() {
            return Err(format!("{what}: not within {} s", patience().as_secs()));
        }
        pause();
    }
    Ok(())
}
