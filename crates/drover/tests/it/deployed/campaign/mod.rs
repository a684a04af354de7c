//! A service under load in which everything goes wrong that may: planned changes, members that die, stand still or are cut off
//! from etcd, and restarts of etcd.
//!
//! Every operation on 5,000 keys with times to live, by memcached and native clients, is recorded. At the end the history of each key
//! must be linearizable, as that of a register: a key may lose its value without a DELETE only when the member that had it was lost,
//! and planned changes and restarts of etcd lose nothing. Flags, remaining times and CAS numbers of what is read must be those of
//! what was written. All waits end.
//!
//! A member is lost in the middle of a burst of writes to its keys, so that many replies have just left, and many changes are on their way
//! to the keepers of copies.
//!
//! With `--replicas 2` no value may be lost at all: a member is killed, paused or cut off only when each of its shards has a complete
//! copy, and each acknowledged write must survive that.
//!
//! `DROVER_TROUBLES` says what happens how often (`kill=50,pause=20,cut=20,etcd=10,drain=10`, from `cargo xtask cluster`), `DROVER_SEED`
//! repeats the order and the victims, but not how the processes interleave.

mod burst;
mod check;
mod conn;
mod copies;
mod draw;
mod load;
mod native;
mod own;
mod owners;
mod report;
mod run;
mod session;
mod times;
mod trouble;

use check::{check, planted};
use copies::Copies;
use drover_testkit::network::in_a_network;
use drover_testkit::seeds::fresh_seed;
use run::Campaign;

#[test]
fn nothing_stale_is_answered_and_only_lost_members_lose_items() {
    let test = "deployed::campaign::nothing_stale_is_answered_and_only_lost_members_lose_items";
    campaign(test, Copies::One, "kill=1,pause=1,cut=1,etcd=1,drain=1");
}

#[test]
fn no_acknowledged_write_is_lost_with_replicas() {
    let test = "deployed::campaign::no_acknowledged_write_is_lost_with_replicas";
    campaign(test, Copies::Two, "kill=1");
}

/// Runs the campaign of `test`; in an ordinary `cargo test` what `usual` says happens.
fn campaign(test: &str, copies: Copies, usual: &str) {
    in_a_network(test, || {
        let seed = crate::campaigns::number("DROVER_SEED").unwrap_or_else(fresh_seed);
        let counts = std::env::var("DROVER_TROUBLES").unwrap_or_else(|_| usual.to_owned());
        println!("DROVER_SEED={seed} DROVER_TROUBLES={counts} {copies:?}");
        let mut campaign = Campaign::start(seed, copies);
        campaign.run(&counts);
        let record = campaign.finish();
        println!("{}", record.summary());
        check(&record).unwrap_or_else(|why| panic!("{why}"));
        for (name, planted) in planted(&record) {
            assert!(check(&planted).is_err(), "a planted {name} is not found");
        }
    });
}
