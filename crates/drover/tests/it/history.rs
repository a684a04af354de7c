//! Both kinds of clients at once, on the same keys of one real server: memcached's over TCP and Unix sockets, in classic
//! and in meta commands, pipelined, on several cores; native ones over shared memory. What all of them did and were told
//! is written down, and must be explainable key by key as if it had happened one operation at a time.
//!
//! `DROVER_ROUNDS` says how many rounds (`cargo xtask history`: 300), `DROVER_SEED` repeats a run's choices; how they
//! meet is up to the machine. `crates/service/memcached/tests/it/history.rs` is the same in one thread, where a seed repeats all.

mod native;
mod plan;
mod text;

use crate::common::{Serving, folder};
use drover_base::Ns;
use drover_testkit::history::{Call, Event, History, Swapped};
use drover_testkit::linear::{Model, Strict};
use native::Native;
use plan::{Client, Voice, now};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use text::{Dialect, Text};

/// Rounds in an ordinary `cargo test`.
const ROUNDS: u64 = 40;
/// Rounds that all clients have begun when a signal comes, and those that are looked at afterwards.
const ROUNDS_BEFORE_STOP: u64 = 4;
/// Batches that each client asks for in a round.
const BATCHES: u64 = 25;
/// Of each kind: so many that all cores serve some of them.
const CLIENTS: u64 = 7;
/// How long native clients look for a server that has gone.
const DEADLINE: Ns = Ns::from_ms(200);

const STRICT: Strict = Strict {
    unknown_until: u64::MAX,
    configurations_max: 1 << 21,
};

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|e| panic!("{name}={text}: {e}")))
}

/// A server of two cores with all its doors open.
struct Bed {
    serving: Serving,
    port: u16,
    unix: PathBuf,
}

impl Bed {
    fn start(folder: &Path, args: &[&str]) -> Bed {
        let unix = folder.join("mc.sock");
        let addr = format!("shm:{}", folder.join("s.sock").display());
        let path = unix.to_str().expect("UTF-8");
        let own = ["-p", "-1", "-l", "127.0.0.1", "-s", path, "-t", "2", "-m", "64"];
        let serving = Serving::start_at(&addr, &[&own, args].concat());
        Bed {
            port: serving.memcached_port(),
            unix,
            serving,
        }
    }

    fn voice(&self, number: u64) -> Box<dyn FnOnce() -> Box<dyn Voice> + Send> {
        let (port, unix, addr) = (self.port, self.unix.clone(), self.serving.addr.clone());
        Box::new(move || match number {
            0 | 1 => Box::new(Text::tcp(port, Dialect::Classic)),
            2 => Box::new(Text::tcp(port, Dialect::Meta)),
            3 => Box::new(Text::unix(&unix, Dialect::Classic)),
            4 => Box::new(Text::unix(&unix, Dialect::Meta)),
            _ => Box::new(Native::connect(&addr, DEADLINE)),
        })
    }

    /// Every client in a thread of its own; each does its rounds, all of them a round at a time, until the server is
    /// gone.
    fn load(&self, seed: u64, rounds: u64) -> Load {
        let meeting = Arc::new(Meeting::default());
        let thread = |number| {
            let (voice, meeting) = (self.voice(number), meeting.clone());
            std::thread::spawn(move || {
                let _whatever_happens = Leaves(&meeting);
                let mut voice = voice();
                let mut client = Client::new(&mut *voice, number as u32 + 1, seed);
                let mut history = History::default();
                for round in 0..rounds {
                    meeting.wait_for(round);
                    let goes_on = (0..BATCHES).all(|_| client.batch(round, &mut history));
                    if !goes_on {
                        return history;
                    }
                }
                meeting.finished.fetch_add(1, Ordering::SeqCst);
                history
            })
        };
        Load {
            threads: (0..CLIENTS).map(thread).collect(),
            meeting,
        }
    }
}

/// Where clients wait for each other.
#[derive(Default)]
struct Meeting {
    /// Rounds begun, of all clients.
    begun: AtomicU64,
    /// Clients that did all rounds.
    finished: AtomicU64,
    /// Somebody left early: nobody waits any more.
    left: AtomicBool,
}

impl Meeting {
    fn wait_for(&self, round: u64) {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let all_here = || self.begun.load(Ordering::SeqCst) >= (round + 1) * CLIENTS;
        while !all_here() && !self.left.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
    }
}

struct Leaves<'a>(&'a Meeting);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.left.store(true, Ordering::SeqCst);
    }
}

/// Clients at work.
struct Load {
    threads: Vec<std::thread::JoinHandle<History>>,
    meeting: Arc<Meeting>,
}

impl Load {
    /// Waits until all have begun so many rounds, or somebody gave up. A number that none of the rounds begun reaches.
    fn wait_for_rounds(&self, rounds: u64) -> u64 {
        while self.meeting.begun.load(Ordering::SeqCst) < rounds * CLIENTS
            && !self.meeting.left.load(Ordering::SeqCst)
        {
            std::thread::yield_now();
        }
        rounds + 64
    }

    /// What they did, and whether all of them did all they wanted.
    fn finish(self) -> (History, bool) {
        let mut all = History::default();
        for thread in self.threads {
            all.merge(thread.join().expect("a client"));
        }
        (all, self.meeting.finished.load(Ordering::SeqCst) == CLIENTS)
    }
}

/// What a client reads in the end, added to what was done.
fn audit(bed: &Bed, rounds: u64, history: &mut History) {
    for (number, client) in [(1, 100), (4, 101), (CLIENTS, 102)] {
        let mut voice = bed.voice(number)();
        let mut client = Client::new(&mut *voice, client, 0);
        for round in 0..rounds {
            assert!(client.audit(round, history), "the server is there");
        }
    }
}

fn check(seed: u64, history: &History, strict: Strict) {
    if let Err(why) = history.check_in_order(strict, Model::Register) {
        panic!("DROVER_SEED={seed}: {why}");
    }
}

fn seed() -> u64 {
    let seed = number("DROVER_SEED").unwrap_or_else(now);
    println!("DROVER_SEED={seed}");
    seed
}

#[test]
fn what_both_kinds_of_clients_did_is_explainable_key_by_key() {
    let (seed, rounds) = (seed(), number("DROVER_ROUNDS").unwrap_or(ROUNDS));
    for (name, args) in [("history-cache", &[][..]), ("history-store", &["-M"][..])] {
        let bed = Bed::start(&folder(name), args);
        let (mut history, is_whole) = bed.load(seed, rounds).finish();
        assert!(is_whole, "a server went away");
        audit(&bed, rounds, &mut history);
        println!("{name}: {} operations", history.len());
        check(seed, &history, STRICT);
        assert_canaries(&history);
        assert_eq!(bed.serving.stop(), 0);
    }
}

/// Signals come while all clients have requests under way. What was answered is there afterwards, no reply is cut off,
/// and what was not answered happened before the end or not at all.
#[test]
fn a_stop_under_load_loses_nothing_that_was_answered() {
    let seed = seed();
    for (name, signal) in [("history-term", Signal::TERM), ("history-usr1", Signal::USR1)] {
        let folder = folder(name);
        let file = folder.join("items");
        let args = ["-M", "-e", file.to_str().expect("UTF-8")];
        let bed = Bed::start(&folder, &args);
        let load = bed.load(seed, u64::MAX);
        let rounds = load.wait_for_rounds(ROUNDS_BEFORE_STOP);
        assert_eq!(bed.serving.stop_by(signal), 0);
        let stopped_at = now();
        let (mut history, is_whole) = load.finish();
        assert!(!is_whole, "the server is gone");
        let bed = Bed::start(&folder, &args);
        assert!(bed.serving.said.contains("warm start"), "{}", bed.serving.said);
        audit(&bed, rounds, &mut history);
        let strict = Strict {
            unknown_until: stopped_at,
            ..STRICT
        };
        let unanswered = history.keys().flat_map(|(_, events)| events);
        let unanswered = unanswered.filter(|event| event.returned_at.is_none()).count();
        println!(
            "{name}: {} operations, {unanswered} of them not answered",
            history.len()
        );
        check(seed, &history, strict);
        assert_loss_is_found(&history, strict);
        assert_eq!(bed.serving.stop(), 0);
    }
}

/// As if a value that the audit found had not been kept.
fn assert_loss_is_found(history: &History, strict: Strict) {
    let mut other = History::default();
    let kept = history.keys().find_map(|(key, events)| {
        let last = events.last().expect("no key without events");
        matches!(last.call, Call::Get(Some(_))).then_some((key, events))
    });
    let (key, events) = kept.expect("something is there in the end");
    let lost = afterwards(Call::Get(None));
    events
        .iter()
        .chain(&[lost])
        .for_each(|event| other.push(key, *event));
    assert!(
        other.check_in_order(strict, Model::Register).is_err(),
        "{events:?}"
    );
}

/// What must not have happened, planted into what did, is found.
fn assert_canaries(history: &History) {
    let mut tried = [0; 3];
    for (key, events) in history.keys() {
        for (kind, planted) in [stale_read(events), lost_swap(events), lost_addition(events)]
            .into_iter()
            .enumerate()
        {
            let Some(planted) = planted else { continue };
            let mut other = History::default();
            events
                .iter()
                .chain(&[planted])
                .for_each(|event| other.push(key, *event));
            let found = other.check_in_order(STRICT, Model::Register);
            assert!(found.is_err(), "{planted:?} among {events:?}");
            tried[kind] += 1;
        }
    }
    assert!(tried.iter().all(|&count| count > 0), "{tried:?}");
}

/// As if read by somebody else after everything.
fn afterwards(call: Call) -> Event {
    Event {
        client: 999,
        call,
        called_at: u64::MAX - 1,
        returned_at: Some(u64::MAX),
    }
}

/// Of two writes, one after the other, the first is read after both.
fn stale_read(events: &[Event]) -> Option<Event> {
    let puts = || {
        events.iter().filter_map(|event| match event.call {
            Call::Put(id) => Some((id, event.called_at, event.returned_at?)),
            _ => None,
        })
    };
    let (first, _, returned_at) = puts().min_by_key(|put| put.2)?;
    puts()
        .any(|put| put.1 > returned_at)
        .then(|| afterwards(Call::Get(Some(first))))
}

/// What one client swapped, another swaps too.
fn lost_swap(events: &[Event]) -> Option<Event> {
    events.iter().find_map(|event| match event.call {
        Call::Swap {
            from,
            said: Swapped::Done,
            ..
        } => Some(Event {
            client: 999,
            call: Call::Swap {
                from,
                to: u64::MAX,
                said: Swapped::Done,
            },
            ..*event
        }),
        _ => None,
    })
}

/// Two additions of 1 that say the same sum, with nothing else that could give it again.
fn lost_addition(events: &[Event]) -> Option<Event> {
    let only_ups = |event: &Event| !matches!(event.call, Call::Add { by, .. } if by < 0);
    if !events.iter().all(only_ups) {
        return None;
    }
    let is_sum = |event: &&Event| {
        matches!(
            event.call,
            Call::Add {
                by: 1..,
                sum: Some(_)
            }
        )
    };
    events.iter().find(is_sum).map(|event| Event {
        client: 999,
        ..*event
    })
}
