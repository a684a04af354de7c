//! Every rule can fail: each flaw of the reference provider is caught by the rules listed with it.
#![allow(missing_docs, non_snake_case, reason = "tests are named after the flaws")]

use drover_base::Ns;
use drover_verbs::OpenError;
use drover_verbs_suite::conformance::{MUTANTS, Mutant, Stop, TestBed, Together, rules, run_rule};
use drover_verbs_suite::loopback::{Flaw, Loopback, LoopbackDevice, LoopbackOptions, ParkMode};

struct Bed {
    flaw: Flaw,
    together: Together,
}

impl TestBed for Bed {
    type Provider = Loopback;

    fn ends(&self) -> Result<[LoopbackDevice; 2], OpenError> {
        let device = LoopbackDevice::with_options(LoopbackOptions {
            tick: Ns::from_ms(1),
            park: ParkMode::AdvanceClock,
            flaw: Some(self.flaw),
            ..LoopbackOptions::default()
        });
        Ok([device.clone(), device])
    }

    fn together(&self) -> Together {
        self.together
    }
}

/// Runs the rules that must catch the mutant; prints the message of each.
fn must_be_caught(mutant: &Mutant) {
    let flaw = mutant.flaw;
    for &rule in mutant.caught_by {
        // Only the rules of sleeping need two threads.
        let together = match rule {
            "wake_on_watched_write" => Together::TwoThreads,
            _ => Together::OneThread,
        };
        match run_rule(&Bed { flaw, together }, rule) {
            Err(Stop::Broken(how)) => println!("{flaw:?} caught by {rule}: {how}"),
            other => panic!("{flaw:?} was not caught by {rule}: {other:?}"),
        }
    }
}

#[test]
fn every_mutant_is_caught() {
    MUTANTS.iter().for_each(must_be_caught);
}

#[test]
fn every_flaw_is_a_mutant_and_every_rule_catches_one() {
    for flaw in Flaw::ALL {
        assert!(
            MUTANTS.iter().any(|mutant| mutant.flaw == *flaw),
            "{flaw:?} is no mutant"
        );
    }
    for rule in rules::<Loopback>() {
        let caught = MUTANTS.iter().any(|mutant| mutant.caught_by.contains(&rule.name));
        assert!(caught, "no mutant shows that {} can fail", rule.name);
    }
}

macro_rules! one_test_each {
    ([] $($flaw:ident: $($rule:ident)*;)*) => {
        $(#[test]
        fn $flaw() {
            let mutant = MUTANTS.iter().find(|mutant| mutant.flaw == Flaw::$flaw);
            must_be_caught(mutant.expect("it is in the list"));
        })*
    };
}
drover_verbs_suite::conformance_mutants! { [one_test_each] }
