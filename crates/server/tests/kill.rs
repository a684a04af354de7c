//! kill -9 at seeded random moments under load: of clients, and of the server, which then comes back at the
//! same address. Everything is real: the binary, client processes, shared memory.
//!
//! After each kill the survivors finish what they began, what all of them (and the dead one, up to its last
//! word) did is explainable key by key, nothing acknowledged is lost while its server lives, and nobody
//! holds more descriptors or mappings than before.
//!
//! `DROVER_KILLS` says how many (`cargo xtask kill`: 200), `DROVER_SEED` repeats a run's choices.

#[path = "kill/campaign.rs"]
mod campaign;
#[path = "kill/client.rs"]
mod client;
#[path = "kill/journal.rs"]
mod journal;
#[path = "kill/processes.rs"]
mod processes;

use campaign::{Campaign, Setting, Victim};
use drover_testkit::history::{Call, Event, History};
use drover_testkit::linear::Model;

/// Kills in an ordinary `cargo test`.
const KILLS: u64 = 12;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|e| panic!("{name}={text}: {e}")))
}

/// All requests through slots.
#[test]
fn survivors_go_on_and_nothing_acknowledged_is_lost() {
    campaign("slots", SLOTS);
}

/// All requests by datagrams.
#[test]
fn survivors_go_on_with_datagrams_too() {
    let setting = Setting {
        serve: &["--slot-clients", "0"],
        datagram_places: &[],
    };
    campaign("datagrams", setting);
}

/// One client of three sends datagrams, and the server always has slots for the others: so everybody's successor
/// holds what he held.
#[test]
fn survivors_go_on_when_slots_and_datagrams_mix() {
    let setting = Setting {
        serve: &["--slot-clients", "64"],
        datagram_places: &[1],
    };
    campaign("mixed", setting);
}

const SLOTS: Setting = Setting {
    serve: &[],
    datagram_places: &[],
};

fn campaign(name: &str, setting: Setting) {
    let seed = number("DROVER_SEED").unwrap_or_else(journal::now);
    let kills = number("DROVER_KILLS").unwrap_or(KILLS);
    println!("{name}: DROVER_SEED={seed} DROVER_KILLS={kills}");
    let mut campaign = Campaign::start(name, seed, setting);
    campaign.round(None);
    for kill in 1..=kills {
        let victim = campaign.draw_victim();
        println!("kill {kill} of {kills}: {victim:?}");
        let history = campaign.round(Some(victim));
        if let Err(why) = history.check(Model::Register) {
            panic!("seed {seed}, kill {kill} ({victim:?}): {why}");
        }
    }
    campaign.finish();
}

#[test]
fn a_planted_lost_put_is_noticed() {
    let mut campaign = Campaign::start("canary", 7, SLOTS);
    let history = campaign.round(Some(Victim::Client(0)));
    history.check(Model::Register).expect("as it was");
    let planted = without_one_put(&history);
    let why = planted
        .check(Model::Register)
        .expect_err("an acknowledged PUT is gone");
    assert!(why.contains("is not linearizable"), "{why}");
    campaign.finish();
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

/// Not a test: what the client processes of the others run.
#[test]
fn client_process() {
    if let Ok(role) = std::env::var(processes::ROLE) {
        client::run(&role);
    }
}
