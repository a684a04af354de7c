//! Runs every input of the corpora without a fuzzer, and 1,000 inputs per target that are generated from seeds.

use drover_fuzz_targets::{CANARY, TARGETS, herd};
use std::path::{Path, PathBuf};

fn corpus(name: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../fuzz/corpus")
        .join(name);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    entries
        .map(|entry| entry.expect("a folder can be listed").path())
        .collect()
}

#[test]
fn every_corpus_replays() {
    for target in TARGETS.iter().filter(|target| target.name != CANARY) {
        let files = corpus(target.name);
        assert!(!files.is_empty(), "{} has an empty corpus", target.name);
        for file in files {
            println!("{}", file.display());
            (target.run)(&std::fs::read(&file).expect("a corpus file can be read"));
        }
    }
}

/// A linear congruential generator: these bytes need no quality, only to be the same in every run.
fn bytes(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    let len = usize::from(next());
    let mut bytes: Vec<u8> = (0..len).map(|_| next()).collect();
    if let Some(first) = bytes.first_mut() {
        *first &= 31; // kinds of messages are small numbers
    }
    if let Some(second) = bytes.get_mut(1) {
        *second = 0;
    }
    bytes
}

/// A fuzzer that starts from refusals takes long to find anything else.
#[test]
fn the_control_messages_of_the_corpus_are_understood() {
    for file in corpus("control_message") {
        let input = std::fs::read(&file).expect("a corpus file can be read");
        let understood = herd::decode_control_message(&input);
        assert!(understood.is_some(), "{} is refused", file.display());
    }
}

#[test]
fn a_thousand_seeded_inputs() {
    for target in TARGETS.iter().filter(|target| target.name != CANARY) {
        (0..1_000).for_each(|seed| (target.run)(&bytes(seed)));
    }
}

#[test]
fn the_canary_crashes() {
    let canary = TARGETS
        .iter()
        .find(|target| target.name == CANARY)
        .expect("the table has a canary");
    for file in corpus(CANARY) {
        let input = std::fs::read(&file).expect("a corpus file can be read");
        (canary.run)(&input); // what the fuzzer starts from does not crash
    }
    let crash = std::panic::catch_unwind(|| (canary.run)(b"drover"));
    assert!(crash.is_err());
}
