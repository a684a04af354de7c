//! Four honest clients of each system beside one that means harm ([`attacker`](super::attacker)): their histories stay
//! linearizable, the server neither panics nor keeps anything, and nobody is disconnected for long.
//!
//! Rounds alternate: nobody else; a client that does the same work without harm; the attacker. The throughput of the honest
//! ones is printed for each, with the reason where it falls below half, and judged by people: processors are few and shared.
//!
//! RACE's clients are trusted with all memory of a pool once they are let in, so there the attacker knows no password.
//!
//! `DROVER_SECONDS` is the time for all systems (`cargo xtask hostile`: 600), `DROVER_SYSTEM` the only one to attack.

use crate::campaigns::attacker::Attack;
use crate::campaigns::bed::{Bed, HERD, Setting, record, wait};
use crate::campaigns::client::{CLIENT_COUNT, OPS_PER_ROUND};
use crate::campaigns::journal::{Command, now, since};
use crate::campaigns::processes::{Attacker, Done};
use crate::campaigns::{Repeat, number};
use drover_systems::System;
use drover_testkit::history::History;
use drover_testkit::linear::Model;
use std::time::Duration;

/// Time for all systems in an ordinary `cargo test`, seconds.
const SECONDS: u64 = 30;
/// Time with one server.
const SERVER_LIFE: Duration = Duration::from_secs(12);

/// Threads of an attacker that are busy: its client, its proxy, and those that rewrite memory and make noise.
const ATTACKER_THREADS: usize = 4;

/// Time in which an attacker connects.
const START: Duration = Duration::from_millis(100);

const TEST: &str = "honest_clients_are_served_beside_one_that_means_harm";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Neighbour {
    Nobody,
    Tame,
    Hostile,
}

const NEIGHBOURS: [Neighbour; 3] = [Neighbour::Nobody, Neighbour::Tame, Neighbour::Hostile];

#[test]
fn honest_clients_are_served_beside_one_that_means_harm() {
    let seconds = number("DROVER_SECONDS").unwrap_or(SECONDS);
    let chosen = std::env::var("DROVER_SYSTEM").ok();
    let systems: Vec<&str> = System::ALL
        .iter()
        .map(|system| system.facts())
        .filter(|facts| facts.offers.service)
        .map(|facts| facts.name)
        .filter(|name| chosen.as_ref().is_none_or(|chosen| chosen == name))
        .collect();
    let time = Duration::from_secs(seconds) / systems.len() as u32;
    for system in systems {
        Campaign::new(system, seconds).run(time);
    }
}

struct Campaign {
    system: &'static str,
    seed: u64,
    /// Operations per second of the honest clients, by neighbour.
    rates: [Vec<f64>; 3],
    done: Done,
    _repeat: Repeat,
}

impl Campaign {
    fn new(system: &'static str, seconds: u64) -> Campaign {
        let seed = number("DROVER_SEED").unwrap_or_else(now);
        let variables = format!("DROVER_SEED={seed} DROVER_SECONDS={seconds} DROVER_SYSTEM={system}");
        Campaign {
            system,
            seed,
            rates: Default::default(),
            done: Done::default(),
            _repeat: Repeat::new(&variables, "hostile", TEST),
        }
    }

    fn setting(&self) -> Setting {
        Setting {
            name: "hostile",
            system: self.system,
            serve: match self.system {
                HERD => &["-t", "1", "--slot-clients", "64"],
                _ => &["-t", "2"],
            },
            datagram_places: &[1, 3],
            guarded: self.system == "race",
            // No operation may need it.
            deadline_ms: 60_000,
            rest_ms: 1,
        }
    }

    fn run(&mut self, time: Duration) {
        let start = now();
        while !self.has_attacked() || since(start) < time {
            self.seed += 1;
            let mut bed = Bed::start(self.seed, self.setting());
            // Everything is there before it is counted.
            self.round(&mut bed, Neighbour::Nobody);
            bed.check_leaks();
            let (born, most) = (now(), SERVER_LIFE.min(time));
            loop {
                for neighbour in NEIGHBOURS {
                    let rate = self.round(&mut bed, neighbour);
                    self.rates[neighbour as usize].push(rate);
                }
                bed.check_leaks();
                if self.has_attacked() && since(born) >= most {
                    break;
                }
            }
            bed.finish();
        }
        let [alone, tame, hostile] = self.rates.each_mut().map(|rates| {
            rates.sort_by(f64::total_cmp);
            rates[rates.len() / 2]
        });
        let Done {
            words,
            frames,
            mapped,
            answered,
            lives,
        } = self.done;
        println!(
            "{}: {alone:.0} operations/s alone, {tame:.0} beside a client of the same work, {hostile:.0} beside the attacker \
             ({:.2} of the latter), medians of {} rounds; {lives} attackers: {words} words of {mapped} mappings, {frames} \
             frames spoiled, {answered} operations answered; {}",
            self.system,
            hostile / tame,
            self.rates[2].len(),
            self.share(alone, tame, hostile),
        );
    }

    /// How much of their throughput honest clients keep beside the attacker, and what takes the rest.
    fn share(&self, alone: f64, tame: f64, hostile: f64) -> String {
        let kept = hostile / alone;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = CLIENT_COUNT as usize + if self.system == HERD { 1 } else { 2 };
        let needed = threads + ATTACKER_THREADS;
        if kept >= 0.5 {
            return format!("honest clients keep {kept:.2} of their throughput");
        }
        if cores >= needed {
            return format!(
                "honest clients keep only {kept:.2} of their throughput, although {cores} cores suffice for the server, \
                 its clients and the attacker: it is the attack"
            );
        }
        format!(
            "honest clients keep {kept:.2} of their throughput, because the attacker has no core of its own: {cores} cores \
             for {threads} threads of server and clients and {ATTACKER_THREADS} of the attacker's; a client with as many \
             threads that does no harm leaves {:.2}",
            tame / alone
        )
    }

    /// Whether there was harm: attackers may ruin themselves before they do any.
    fn has_attacked(&self) -> bool {
        let reached = self.done.words > 0 && self.done.answered > 0;
        self.done.frames > 0 && (reached || self.setting().guarded)
    }

    /// Returns the honest clients' operations per second.
    fn round(&mut self, bed: &mut Bed, neighbour: Neighbour) -> f64 {
        let attacker = (neighbour != Neighbour::Nobody).then(|| {
            Attacker::start(Attack {
                harmful: neighbour == Neighbour::Hostile,
                is_herd: self.system == HERD,
                seed: bed.rng.next_u64(),
                addr: bed.addr.clone(),
                proxy: bed.folder().join("proxy.sock"),
            })
        });
        // It shall be at work when they begin.
        wait(START);
        let start = now();
        bed.begin_round();
        for client in &bed.clients {
            client.wait_for("the round's operations", |known| {
                known.ops.len() as u64 >= OPS_PER_ROUND
            });
        }
        let took = since(start).as_secs_f64();
        let rate = (OPS_PER_ROUND * bed.clients.len() as u64) as f64 / took;
        for client in &mut bed.clients {
            client.tell(Command::Stop);
        }
        let mut history = History::default();
        for client in &bed.clients {
            let round = u64::from(bed.round);
            client.wait_for("the audit", |known| known.audited == round);
            record(&mut history, client.id, client.take_ops());
        }
        if let Some(attacker) = attacker {
            let done = attacker.stop();
            if neighbour == Neighbour::Hostile {
                self.done.add(&done);
            }
        }
        let server = bed.server.as_ref().expect("it runs");
        let panics: Vec<String> = server.lines().filter(|line| line.contains("panic")).collect();
        assert!(
            panics.is_empty(),
            "{}, seed {}: {panics:?}",
            self.system,
            self.seed
        );
        if let Err(why) = history.check(Model::Register) {
            panic!("{}, seed {}, {neighbour:?}: {why}", self.system, self.seed);
        }
        bed.check_evictions();
        rate
    }
}
