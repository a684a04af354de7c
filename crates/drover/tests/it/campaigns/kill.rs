//! kill -9 at seeded random moments under load: of clients, and of the server, which then comes back at the
//! same address.
//!
//! After each kill the survivors finish what they began; what all clients did (the dead one up to its last
//! record) is linearizable; nothing acknowledged is lost while its server lives; no process holds more
//! descriptors or mappings than before.
//!
//! `DROVER_KILLS` is the number of kills (`cargo xtask kill`: 200), `DROVER_SYSTEM` the only system to kill.

use crate::campaigns::bed::{Bed, HERD, Setting, record};
use crate::campaigns::client::CLIENT_COUNT;
use crate::campaigns::journal::{Command, now};
use crate::campaigns::processes::{Client, OpRecord};
use crate::campaigns::{Repeat, number};
use drover_systems::System;
use drover_testkit::history::{Call, Event, History};
use drover_testkit::linear::Model;

/// Kills in an ordinary `cargo test`.
const KILLS: u64 = 12;

const SLOTS: Setting = Setting {
    name: "kill-slots",
    system: HERD,
    serve: &["-t", "1"],
    datagram_places: &[],
    guarded: false,
    // Longer than the watchdog's patience: no operation may need it.
    deadline_ms: 60_000,
    rest_ms: 1,
};

/// All requests through slots.
#[test]
fn survivors_go_on_and_nothing_acknowledged_is_lost() {
    campaign("survivors_go_on_and_nothing_acknowledged_is_lost", SLOTS);
}

/// All requests by datagrams.
#[test]
fn survivors_go_on_with_datagrams_too() {
    let setting = Setting {
        name: "kill-datagrams",
        serve: &["-t", "1", "--slot-clients", "0"],
        ..SLOTS
    };
    campaign("survivors_go_on_with_datagrams_too", setting);
}

/// One client of three sends datagrams, and the server always has slots for the others: so a client that takes over
/// from another one holds as much.
#[test]
fn survivors_go_on_when_slots_and_datagrams_mix() {
    let setting = Setting {
        name: "kill-mixed",
        serve: &["-t", "1", "--slot-clients", "64"],
        datagram_places: &[1],
        ..SLOTS
    };
    campaign("survivors_go_on_when_slots_and_datagrams_mix", setting);
}

/// Every other system that serves, with several shards, so that clients of RDMA-Memcached have different workers of one
/// store. Each is killed a quarter as often as HERD, unless the campaign is for it alone.
#[test]
fn survivors_of_every_system_of_shards_go_on() {
    let share = if chosen().is_some() { 1 } else { 4 };
    for system in System::ALL {
        let facts = system.facts();
        if facts.name == HERD || !facts.offers.service {
            continue;
        }
        let setting = Setting {
            name: "kill-shards",
            system: facts.name,
            serve: &["-t", "2"],
            ..SLOTS
        };
        run("survivors_of_every_system_of_shards_go_on", setting, share);
    }
}

fn campaign(test: &str, setting: Setting) {
    run(test, setting, 1);
}

/// The only system that the campaign is for, if there is one.
fn chosen() -> Option<String> {
    std::env::var("DROVER_SYSTEM").ok()
}

/// Makes one of `share` of the kills asked for, if the campaign is for the setting's system.
fn run(test: &str, setting: Setting, share: u64) {
    if chosen().is_some_and(|chosen| chosen != setting.system) {
        return;
    }
    let seed = number("DROVER_SEED").unwrap_or_else(now);
    let kills = number("DROVER_KILLS").unwrap_or(KILLS) / share;
    let variables = format!(
        "DROVER_SEED={seed} DROVER_KILLS={kills} DROVER_SYSTEM={}",
        setting.system
    );
    let _repeat = Repeat::new(&variables, "kill", test);
    let mut campaign = Campaign::start(seed, setting);
    campaign.round(None);
    for kill in 1..=kills {
        let victim = campaign.draw_victim();
        println!("{}: kill {kill} of {kills}: {victim:?}", setting.system);
        let history = campaign.round(Some(victim));
        if let Err(why) = history.check(Model::Register) {
            panic!("{}, seed {seed}, kill {kill} ({victim:?}): {why}", setting.system);
        }
    }
    campaign.bed.finish();
}

#[test]
fn a_planted_lost_put_is_noticed() {
    let setting = Setting {
        name: "kill-canary",
        ..SLOTS
    };
    let mut campaign = Campaign::start(7, setting);
    let history = campaign.round(Some(Victim::Client(0)));
    history.check(Model::Register).expect("as it was");
    let planted = without_one_put(&history);
    let why = planted
        .check(Model::Register)
        .expect_err("an acknowledged PUT is gone");
    assert!(why.contains("is not linearizable"), "{why}");
    campaign.bed.finish();
}

/// The same history, but the last reader of one key that nobody deletes finds nothing.
fn without_one_put(history: &History) -> History {
    let mut planted = History::default();
    let mut done = false;
    for (key, events) in history.keys() {
        let mut events = events.to_vec();
        let deleted = events.iter().any(|e| matches!(e.call, Call::Delete(_)));
        let is_put = |e: &&Event| matches!(e.call, Call::Put(_));
        let put_at = events.iter().filter(is_put).filter_map(|e| e.returned_at).min();
        let last = events
            .iter_mut()
            .filter(|e| matches!(e.call, Call::Get(Some(_))) && put_at.is_some_and(|at| at < e.called_at))
            .max_by_key(|e| e.called_at);
        if let (false, false, Some(last)) = (done, deleted, last) {
            last.call = Call::Get(None);
            done = true;
        }
        events.into_iter().for_each(|event| planted.push(key, event));
    }
    assert!(done, "no key was read after it was written");
    planted
}

/// The process to kill.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Victim {
    /// The client at this place.
    Client(usize),
    Server,
}

/// Rounds of load with at most one kill in each.
struct Campaign {
    bed: Bed,
    /// What is left of clients that were killed.
    buried: Option<(u32, Vec<OpRecord>)>,
}

impl Campaign {
    fn start(seed: u64, setting: Setting) -> Campaign {
        Campaign {
            bed: Bed::start(seed, setting),
            buried: None,
        }
    }

    /// The next victim that the seed chooses: the server once in three times.
    fn draw_victim(&mut self) -> Victim {
        match self.bed.rng.below(3) {
            0 => Victim::Server,
            _ => Victim::Client(self.bed.rng.below(CLIENT_COUNT.into()) as usize),
        }
    }

    /// Load, a kill in its midst, load again, an audit; returns what happened to every key.
    fn round(&mut self, victim: Option<Victim>) -> History {
        self.bed.begin_round();
        self.bed.nap();
        let killed_at = now();
        match victim {
            Some(Victim::Client(place)) => self.kill_client(place),
            Some(Victim::Server) => self.kill_server(),
            None => {}
        }
        let restored_at = now();
        let survivors = || self.bed.clients.iter().filter(|client| !self.is_new(client));
        for client in survivors() {
            client.wait_for("an operation after the kill", |known| {
                known.served_call_at > restored_at
            });
        }
        let mut history = self.close_round();
        if victim == Some(Victim::Server) {
            wipe(&mut history, killed_at, restored_at);
        }
        self.bed.check_evictions();
        self.bed.check_leaks();
        history
    }

    /// Whether it came in this round, and has nothing to do in it.
    fn is_new(&self, client: &Client) -> bool {
        self.buried.is_some() && client.id == self.bed.next_id
    }

    fn kill_client(&mut self, place: usize) {
        let mut dead = self.bed.clients.remove(place);
        dead.kill();
        self.buried = Some((dead.id, dead.take_ops()));
        let next = self.bed.new_client(place as u8);
        self.bed.clients.insert(place, next);
        // Sometimes it comes while the server still buries the other one, sometimes the others go on alone first.
        if self.bed.rng.chance(0.5) {
            self.bed.clients[place].wait_for("a session", |known| known.ready);
        }
    }

    fn kill_server(&mut self) {
        let bed = &mut self.bed;
        bed.server.as_mut().expect("it runs").kill();
        bed.server_before = None;
        if bed.rng.chance(0.5) {
            bed.nap();
        }
        bed.start_server();
    }

    fn close_round(&mut self) -> History {
        let mut history = History::default();
        let new = self.buried.is_some().then_some(self.bed.next_id);
        let round = u64::from(self.bed.round);
        for client in &mut self.bed.clients {
            if Some(client.id) != new {
                client.tell(Command::Stop);
            }
        }
        for client in &self.bed.clients {
            match Some(client.id) == new {
                true => client.wait_for("a session", |known| known.ready),
                false => client.wait_for("the audit", |known| known.audited == round),
            }
            record(&mut history, client.id, client.take_ops());
        }
        if let Some((id, ops)) = self.buried.take() {
            record(&mut history, id, ops);
        }
        history
    }
}

/// A server that was killed takes all items with it, once: as if somebody had deleted each key between the
/// kill and the first word of the next server. Nothing else may be missing.
fn wipe(history: &mut History, killed_at: u64, restored_at: u64) {
    let keys: Vec<Vec<u8>> = history.keys().map(|(key, _)| key.to_vec()).collect();
    for key in keys {
        let event = Event {
            client: 0,
            call: Call::Delete(None),
            called_at: killed_at,
            returned_at: Some(restored_at),
        };
        history.push(&key, event);
    }
}
