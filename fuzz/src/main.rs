//! libFuzzer over the target that `DROVER_FUZZ_TARGET` names; `list` prints all names and ends.
//!
//! One program for all targets, so that adding one is one line in `crates/lab/fuzz-targets`. Run it with
//! `cargo xtask fuzz`, which builds it with coverage.
#![no_main]

use drover_fuzz_targets::{TARGETS, Target};
use std::sync::OnceLock;

libfuzzer_sys::fuzz_target!(init: { chosen(); }, |input: &[u8]| (chosen().run)(input));

fn chosen() -> &'static Target {
    static CHOSEN: OnceLock<&Target> = OnceLock::new();
    CHOSEN.get_or_init(choose)
}

fn choose() -> &'static Target {
    let name = std::env::var("DROVER_FUZZ_TARGET").unwrap_or_default();
    if name == "list" {
        TARGETS.iter().for_each(|target| println!("{}", target.name));
        std::process::exit(0);
    }
    let target = TARGETS.iter().find(|target| target.name == name);
    target.unwrap_or_else(|| panic!("DROVER_FUZZ_TARGET is {name:?}; `list` prints what it can be"))
}
