//! Campaigns of signals against real processes over shared memory: the binary as the server, clients under load,
//! and in every round a signal that stops some of them. [`kill`] ends processes, [`pause`] stops them for a while, [`hostile`] has one of them do harm, [`kill_pool`] does
//! both to the compute processes of a pool.
//!
//! `DROVER_SEED` repeats the choices of a campaign, but not how the processes interleave. A test that fails prints the
//! command that repeats it.

mod attacker;
mod bed;
mod client;
mod footprint;
mod hoard;
mod holes;
mod hostile;
mod journal;
mod kill;
mod kill_pool;
mod pause;
mod processes;
mod proxy;

/// The number in an environment variable.
pub fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|e| panic!("{name}={text}: {e}")))
}

/// Prints the command that repeats a campaign, at its start and once more when it fails.
struct Repeat(String);

impl Repeat {
    fn new(variables: &str, module: &str, test: &str) -> Repeat {
        let command = format!(
            "{variables} cargo test --release -p drover --test it -- --exact campaigns::{module}::{test} --nocapture"
        );
        println!("{command}");
        Repeat(command)
    }
}

impl Drop for Repeat {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("to repeat it: {}", self.0);
        }
    }
}

/// Not a test: what the client processes of the others run.
#[test]
fn client_process() {
    if let Ok(role) = std::env::var(processes::ROLE) {
        client::run(&role);
    }
}

/// Not a test: what attackers run.
#[test]
fn attacker_process() {
    if let Ok(attack) = std::env::var(attacker::ATTACK) {
        attacker::run(&attack);
    }
}
