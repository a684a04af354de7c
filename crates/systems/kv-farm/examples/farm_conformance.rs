//! The suite of key-value systems over FaRM-KV on real devices, software RoCE included: `farm_conformance A [B]` plays the
//! server on device A and the clients on device B, or all of it on A.
//!
//! A program and not a test, because it needs devices: `cargo xtask guest` makes some in a virtual machine.

#[path = "../../../lab/testkit/shards/bed.rs"]
mod bed;
#[path = "../../kv-herd/tests/conformance/devices.rs"]
mod devices;
#[path = "../../kv-herd/tests/conformance/ground.rs"]
mod ground;
#[path = "../tests/conformance/system.rs"]
mod system;

use bed::ShardsBed;
use devices::Rules;
use drover_verbs_ibv::Ibv;
use drover_verbs_suite::faulty::Faulty;
use std::process::ExitCode;

const CALM: Rules = drover_testkit::kv_calm_rules!(kv_conformance_table, ShardsBed<Ibv>);
const FAULTY: Rules = drover_testkit::kv_fault_rules!(kv_conformance_table, ShardsBed<Faulty<Ibv>>);

fn main() -> ExitCode {
    devices::run(&[CALM, FAULTY])
}
