//! [`Campaign`]: a bed under load, and what is done to it.

use super::burst::{self, Burst};
use super::conn::Conn;
use super::copies::Copies;
use super::load::{KEYS, Load};
use super::own::{BATCH, Own};
use super::owners::Owners;
use super::report::Record;
use super::times::Times;
use super::trouble::{Trouble, troubles_of};
use crate::common::drover;
use crate::deployed::bed::{Bed, CLUSTER};
use crate::deployed::process::{PATIENCE, now, pass, since, until};
use drover_base::Rng;
use drover_cluster::Map;
use std::time::Duration;

/// What is waited for before anything happens.
const SETTLED: &str = "all members share all shards, with all copies complete";

/// A service under load.
pub struct Campaign {
    bed: Bed,
    copies: Copies,
    owners: Owners,
    load: Load,
    own: Own,
    times: Times,
    /// Bursts until now.
    bursts: u32,
    rng: Rng,
}

impl Campaign {
    /// Starts the service, whose members have one core or two, writes every key, and starts the load.
    pub fn start(seed: u64, copies: Copies) -> Campaign {
        let threads = ["--threads", if seed.is_multiple_of(2) { "1" } else { "2" }];
        let bed = Bed::start("campaign", &[copies.flags(), &threads].concat());
        let mut owners = Owners::open();
        let names = bed.names();
        until(SETTLED, || {
            owners.is_settled(&names, copies) && copies.are_shown()
        });
        let mut own = Own::default();
        let keys: Vec<u32> = (0..KEYS).collect();
        own.write(&keys, &names[0]);
        Campaign {
            load: Load::start(&names, seed),
            bed,
            copies,
            owners,
            own,
            times: Times::default(),
            bursts: 0,
            rng: Rng::new(seed, 0, 0x7120),
        }
    }

    /// Does all that `counts` says, in an order of the seed.
    pub fn run(&mut self, counts: &str) {
        let mut troubles = troubles_of(counts);
        let count = troubles.len();
        shuffle(&mut troubles, &mut self.rng);
        for (index, trouble) in troubles.into_iter().enumerate() {
            print!("{} of {count}: ", index + 1);
            self.load.longest();
            let victim = self.rng.below(self.bed.members.len() as u64) as usize;
            self.cause(trouble, victim);
            let time = self.settle();
            println!("  {time:.2?} until {SETTLED}");
        }
    }

    /// Reads every key once more, and ends the load.
    pub fn finish(mut self) -> Record {
        print!("{}", self.times);
        self.own.sweep(self.bed.members[0].name());
        let mut record = self.load.stop();
        record.merge(self.own.record);
        record
    }

    fn cause(&mut self, trouble: Trouble, victim: usize) {
        match trouble {
            Trouble::Kill => {
                let burst = self.lose(victim, "kill", |bed| bed.members[victim].process = None);
                self.finish_burst(burst);
                self.bed.launch(victim);
            }
            Trouble::Pause => self.pause(victim),
            Trouble::Cut => {
                let burst = self.lose(victim, "cut", |bed| bed.cut(victim));
                self.finish_burst(burst);
                self.bed.mend(victim);
            }
            Trouble::Etcd => {
                self.bed.restart_etcd();
                let served = self.own.sweep(self.bed.members[victim].name());
                self.times.add("etcd restart", served);
                println!("etcd restarted: all keys are served after {served:.2?}");
            }
            Trouble::Drain => self.drain(victim),
        }
    }

    /// Waits until another member may be lost.
    fn settle(&mut self) -> Duration {
        let (names, copies, start) = (self.bed.names(), self.copies, now());
        while !(self.owners.is_settled(&names, copies) && copies.are_shown()) {
            if since(start) >= PATIENCE {
                panic!(
                    "not within {PATIENCE:?}: {SETTLED}; now {}",
                    self.owners.summary()
                );
            }
            pass(Duration::from_millis(10));
        }
        since(start)
    }

    /// Does to a member what loses it, in the middle of a burst of writes, and waits until the others serve all its keys. The burst may
    /// still wait for answers.
    fn lose(&mut self, victim: usize, what: &'static str, act: impl FnOnce(&mut Bed)) -> Burst {
        let name = self.bed.members[victim].name().to_owned();
        let other = self.other(victim);
        let burst = self.burst(&name);
        let before = self.owners.map();
        let (answered, at) = (burst.answers(), now());
        act(&mut self.bed);
        burst.end();
        let after = self.owners.map();
        self.until_taken_over(&name);
        let taken_over = since(at);
        self.own.sweep(&other);
        let served = since(at);
        self.times.add(what, served);
        let lost = match self.copies {
            Copies::One => self.record_loss([&before, &after], &name, at),
            Copies::Two => 0,
        };
        println!(
            "{what} {name} after {answered} writes: {lost} keys are lost; others have its shards after {taken_over:.2?} and serve all keys after {served:.2?}"
        );
        burst
    }

    /// Begins a burst of writes to some keys of a member.
    fn burst(&mut self, name: &str) -> Burst {
        let map = self.owners.map();
        let mut keys: Vec<u32> = self.owners.keys_of(&map, name).into_iter().collect();
        shuffle(&mut keys, &mut self.rng);
        keys.truncate(burst::KEYS);
        let number = burst::FIRST_NUMBER + self.bursts * burst::WRITERS;
        self.bursts += 1;
        Burst::start(name, &keys, number)
    }

    fn finish_burst(&mut self, burst: Burst) {
        self.own.record.merge(burst.finish());
    }

    /// Waits until others have all the shards of a member.
    fn until_taken_over(&mut self, name: &str) {
        until("others have its shards", || {
            let map = self.owners.map();
            self.owners.keys_of(&map, name).is_empty()
        });
    }

    /// Notes which keys were lost with a member. Between the two maps it was alone with what it had; shards that moved may be
    /// another's. Returns how many it was.
    fn record_loss(&mut self, maps: [&Map; 2], name: &str, at: u64) -> usize {
        let mut unsure = self.owners.moving(maps[0]);
        unsure.extend(self.owners.moving(maps[1]));
        let lost = self.owners.keys_of(maps[0], name);
        let until = now();
        for key in lost.difference(&unsure) {
            self.own.record.lose(*key, at, Some(until));
        }
        for key in unsure {
            self.own.record.lose(key, at, None);
        }
        lost.len()
    }

    /// A member stands still while others take its shards and write its keys; in between, a client asks it for them. What it answers
    /// when it goes on must not be what it knew.
    fn pause(&mut self, victim: usize) {
        let (name, other) = (self.bed.members[victim].name().to_owned(), self.other(victim));
        let conn = Conn::open(&name).expect("it listens");
        let map = self.owners.map();
        let keys: Vec<u32> = self.owners.keys_of(&map, &name).into_iter().take(BATCH).collect();
        let burst = self.lose(victim, "pause", |bed| bed.members[victim].process().pause());
        self.own.write(&keys, &other);
        let process = self.bed.members[victim].process();
        let answered = self.own.ask_the_sleeper(&keys, conn, || process.resume());
        println!(
            "  of {} commands that it was sent meanwhile, {answered} were executed",
            keys.len()
        );
        self.finish_burst(burst);
    }

    /// Has a member hand over all that it has, ends it and starts it again: nothing is lost.
    fn drain(&mut self, victim: usize) {
        let (name, other) = (self.bed.members[victim].name().to_owned(), self.other(victim));
        let full = self.owners.map();
        let start = now();
        let (status, _, said) = drover(&["cluster", "drain", &name, "--cluster", CLUSTER], "");
        assert_eq!(status, 0, "{said}");
        let drained = self.owners.map();
        self.report_moves(&format!("drain {name}"), [&full, &drained], since(start));
        self.bed.members[victim].process().terminate();
        self.bed.members[victim].process = None;
        self.own.sweep(&other);

        self.load.longest();
        self.bed.launch(victim);
        self.bed.members[victim].until_it_answers();
        // A member stays drained through a restart.
        let undrain = ["cluster", "undrain", &name, "--cluster", CLUSTER];
        until("a member is undrained", || drover(&undrain, "").0 == 0);
        let time = self.settle();
        let joined = self.owners.map();
        self.report_moves(&format!("  join {name}"), [&drained, &joined], time);
    }

    fn report_moves(&mut self, what: &str, maps: [&Map; 2], time: Duration) {
        let moved = 100.0 * self.owners.moved(maps[0], maps[1]);
        let pause = self.load.longest();
        println!("{what}: {moved:.1} % of the keys moved in {time:.2?}, longest pause of a key {pause}");
    }

    /// Name of any other member.
    fn other(&mut self, victim: usize) -> String {
        let count = self.bed.members.len();
        let index = (victim + 1 + self.rng.below(count as u64 - 1) as usize) % count;
        self.bed.members[index].name().to_owned()
    }
}

/// Puts the parts into an order of chance.
fn shuffle<T>(parts: &mut [T], rng: &mut Rng) {
    for index in (1..parts.len()).rev() {
        parts.swap(index, rng.below(index as u64 + 1) as usize);
    }
}
