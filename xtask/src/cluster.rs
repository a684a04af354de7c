//! `cargo xtask cluster`: a service of three members in network namespaces, under load, while everything goes wrong that may. CI
//! runs the same tests with each kind of trouble once, and with one kill where each item has two copies.

use crate::command::{cargo, run_tests};
use crate::setup;
use crate::steps::Steps;

/// How often each kind of trouble happens; in random order.
#[derive(clap::Args)]
pub struct Args {
    /// Members that are killed (SIGKILL).
    #[arg(long, default_value_t = 50)]
    kills: u32,
    /// Members that stand still for longer than their lease (SIGSTOP).
    #[arg(long, default_value_t = 20)]
    pauses: u32,
    /// Members that are cut off etcd for longer than their lease.
    #[arg(long, default_value_t = 20)]
    cuts: u32,
    /// Restarts of etcd.
    #[arg(long, default_value_t = 10)]
    etcd_restarts: u32,
    /// Members that are drained, leave, and join again.
    #[arg(long, default_value_t = 5)]
    drains: u32,
    /// Copies of each item, 1 or 2. With 2 no acknowledged write may be lost.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    replicas: u8,
}

impl Args {
    /// The test that is this campaign.
    fn test(&self) -> &'static str {
        match self.replicas {
            1 => "deployed::campaign::nothing_stale_is_answered_and_only_lost_members_lose_items",
            _ => "deployed::campaign::no_acknowledged_write_is_lost_with_replicas",
        }
    }

    fn troubles(&self) -> String {
        format!(
            "kill={},pause={},cut={},etcd={},drain={}",
            self.kills, self.pauses, self.cuts, self.etcd_restarts, self.drains
        )
    }
}

/// Runs the campaign. With its defaults it takes some half an hour.
pub fn run(steps: &mut Steps, args: &Args) {
    setup::run(steps);
    steps.run("cluster", || {
        let mut command = cargo(&["test", "-p", "drover", "--test", "it", "--"]);
        command
            .args([args.test(), "--exact", "--nocapture"])
            .env("DROVER_TROUBLES", args.troubles());
        run_tests(&mut command)
    });
}
