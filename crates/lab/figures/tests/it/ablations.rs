//! What the model says limits a figure is what limits it: without caches to miss, locks to wait for, a link to fill or
//! a core to keep busy, the limit is gone. Each expectation is met by the ablation it is about and by no other, so a
//! flag that does nothing fails.
#![allow(missing_docs, reason = "tests are named after what they show")]

use drover_figures::catalogue::{self, emulations};
use drover_figures::figure::Point;
use drover_figures::run::{Profiles, RunOptions, run_points};
use drover_figures::sim::Simulated;
use drover_verbs_sim::Ablations;
use drover_verbs_sim::profile::Profile;
use std::sync::atomic::AtomicU64;

/// The points of [`emulations::by_cores`].
const BY_CORES: &str = "by cores";

/// A point of a figure: its name, a curve, x.
type At = (&'static str, &'static str, f64);

/// What an ablation is expected to do to a figure.
struct Expectation {
    name: &'static str,
    /// The one that does it.
    ablation: Ablations,
    /// The points to look at.
    points: &'static [At],
    /// Whether the rates at these points are as they are without the limit.
    freed: fn(&[f64]) -> bool,
}

const NONE: Ablations = Ablations {
    caches: false,
    locks: false,
    links: false,
    cpu: false,
};
const CACHES: Ablations = Ablations { caches: true, ..NONE };
const LOCKS: Ablations = Ablations { locks: true, ..NONE };
const LINKS: Ablations = Ablations { links: true, ..NONE };
const CPU: Ablations = Ablations { cpu: true, ..NONE };

/// All of them, with what the papers say.
const EXPECTATIONS: &[Expectation] = &[
    Expectation {
        // [HERD] section 3.3: out-bound WRITE falls as contexts of queue pairs leave the card's cache.
        name: "256 queue pairs write as fast as four",
        ablation: CACHES,
        points: &[
            ("herd-6", "outbound WRITE UC", 2.0),
            ("herd-6", "outbound WRITE UC", 16.0),
        ],
        freed: |rates| rates[1] > 0.9 * rates[0],
    },
    Expectation {
        // [A16] section 5: READs of deep windows find their work requests gone.
        name: "deep windows of READs are as fast as shallow ones",
        ablation: CACHES,
        points: &[("atc-13", "apt READ", 16.0), ("atc-13", "apt READ", 128.0)],
        freed: |rates| rates[1] > 0.95 * rates[0],
    },
    Expectation {
        // [SMART] section 3.1: threads wait for each other's doorbells.
        name: "96 threads do not fall behind 32",
        ablation: LOCKS,
        points: &[
            ("smart-3", "READ / queue pair per thread", 32.0),
            ("smart-3", "READ / queue pair per thread", 96.0),
        ],
        freed: |rates| rates[1] > rates[0],
    },
    Expectation {
        // [HERD] section 3.2: from 512 B on, everything is bound by the link.
        name: "a kilobyte is written faster than the link is",
        ablation: LINKS,
        points: &[("herd-3", "WRITE UC", 1024.0)],
        freed: |rates| rates[0] * 1024.0 > 1e3 * link_bytes_per_ns(),
    },
    Expectation {
        name: "a kilobyte is read faster than the link is",
        ablation: LINKS,
        points: &[("herd-3", "READ RC", 1024.0)],
        freed: |rates| rates[0] * 1024.0 > 1e3 * link_bytes_per_ns(),
    },
    Expectation {
        // [HERD] Fig. 13: PUTs need five cores of the server.
        name: "one core answers as many PUTs as six",
        ablation: CPU,
        points: &[(BY_CORES, "FaRM-em / PUT", 1.0), (BY_CORES, "FaRM-em / PUT", 6.0)],
        freed: |rates| rates[0] > 0.9 * rates[1],
    },
    Expectation {
        // [HERD] section 5.2: with cores enough, the card's intake of replies of two lines is what is left.
        name: "HERD is bound by the intake of replies",
        ablation: CPU,
        points: &[("herd-13", "HERD", 6.0)],
        freed: |rates| rates[0] > 0.95 * replies_taken_in(),
    },
    Expectation {
        // [HERD] section 5.5: past 260 clients, contexts of queue pairs leave the card's cache.
        name: "558 clients are served as fast as 300",
        ablation: CACHES,
        points: &[("herd-12", "window 4", 300.0), ("herd-12", "window 4", 558.0)],
        freed: |rates| rates[1] > 0.95 * rates[0],
    },
];

/// Replies of 48-byte items that the card takes in, million per second.
fn replies_taken_in() -> f64 {
    let profile = Profile::named("apt").expect("built in");
    1e3 / (2.0 * profile.parameters().pio.line_ns)
}

/// What the link of the figures above carries at most.
fn link_bytes_per_ns() -> f64 {
    let profile = Profile::named("apt").expect("built in");
    profile.parameters().link.bytes_per_ns
}

/// The rates at `points` under `ablation`.
fn rates(points: &[At], ablation: Ablations) -> Vec<f64> {
    let found: Vec<Point> = points.iter().map(find).collect();
    let options = RunOptions {
        seeds: 1,
        first_seed: 1,
        quick: true,
        jobs: 2,
    };
    let make = Simulated { ablations: ablation };
    let (profiles, progress) = (Profiles::builtin(), AtomicU64::new(0));
    let outcomes = run_points(&make, &found, &profiles, &options, &progress);
    outcomes.iter().map(|seeds| seeds[0].mops).collect()
}

fn find((figure, series, x): &At) -> Point {
    let points = match *figure {
        BY_CORES => emulations::by_cores(),
        name => {
            let mut all = catalogue::all().into_iter();
            (all.find(|f| f.name == name).expect("a figure").points)()
        }
    };
    let mut points = points.into_iter();
    points
        .find(|p| p.series == *series && p.x == *x)
        .expect("a point")
}

fn named(name: &str) -> &'static Expectation {
    let found = EXPECTATIONS.iter().find(|expected| expected.name == name);
    found.expect("an expectation")
}

/// Met by its ablation, and with everything else ablated not met.
fn check(expected: &Expectation) {
    let with = rates(expected.points, expected.ablation);
    assert!((expected.freed)(&with), "{}: {with:?}", expected.name);
    let others = Ablations {
        caches: !expected.ablation.caches,
        locks: !expected.ablation.locks,
        links: !expected.ablation.links,
        cpu: !expected.ablation.cpu,
    };
    for useless in [NONE, others] {
        let without = rates(expected.points, useless);
        assert!(
            !(expected.freed)(&without),
            "{}: {useless:?} does it, too: {without:?}",
            expected.name
        );
    }
}

#[test]
fn without_caches_to_miss_queue_pairs_do_not_matter() {
    check(named("256 queue pairs write as fast as four"));
}

#[test]
fn without_caches_to_miss_windows_do_not_matter() {
    check(named("deep windows of READs are as fast as shallow ones"));
}

#[test]
fn without_locks_threads_do_not_wait_for_doorbells() {
    check(named("96 threads do not fall behind 32"));
}

#[test]
fn without_a_link_to_fill_long_payloads_are_faster() {
    check(named("a kilobyte is written faster than the link is"));
    check(named("a kilobyte is read faster than the link is"));
}

#[test]
fn without_work_for_the_core_one_is_enough() {
    check(named("one core answers as many PUTs as six"));
}

#[test]
fn without_work_for_its_cores_herd_is_bound_by_the_card() {
    check(named("HERD is bound by the intake of replies"));
}

#[test]
fn without_caches_to_miss_herd_has_no_knee() {
    check(named("558 clients are served as fast as 300"));
}

/// The canary: an ablation that does nothing is noticed, whichever it is.
#[test]
fn a_flag_that_does_nothing_is_noticed() {
    for expected in EXPECTATIONS {
        let idle = Expectation {
            ablation: NONE,
            ..*expected
        };
        let check = std::panic::catch_unwind(|| check(&idle));
        assert!(check.is_err(), "{}: nobody would notice", expected.name);
    }
}
