//! Rules for fabrics with faults, and for servers that crash.

use super::conditions::conditional_history;
use super::driver::{Driver, Plan};
use super::{Bed, BedOptions, Faults};
use crate::linear::Model;

/// Probabilities of a fault that every rule runs with.
const RATES: [f64; 3] = [1e-3, 1e-2, 1e-1];

fn under<B: Bed>(faults_at: impl Fn(f64) -> Faults) {
    for (i, rate) in RATES.into_iter().enumerate() {
        let plan = Plan {
            op_count: 800,
            ..Plan::default()
        };
        let options = BedOptions {
            seed: 100 + i as u64,
            faults: faults_at(rate),
            ..BedOptions::default()
        };
        let mut driver = Driver::<B>::new(&options, &plan);
        driver.run(&plan);
        driver.assert_linearizable(Model::Register);
    }
}

/// Requests and replies are lost: nothing hangs, and the history stays linearizable, so every acknowledged PUT took
/// effect once.
pub fn lost_messages<B: Bed>() {
    under::<B>(|drop| Faults {
        drop,
        ..Faults::default()
    });
}

/// Requests and replies arrive twice: the history stays linearizable, so nothing takes effect twice.
pub fn duplicated_messages<B: Bed>() {
    under::<B>(|duplicate| Faults {
        duplicate,
        ..Faults::default()
    });
}

/// Messages arrive late, some after the reply to their retransmission: the history stays linearizable.
pub fn delayed_messages<B: Bed>() {
    under::<B>(|delay| Faults {
        delay,
        ..Faults::default()
    });
}

/// Messages overtake each other: the history stays linearizable.
pub fn reordered_messages<B: Bed>() {
    under::<B>(|reorder| Faults {
        reorder,
        ..Faults::default()
    });
}

/// The cache lines of WRITEs become visible one by one: no torn request is executed, no torn value returned.
pub fn torn_writes<B: Bed>() {
    under::<B>(|tear| Faults {
        tear,
        ..Faults::default()
    });
}

/// All faults at once: the history stays linearizable.
pub fn all_faults_at_once<B: Bed>() {
    under::<B>(|p| Faults {
        drop: p,
        duplicate: p,
        delay: p,
        reorder: p,
        tear: p,
        ..Faults::default()
    });
}

/// Connections break while client and server live: every operation ends with an answer. Updates are sent again over the
/// next connection, and the history stays linearizable, so nothing takes effect twice.
pub fn broken_connections<B: Bed>() {
    for (i, breaks) in [3e-3, 3e-2].into_iter().enumerate() {
        let plan = Plan {
            op_count: 800,
            ..Plan::default()
        };
        let options = BedOptions {
            seed: 200 + i as u64,
            faults: Faults {
                breaks,
                ..Faults::default()
            },
            ..BedOptions::default()
        };
        let mut driver = Driver::<B>::new(&options, &plan);
        driver.run(&plan);
        driver.assert_linearizable(Model::Register);
        let without_answer = driver.indeterminate_count + driver.unavailable_count;
        let conditional_without = conditional_history::<B>(&options, 600);
        if B::offers().sends_again {
            let of_all = (without_answer, conditional_without);
            assert_eq!(of_all, (0, 0), "operations without an answer");
        }
    }
}

/// The server crashes and comes back empty: clients reconnect, no operation hangs, and only PUTs and DELETEs that were
/// in flight have unknown results.
pub fn survives_a_server_crash<B: Bed>() {
    let plan = Plan {
        crash: true,
        ..Plan::default()
    };
    let mut driver = Driver::<B>::new(&BedOptions::default(), &plan);
    driver.run(&plan);
    // A cache that lost everything at the crash is a cache whose items all vanished then.
    driver.assert_linearizable(Model::Cache);
    assert!(
        driver.indeterminate_count <= 3 * 8,
        "more unknown than can have been in flight"
    );
}
