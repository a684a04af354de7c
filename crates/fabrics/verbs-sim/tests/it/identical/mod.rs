//! One random script of verbs gives the same results on three fabrics: refusals, completions, data received, and final
//! memory contents.
//!
//! The fabric becomes idle between posts, so that timing has no effect. A broken connection gets one more post, which
//! must be flushed, and is replaced. Over shared memory, one-sided requests are executed when posted and messages when
//! received, and requests posted after a failure may be refused or flushed. So RECVs have memory of their own, a
//! message has a RECV and ends its list, and only the first request of a list may be one that is refused.
#![allow(missing_docs, reason = "tests are named after what they show")]

mod beds;
mod player;
mod script;

use beds::{LoopbackBed, ShmBed, SimBed};
use drover_verbs::QpKind;
use drover_verbs_suite::conformance::TestBed;
use drover_verbs_suite::loopback::Flaw;
use player::Player;
use script::script;
use std::cell::RefCell;

fn play<B: TestBed>(bed: &B, kind: QpKind, seed: u64) -> Vec<String> {
    Player::new(bed, kind).play(&script(seed))
}

/// Panics with the first line in which two runs differ.
fn same(what: &str, a: &[String], b: &[String]) {
    let differs = a.iter().zip(b).position(|(a, b)| a != b);
    if let Some(at) = differs.or((a.len() != b.len()).then(|| a.len().min(b.len()))) {
        let near = |lines: &[String]| lines[at.saturating_sub(3)..lines.len().min(at + 3)].join("\n  ");
        panic!("{what}, line {at}:\n  {}\nand\n  {}", near(a), near(b));
    }
}

fn on_three_fabrics(kind: QpKind) {
    let mut failures = 0;
    for seed in 0..12 {
        let sim = play(&SimBed(RefCell::new(None)), kind, seed);
        same(
            &format!("{kind:?}, seed {seed}, sim and loopback"),
            &sim,
            &play(&LoopbackBed(None), kind, seed),
        );
        same(
            &format!("{kind:?}, seed {seed}, sim and shm"),
            &sim,
            &play(&ShmBed, kind, seed),
        );
        failures += sim
            .iter()
            .filter(|line| line.contains("Remote") || line.contains("refused"))
            .count();
        assert!(
            sim.iter().any(|line| line.contains("received")),
            "seed {seed} receives nothing"
        );
    }
    assert!(failures > 12, "{failures} requests failed or were refused in all");
}

#[test]
fn a_script_over_rc() {
    on_three_fabrics(QpKind::Rc);
}

#[test]
fn a_script_over_uc() {
    on_three_fabrics(QpKind::Uc);
}

#[test]
fn a_script_over_ud() {
    on_three_fabrics(QpKind::Ud);
}

/// The comparison is effective: a fabric that breaks a rule gives another result.
#[test]
fn flaws_change_the_result_of_some_script() {
    for flaw in [
        Flaw::ReadsShort,
        Flaw::LosesImm,
        Flaw::CasAlwaysSwaps,
        Flaw::FaaReturnsNew,
        Flaw::IgnoresBounds,
        Flaw::FlushesSilently,
    ] {
        let caught = (0..12).any(|seed| {
            play(&LoopbackBed(Some(flaw)), QpKind::Rc, seed) != play(&LoopbackBed(None), QpKind::Rc, seed)
        });
        assert!(caught, "{flaw:?}");
    }
}
