//! libmemcached's load generator, with a check of the server's counters.

use super::server::Server;
use crate::command;
use crate::counts::Counts;
use crate::steps::StepResult;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

const CONCURRENCY: u64 = 8;
const GETS_EACH: u64 = 3000;
/// Number of keys stored first: as many as each thread gets.
const KEYS: u64 = GETS_EACH;

/// Several threads get stored keys: every get must be a hit, and the server must have counted exactly these.
pub fn run(server: &Server) -> StepResult {
    let before = stats(server.address())?;
    let mut slap = Command::new("timeout");
    slap.args(["60", "memcslap", "--test=get", "--tcp-nodelay"]);
    slap.arg(format!("--servers={}", server.address()));
    slap.arg(format!("--concurrency={CONCURRENCY}"));
    slap.arg(format!("--execute-number={GETS_EACH}"));
    command::run(&mut slap)?;
    let after = stats(server.address())?;
    let grown = |name: &str| count(&after, name) - count(&before, name);
    let gets = CONCURRENCY * GETS_EACH;
    for (name, want) in [
        ("cmd_get", gets),
        ("get_hits", gets),
        ("get_misses", 0),
        ("cmd_set", KEYS),
        ("total_items", KEYS),
        ("curr_items", KEYS),
        ("evictions", 0),
        ("rejected_connections", 0),
    ] {
        if grown(name) != want {
            return Err(format!("{name} grew by {} instead of {want}", grown(name)));
        }
    }
    Ok(Counts::ONE)
}

fn count(stats: &BTreeMap<String, u64>, name: &str) -> u64 {
    stats.get(name).copied().unwrap_or(0)
}

/// The numbers of `stats`.
fn stats(server: SocketAddr) -> Result<BTreeMap<String, u64>, String> {
    let failed = |e: std::io::Error| format!("stats of {server}: {e}");
    let mut stream = TcpStream::connect(server).map_err(failed)?;
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .map_err(failed)?;
    stream.write_all(b"stats\r\nquit\r\n").map_err(failed)?;
    let lines: Result<Vec<String>, _> = BufReader::new(stream).lines().collect();
    let lines = lines.map_err(failed)?;
    let number = |line: &String| {
        let mut words = line.strip_prefix("STAT ")?.split(' ');
        Some((words.next()?.to_string(), words.next()?.parse().ok()?))
    };
    Ok(lines.iter().filter_map(number).collect())
}
