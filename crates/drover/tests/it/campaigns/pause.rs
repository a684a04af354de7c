//! SIGSTOP for 0.1 to 10 s at seeded random moments under load, then SIGCONT: of the server with all its workers,
//! of a client, or of both at overlapping times.
//!
//! Every client is served again within the time that `docs/operations.md` promises ("When a process stands
//! still"): an operation called after the last SIGCONT, then a GET of every key, so that all workers have
//! answered. What all clients did is linearizable; of operations that ended `Indeterminate` nobody knows whether
//! they happened, and operations that were refused did not happen. No process holds more than before.
//!
//! `DROVER_ROUNDS` is the number of rounds (`cargo xtask pause`: 100).

use crate::campaigns::bed::{Bed, HERD, Setting, record, wait};
use crate::campaigns::client::CLIENT_COUNT;
use crate::campaigns::journal::{Command, in_future, now, since};
use crate::campaigns::{Repeat, number};
use drover_kv_herd::client::RECONNECT_MAX;
use drover_testkit::history::History;
use drover_testkit::linear::Model;
use std::time::Duration;

/// Rounds in an ordinary `cargo test`.
const ROUNDS: u64 = 10;
/// Shortest pause, ms.
const PAUSE_MIN_MS: f64 = 100.0;
/// Longest pause, ms: in a campaign, and in an ordinary `cargo test`, which has to be short.
const PAUSE_MAX_MS: f64 = 10_000.0;
const PAUSE_MAX_SHORT_MS: f64 = 1_000.0;
/// The server's pause in the first round, longer than all that its clients wait for: the last retransmission
/// (6.3 s at most), the deadline of an operation (5 s), a silent control channel (4 s).
const SERVER_FIRST: Duration = Duration::from_millis(6_500);
/// A client's pause in the second round: longer than the server waits on a silent control channel.
const CLIENT_FIRST: Duration = Duration::from_millis(4_500);

/// What `docs/operations.md` promises.
const BOUND: Duration = Duration::from_nanos(RECONNECT_MAX.0);
/// The promise counts time in which the processes get to run. On a machine that compiles at the same time, they
/// wait for a core, and so does this one before it sees the answer.
const SLACK: Duration = Duration::from_secs(10);

const SLOTS: Setting = Setting {
    name: "pause-slots",
    system: HERD,
    serve: &["-t", "2"],
    datagram_places: &[],
    guarded: false,
    // What clients have unless told otherwise: with the longest pauses operations reach it.
    deadline_ms: 5_000,
    rest_ms: 10,
};

#[test]
fn the_documentation_names_the_bound() {
    let text = include_str!("../../../../../docs/operations.md");
    let bound = format!("**{:.1} s**", BOUND.as_secs_f64());
    assert!(text.contains(&bound), "docs/operations.md does not say {bound}");
}

#[test]
fn clients_are_served_again_with_slots() {
    campaign("clients_are_served_again_with_slots", SLOTS);
}

#[test]
fn clients_are_served_again_with_datagrams() {
    let setting = Setting {
        name: "pause-datagrams",
        serve: &["-t", "2", "--slot-clients", "0"],
        ..SLOTS
    };
    campaign("clients_are_served_again_with_datagrams", setting);
}

/// One client of three sends datagrams, the others have slots.
#[test]
fn clients_are_served_again_when_slots_and_datagrams_mix() {
    let setting = Setting {
        name: "pause-mixed",
        serve: &["-t", "2", "--slot-clients", "64"],
        datagram_places: &[1],
        ..SLOTS
    };
    campaign("clients_are_served_again_when_slots_and_datagrams_mix", setting);
}

fn campaign(test: &str, setting: Setting) {
    let seed = number("DROVER_SEED").unwrap_or_else(now);
    let asked = number("DROVER_ROUNDS");
    let (rounds, max_ms) = match asked {
        Some(rounds) => (rounds, PAUSE_MAX_MS),
        None => (ROUNDS, PAUSE_MAX_SHORT_MS),
    };
    let variables = match asked {
        Some(rounds) => format!("DROVER_SEED={seed} DROVER_ROUNDS={rounds}"),
        None => format!("DROVER_SEED={seed}"),
    };
    let _repeat = Repeat::new(&variables, "pause", test);
    let mut campaign = Campaign {
        bed: Bed::start(seed, setting),
    };
    campaign.round(&[]).expect("nothing stood still");
    for round in 1..=rounds {
        let pauses = campaign.draw(round, max_ms);
        println!("round {round} of {rounds}: {pauses:?}");
        let history = campaign
            .round(&pauses)
            .unwrap_or_else(|why| panic!("seed {seed}, round {round} ({pauses:?}): {why}"));
        if let Err(why) = history.check(Model::Register) {
            panic!("seed {seed}, round {round} ({pauses:?}): {why}");
        }
    }
    campaign.bed.finish();
}

/// A client that is never continued does not answer in time, and the campaign says so.
#[test]
fn a_client_that_never_goes_on_is_noticed() {
    let setting = Setting {
        name: "pause-canary",
        ..SLOTS
    };
    let mut campaign = Campaign {
        bed: Bed::start(7, setting),
    };
    campaign.bed.begin_round();
    campaign.bed.clients[0].pause();
    let short = Duration::from_secs(2);
    let why = campaign
        .wait_until_served(in_future(short), now())
        .expect_err("it stands still");
    let name = format!("client {} hangs", campaign.bed.clients[0].id);
    assert!(why.starts_with(&name), "{why}");
    campaign.bed.clients[0].resume();
    let history = campaign.end_round(in_future(BOUND + SLACK), now());
    let history = history.expect("it goes on");
    history.check(Model::Register).expect("it was only late");
    campaign.bed.finish();
}

/// A process that stands still.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Victim {
    Server,
    /// The client at this place.
    Client(usize),
}

/// When a process stands still, counted from the first SIGSTOP of a round.
#[derive(Clone, Copy, Debug)]
struct Pause {
    victim: Victim,
    from: Duration,
    to: Duration,
}

impl Pause {
    fn new(victim: Victim, from: Duration, time: Duration) -> Pause {
        let to = from + time;
        Pause { victim, from, to }
    }
}

/// Rounds of load in which processes stand still for a while.
struct Campaign {
    bed: Bed,
}

impl Campaign {
    /// The pauses of a round: long ones in the first two, then what the seed chooses, the server, a client or both
    /// equally often.
    fn draw(&mut self, round: u64, max_ms: f64) -> Vec<Pause> {
        let client = Victim::Client(self.bed.rng.below(CLIENT_COUNT.into()) as usize);
        let time = self.draw_time(max_ms);
        let start = Duration::ZERO;
        match (round, self.bed.rng.below(3)) {
            (1, _) => vec![Pause::new(Victim::Server, start, SERVER_FIRST)],
            (2, _) => vec![Pause::new(client, start, CLIENT_FIRST)],
            (_, 0) => vec![Pause::new(Victim::Server, start, time)],
            (_, 1) => vec![Pause::new(client, start, time)],
            (_, _) => {
                let (first, second) = match self.bed.rng.chance(0.5) {
                    true => (Victim::Server, client),
                    false => (client, Victim::Server),
                };
                let from = time.mul_f64(self.bed.rng.unit());
                let second_time = self.draw_time(max_ms);
                vec![
                    Pause::new(first, start, time),
                    Pause::new(second, from, second_time),
                ]
            }
        }
    }

    /// Short ones as likely as long ones.
    fn draw_time(&mut self, max_ms: f64) -> Duration {
        let factor = (max_ms / PAUSE_MIN_MS).powf(self.bed.rng.unit());
        Duration::from_secs_f64(PAUSE_MIN_MS / 1000.0 * factor)
    }

    /// Load, pauses in its midst, load again, an audit; returns what happened to every key.
    ///
    /// # Errors
    /// A client is not served in time.
    fn round(&mut self, pauses: &[Pause]) -> Result<History, String> {
        self.bed.begin_round();
        self.bed.nap();
        self.stand_still(pauses);
        let resumed_at = now();
        let deadline = in_future(BOUND + SLACK);
        self.wait_until_served(deadline, resumed_at)?;
        let served = since(resumed_at);
        self.bed.nap();
        let history = self.end_round(deadline, resumed_at)?;
        println!(
            "served after {served:.3?}, by all workers after {:.3?}",
            since(resumed_at)
        );
        self.bed.check_evictions();
        self.bed.check_leaks();
        Ok(history)
    }

    /// Sends the signals of `pauses`.
    fn stand_still(&self, pauses: &[Pause]) {
        let ends = |pause: &Pause| [(pause.from, pause.victim, true), (pause.to, pause.victim, false)];
        let mut signals: Vec<_> = pauses.iter().flat_map(ends).collect();
        signals.sort_by_key(|(time, _, _)| *time);
        let start = now();
        for (time, victim, stop) in signals {
            wait(time.saturating_sub(since(start)));
            let server = self.bed.server.as_ref().expect("it runs");
            match (victim, stop) {
                (Victim::Server, true) => server.pause(),
                (Victim::Server, false) => server.resume(),
                (Victim::Client(place), true) => self.bed.clients[place].pause(),
                (Victim::Client(place), false) => self.bed.clients[place].resume(),
            }
        }
    }

    /// Waits until a server has executed an operation of each client that was called after `resumed_at`.
    ///
    /// # Errors
    /// It had not by `deadline`.
    fn wait_until_served(&self, deadline: u64, resumed_at: u64) -> Result<(), String> {
        self.bed.clients.iter().try_for_each(|client| {
            client.wait_until(deadline, "an operation after the pause", |known| {
                known.served_call_at > resumed_at
            })
        })
    }

    /// Ends the load and waits until each client has read every key.
    ///
    /// # Errors
    /// One had not by `deadline`.
    fn end_round(&mut self, deadline: u64, resumed_at: u64) -> Result<History, String> {
        self.wait_until_served(deadline, resumed_at)?;
        for client in &mut self.bed.clients {
            client.tell(Command::Stop);
        }
        let round = u64::from(self.bed.round);
        let mut history = History::default();
        for client in &self.bed.clients {
            client.wait_until(deadline, "the audit", |known| known.audited == round)?;
            record(&mut history, client.id, client.take_ops());
        }
        Ok(history)
    }
}
