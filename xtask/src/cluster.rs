//! `cargo xtask cluster`: a service of three members in network namespaces, under load, while everything goes wrong that may. CI
//! runs the same test with each kind of trouble once.

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
}

impl Args {
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
            .args(["deployed::campaign::", "--nocapture"])
            .env("DROVER_TROUBLES", args.troubles());
        run_tests(&mut command)
    });
}
