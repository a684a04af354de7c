//! The suite of key-value systems over FaRM-KV on real devices, software RoCE included: `farm_conformance A [B]` plays the
//! server on device A and the clients on device B, or all of it on A.
//!
//! A program and not a test, because it needs devices: `cargo xtask guest` makes some in a virtual machine.

use drover_kv_farm::Farm;
use drover_testkit::beds::ShardsBed;
use drover_testkit::beds::devices::{self, Devices, FaultyDevices, Rules};
use std::process::ExitCode;

const CALM: Rules = drover_testkit::kv_calm_rules!(kv_conformance_table, ShardsBed<Farm, Devices>);
const FAULTY: Rules = drover_testkit::kv_fault_rules!(kv_conformance_table, ShardsBed<Farm, FaultyDevices>);

fn main() -> ExitCode {
    devices::run(&[CALM, FAULTY])
}
