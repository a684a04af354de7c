//! The suite of key-value systems over one of the table's systems of shards, on real devices, software RoCE included:
//! `shards_conformance SYSTEM A [B]` plays the server on device A and the clients on device B, or all of it on A.
//!
//! A program and not a test, because it needs devices: `cargo xtask guest` makes some in a virtual machine.

use drover_kv::{ShardedJob, ShardedSystem, SystemTable as _};
use drover_systems::System;
use drover_testkit::beds::ShardsBed;
use drover_testkit::beds::devices::{self, Devices, Rules};
use std::marker::PhantomData;
use std::process::ExitCode;

/// The rules for `S`.
struct Suite<S>(PhantomData<S>);

impl<S: ShardedSystem> Suite<S> {
    const CALM: Rules = drover_testkit::kv_calm_rules!(kv_conformance_table, ShardsBed<S, Devices>);
    const FAULTY: Rules = drover_testkit::kv_fault_rules!(kv_conformance_table, ShardsBed<S, Devices>);
}

struct RulesOf;

impl ShardedJob for RulesOf {
    type Answer = [Rules; 2];

    fn run<S: ShardedSystem>(self) -> [Rules; 2] {
        [Suite::<S>::CALM, Suite::<S>::FAULTY]
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, names_of_devices)) = arguments.split_first() else {
        eprintln!("which system?");
        return ExitCode::FAILURE;
    };
    let Some(system) = System::named(name) else {
        eprintln!("there is no system {name:?}");
        return ExitCode::FAILURE;
    };
    if !system.facts().offers.service {
        // Counted as skipped.
        println!("{system} is to be measured, not to serve");
        println!("test result: ok. 0 passed; 0 failed; 1 ignored");
        return ExitCode::SUCCESS;
    }
    match system.sharded(RulesOf) {
        Ok(rules) => devices::run(&rules, names_of_devices),
        Err(_) => {
            eprintln!("{system} is no system of shards");
            ExitCode::FAILURE
        }
    }
}
