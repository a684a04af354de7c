//! The suite of key-value systems over Pilaf on real devices, software RoCE included: `pilaf_conformance A [B]` plays the
//! server on device A and the clients on device B, or all of it on A.
//!
//! A program and not a test, because it needs devices: `cargo xtask guest` makes some in a virtual machine.

use drover_kv_pilaf::Pilaf;
use drover_testkit::beds::ShardsBed;
use drover_testkit::beds::devices::{self, Devices, FaultyDevices, Rules};
use std::process::ExitCode;

const CALM: Rules = drover_testkit::kv_calm_rules!(kv_conformance_table, ShardsBed<Pilaf, Devices>);
const FAULTY: Rules = drover_testkit::kv_fault_rules!(kv_conformance_table, ShardsBed<Pilaf, FaultyDevices>);

fn main() -> ExitCode {
    devices::run(&[CALM, FAULTY])
}
