//! The suite of key-value systems over HERD on real devices, software RoCE included: `herd_conformance A [B]` plays the
//! server on device A and the clients on device B, or all of it on A.
//!
//! A program and not a test, because it needs devices: `cargo xtask guest` makes some in a virtual machine.

#[path = "../tests/conformance/bed.rs"]
mod bed;
#[path = "../tests/conformance/devices.rs"]
mod devices;
#[path = "../tests/conformance/ground.rs"]
mod ground;

use bed::PiecesBed;
use devices::Rules;
use drover_verbs_ibv::Ibv;
use drover_verbs_suite::faulty::Faulty;
use std::process::ExitCode;

const CALM: Rules = drover_testkit::kv_calm_rules!(kv_conformance_table, PiecesBed<Ibv>);
const FAULTY: Rules = drover_testkit::kv_fault_rules!(kv_conformance_table, PiecesBed<Faulty<Ibv>>);

fn main() -> ExitCode {
    devices::run(&[CALM, FAULTY])
}
