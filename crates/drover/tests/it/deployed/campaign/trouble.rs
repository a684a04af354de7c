//! [`Campaign`]: a bed under load, and what is done to it.

use super::conn::Conn;
use super::load::{KEYS, Load};
use super::own::{BATCH, Own};
use super::owners::Owners;
use super::report::Record;
use super::times::Times;
use crate::common::drover;
use crate::deployed::bed::{Bed, CLUSTER};
use crate::deployed::process::{PATIENCE, now, pass, since, until};
use drover_base::Rng;
use drover_cluster::Map;
use std::time::Duration;

/// What may happen to a member, or to etcd.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trouble {
    /// SIGKILL, and a new start when the others serve all keys.
    Kill,
    /// SIGSTOP until the others serve all keys.
    Pause,
    /// No way to etcd until the others serve all keys.
    Cut,
    /// SIGKILL for etcd, and a new start.
    Etcd,
    /// `cluster drain`, a stop, and a new start.
    Drain,
}

const TROUBLES: [(&str, Trouble); 5] = [
    ("kill", Trouble::Kill),
    ("pause", Trouble::Pause),
    ("cut", Trouble::Cut),
    ("etcd", Trouble::Etcd),
    ("drain", Trouble::Drain),
];

/// What is waited for before anything happens.
const SETTLED: &str = "all members share all shards, with all copies complete";

/// The kinds that `counts` names, each as often as it says: `kill=2,pause=1`.
fn troubles_of(counts: &str) -> Vec<Trouble> {
    let mut troubles = Vec::new();
    for part in counts.split(',') {
        let (name, count) = part.split_once('=').expect("NAME=COUNT");
        let found = TROUBLES.iter().find(|trouble| trouble.0 == name);
        let (_, trouble) = found.unwrap_or_else(|| panic!("no trouble is called {name}"));
        let count: usize = count.parse().expect("a number");
        troubles.extend(std::iter::repeat_n(*trouble, count));
    }
    troubles
}

/// Members that have an item, each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Copies {
    /// Its owner alone: what a lost member had is lost.
    One,
    /// Its owner and a keeper (`--replicas 2`): nothing is lost with one member.
    Two,
}

impl Copies {
    /// Arguments of members.
    fn flags(self) -> &'static [&'static str] {
        match self {
            Copies::One => &[],
            Copies::Two => &["--replicas", "2"],
        }
    }

    /// Whether operators see, too, that every shard has them.
    fn are_shown(self) -> bool {
        if self == Copies::One {
            return true;
        }
        let (_, status, _) = drover(&["cluster", "status", "--cluster", CLUSTER, "--json"], "");
        let status: serde_json::Value = serde_json::from_str(&status).unwrap_or_default();
        status["single"] == 0
    }
}

/// A service under load.
pub struct Campaign {
    bed: Bed,
    copies: Copies,
    owners: Owners,
    load: Load,
    own: Own,
    times: Times,
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
            rng: Rng::new(seed, 0, 0x7120),
        }
    }

    /// Does all that `counts` says, in an order of the seed.
    pub fn run(&mut self, counts: &str) {
        let mut troubles = troubles_of(counts);
        let count = troubles.len();
        for index in (1..count).rev() {
            troubles.swap(index, self.rng.below(index as u64 + 1) as usize);
        }
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
                self.lose(victim, "kill", |bed| bed.members[victim].process = None);
                self.bed.launch(victim);
            }
            Trouble::Pause => self.pause(victim),
            Trouble::Cut => {
                self.lose(victim, "cut", |bed| bed.cut(victim));
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

    /// Does to a member what loses it, and waits until the others serve all its keys.
    fn lose(&mut self, victim: usize, what: &'static str, act: impl FnOnce(&mut Bed)) {
        let name = self.bed.members[victim].name().to_owned();
        let other = self.other(victim);
        let before = self.owners.map();
        let at = now();
        act(&mut self.bed);
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
            "{what} {name}: {lost} keys are lost; others have its shards after {taken_over:.2?} and serve all keys after {served:.2?}"
        );
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
        self.lose(victim, "pause", |bed| bed.members[victim].process().pause());
        self.own.write(&keys, &other);
        let process = self.bed.members[victim].process();
        let answered = self.own.ask_the_sleeper(&keys, conn, || process.resume());
        println!(
            "  of {} commands that it was sent meanwhile, {answered} were executed",
            keys.len()
        );
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
        println!("{what}: {moved:.1} % of the keys moved in {time:.2?}, longest pause of a key {pause:.2?}");
    }

    /// Name of any other member.
    fn other(&mut self, victim: usize) -> String {
        let count = self.bed.members.len();
        let index = (victim + 1 + self.rng.below(count as u64 - 1) as usize) % count;
        self.bed.members[index].name().to_owned()
    }
}
