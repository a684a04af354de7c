//! The suite of key-value systems over HERD on real devices, software RoCE included: `herd_conformance A [B]` plays the
//! server on device A and the clients on device B, or all of it on A.
//!
//! A program and not a test, because it needs devices: `cargo xtask guest` makes some in a virtual machine.

#[path = "../tests/it/conformance/bed.rs"]
mod bed;

use bed::HerdBed;
use drover_testkit::beds::devices::{self, Devices, Rules};
use std::process::ExitCode;

const CALM: Rules = drover_testkit::kv_calm_rules!(kv_conformance_table, HerdBed<Devices>);
const FAULTY: Rules = drover_testkit::kv_fault_rules!(kv_conformance_table, HerdBed<Devices>);

fn main() -> ExitCode {
    let devices: Vec<String> = std::env::args().skip(1).collect();
    devices::run(&[CALM, FAULTY], &devices)
}
