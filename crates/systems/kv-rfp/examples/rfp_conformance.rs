//! The suite of key-value systems over Jakiro, then over ServerReply, on real devices, software RoCE included:
//! `rfp_conformance A [B]` plays the server on device A and the clients on device B, or all of it on A.
//!
//! A program and not a test, because it needs devices: `cargo xtask guest` makes some in a virtual machine.

use drover_kv_rfp::{Jakiro, ServerReply};
use drover_testkit::beds::ShardsBed;
use drover_testkit::beds::devices::{self, Devices, FaultyDevices, Rules};
use std::process::ExitCode;

const RULES: [Rules; 4] = [
    drover_testkit::kv_calm_rules!(kv_conformance_table, ShardsBed<Jakiro, Devices>),
    drover_testkit::kv_fault_rules!(kv_conformance_table, ShardsBed<Jakiro, FaultyDevices>),
    drover_testkit::kv_calm_rules!(kv_conformance_table, ShardsBed<ServerReply, Devices>),
    drover_testkit::kv_fault_rules!(kv_conformance_table, ShardsBed<ServerReply, FaultyDevices>),
];

fn main() -> ExitCode {
    devices::run(&RULES)
}
