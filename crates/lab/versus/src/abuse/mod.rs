//! Abuse of a running server: whatever some clients do, the server's memory stays within bounds, other clients are
//! served, and no connection leaves resources behind.
//!
//! Each scenario is a line of [`SCENARIOS`]. Meanwhile a [`Witness`] sends requests and checks the answers; the abuser
//! waits for it repeatedly, so that progress is measured in rounds, not in time. All scenarios end with the same
//! checks: see [`Watched::settle`].

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

/// Time without an answer after which a client counts as not served.
static PATIENCE: OnceLock<Duration> = OnceLock::new();

/// Sets the time limit of all checks in this module: a client without an answer for this long counts as not served. The
/// default is 60 s. Only the first call has an effect, and only if nothing else of this module was called before.
pub fn set_patience(patience: Duration) {
    let _ = PATIENCE.set(patience);
}

fn patience() -> Duration {
    *PATIENCE.get_or_init(|| Duration::from_secs(60))
}

/// Options for running a scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Seed of sizes, orders and bytes.
    pub seed: u64,
    /// Whether to run the scenario with smaller numbers, for CI.
    pub short: bool,
    /// Mistake to plant on purpose, which must make the scenario fail; `None` to plant none.
    pub canary: Option<Canary>,
}

impl Options {
    /// `full`, or `short` in a short run.
    fn amount(&self, full: u64, short: u64) -> u64 {
        if self.short { short } else { full }
    }
}

/// Mistake planted on purpose in a scenario, to prove that its checks would notice such a mistake of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Canary {
    /// We leave a connection open during the final check, which must notice the server's descriptor for it.
    Leak,
    /// We stop the server process (SIGSTOP) before the abuse begins and never continue it.
    Stop,
}

/// Result of a scenario: a summary for people, or a description of the check or system call that failed.
pub type Said = Result<String, String>;

/// A way in which clients misuse a server, and the checks that go with it.
pub struct Scenario {
    /// Name on the command line.
    pub name: &'static str,
    /// Description of the misuse, for people.
    pub what: &'static str,
    run: fn(&Watched, &mut Witness, &Options) -> Said,
}

/// All scenarios.
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
        what: "1 GiB of pipelined garbage, random bytes and well-formed",
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

/// Runs the scenario `name` against the server `watched`, which must have no other clients. Checks that the server's
/// memory stays within its bounds, that it serves a well-behaved client meanwhile, and that it has closed all
/// connections in the end. Returns a summary.
///
/// # Errors
/// Text about the check that failed, or if there is no such scenario.
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

/// Rounds of the witness before the abuse starts.
const WARM_ROUNDS: u64 = 20;

/// Returns a function that puts `what` before the text of a system error.
fn failed(what: &str) -> impl Fn(io::Error) -> String {
    move |error| format!("{what}: {error}")
}

/// Writes as many bytes as the socket takes and returns their number. `None`: the server closed the connection.
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

/// Reads and discards all available input and returns its length. `None`: the server closed the connection.
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

/// Sleeps briefly.
#[allow(
    clippy::disallowed_methods,
    reason = "another process is waited for; nothing depends on how long"
)]
fn pause() {
    std::thread::sleep(Duration::from_millis(2));
}

/// Retries until success.
///
/// # Errors
/// `what` did not become true within the time limit.
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
