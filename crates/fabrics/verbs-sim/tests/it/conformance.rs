//! The simulated fabric follows every rule: with each end on its own machine, with both on one, over another kind of
//! card, with lines or words that become visible one by one, and over a network that loses packets.
#![allow(missing_docs, reason = "tests are named after the rules")]

use drover_base::Ns;
use drover_verbs::OpenError;
use drover_verbs_sim::profile::Profile;
use drover_verbs_sim::{RcOptions, Sim, SimDevice, World, WorldOptions};
use drover_verbs_suite::conformance::{TestBed, assert_rule, rules};
use std::cell::RefCell;

/// A turn lasts a millisecond, so that waiting without result is quick.
const TURN: Ns = Ns::from_ms(1);

struct Bed {
    profile: &'static str,
    machines: usize,
    torn: bool,
    torn_words: bool,
    loss: f64,
    world: RefCell<Option<World>>,
}

fn bed(profile: &'static str) -> Bed {
    Bed {
        profile,
        machines: 2,
        torn: false,
        torn_words: false,
        loss: 0.0,
        world: RefCell::new(None),
    }
}

impl TestBed for Bed {
    type Provider = Sim;

    fn ends(&self) -> Result<[SimDevice; 2], OpenError> {
        let profile = Profile::named(self.profile).expect("a profile");
        let options = WorldOptions {
            torn: self.torn,
            torn_words: self.torn_words,
            loss: self.loss,
            rc: RcOptions {
                timeout: Ns::from_us(200),
                retries: 20,
                ..RcOptions::default()
            },
            ..WorldOptions::new(profile)
        };
        let world = World::with_options(options, self.machines, 1);
        let devices = [world.device(0), world.device(self.machines - 1)];
        self.world.replace(Some(world));
        Ok(devices)
    }

    fn progress(&self) {
        if let Some(world) = &*self.world.borrow() {
            world.run_for(TURN);
        }
    }
}

mod two_machines {
    use super::*;
    drover_verbs_suite::conformance_tests!(|rule| assert_rule(&bed("apt"), rule));
}

mod one_machine {
    use super::*;
    drover_verbs_suite::conformance_tests!(|rule| assert_rule(
        &Bed {
            machines: 1,
            ..bed("cx6")
        },
        rule
    ));
}

mod torn {
    use super::*;
    drover_verbs_suite::conformance_tests!(|rule| assert_rule(
        &Bed {
            torn: true,
            ..bed("rfp")
        },
        rule
    ));
}

mod torn_words {
    use super::*;
    drover_verbs_suite::conformance_tests!(|rule| assert_rule(
        &Bed {
            torn: true,
            torn_words: true,
            ..bed("cx6")
        },
        rule
    ));
}

/// RC follows every rule at any loss rate.
#[test]
fn reliable_over_a_lossy_network() {
    let lossy = Bed {
        loss: 0.2,
        ..bed("apt")
    };
    for rule in rules::<Sim>() {
        if rule.kinds == [drover_verbs::QpKind::Rc] {
            assert_rule(&lossy, rule.name);
        }
    }
}
