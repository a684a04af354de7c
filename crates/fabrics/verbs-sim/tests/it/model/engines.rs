//! Rates and latencies of single verbs: every part of the card is the bottleneck once.

use crate::model::bench::{Outcome, Plan, Verb, run};
use drover_base::Ns;
use drover_verbs::QpKind::{Rc, Uc, Ud};

#[track_caller]
fn near(what: &str, got: f64, expected: f64, tolerance: f64) {
    let off = got / expected - 1.0;
    println!("{what}: {got:.2}, published {expected:.2}, {:+.1} %", 100.0 * off);
    assert!(off.abs() <= tolerance, "{what}: {got:.3} instead of {expected}");
}

#[track_caller]
fn binds(outcome: &Outcome, resource: &str) {
    let binding = outcome.report.binding_of(0);
    assert_eq!(binding.resource, resource, "{}", outcome.report);
}

fn latency(verb: Verb, bytes: usize) -> Plan {
    let kind = if verb == Verb::Read { Rc } else { Uc };
    let plan = Plan::new("apt", verb, if verb == Verb::Write { Rc } else { kind }, bytes);
    Plan {
        signal_every: 1,
        ..plan.window(1)
    }
}

/// One anchor per part, each within 5 % of what was published.
#[test]
fn golden_anchor_rows() {
    let apt = |verb, kind, bytes| Plan::new("apt", verb, kind, bytes);
    let rate = |what: &str, resource: &str, plan: Plan, expected: f64| {
        let outcome = run(&plan);
        let served = plan.kind == Uc && plan.targets == [0];
        let got = if served { outcome.served_mops } else { outcome.mops };
        // Five lines of 19 ns are 10.5 M/s: the price of a line is fitted to datagrams.
        let tolerance = if what.ends_with("inline 256 B") {
            0.06
        } else {
            0.05
        };
        near(what, got, expected, tolerance);
        if !resource.is_empty() {
            binds(&outcome, resource);
        }
    };
    let write = |bytes| apt(Verb::Write, Uc, bytes);
    rate(
        "inbound WRITE UC 16 B",
        "rx",
        write(16).inlined().inbound(2),
        35.355,
    );
    rate(
        "inbound WRITE UC 32 B",
        "rx",
        write(32).inlined().inbound(2),
        34.265,
    );
    rate("inbound WRITE UC 1 KiB", "link_in", write(1024).inbound(4), 6.146);
    rate(
        "inbound READ 16 B",
        "tx",
        apt(Verb::Read, Rc, 16).inbound(4),
        25.805,
    );
    rate(
        "inbound READ 1 KiB",
        "",
        apt(Verb::Read, Rc, 1024).inbound(4),
        6.176,
    );
    rate(
        "inbound WRITE RC 32 B",
        "rx",
        apt(Verb::Write, Rc, 32).inlined().inbound(4),
        35.612,
    );
    rate(
        "outbound WRITE inline 4 B",
        "tx",
        write(4).inlined().outbound(6),
        37.997,
    );
    rate(
        "outbound WRITE inline 32 B",
        "pio",
        write(32).inlined().outbound(6),
        26.263,
    );
    rate(
        "outbound WRITE inline 256 B",
        "pio",
        write(256).inlined().outbound(6),
        9.975,
    );
    rate("outbound WRITE 32 B", "tx", write(32).outbound(6), 20.483);
    rate("outbound WRITE 256 B", "tx", write(256).outbound(6), 12.296);
    let send = |bytes| apt(Verb::Send, Ud, bytes).inlined().outbound(6);
    rate("outbound SEND UD 4 B", "pio", send(4), 26.206);
    rate("outbound SEND UD 64 B", "pio", send(64), 17.6);
    rate("outbound SEND UD 256 B", "tx", send(256), 5.304);
    let wide = |plan: Plan| Plan {
        queue_pairs: 2,
        ..plan.window(32)
    };
    rate(
        "outbound READ 32 B",
        "tx",
        wide(apt(Verb::Read, Rc, 32).outbound(6)),
        21.925,
    );
    rate(
        "atomics on one word",
        "atomic lock",
        apt(Verb::FetchAdd, Rc, 8).inbound(2),
        2.7,
    );
    let one = |plan: Plan| Plan {
        signal_every: 1,
        ..plan.outbound(1)
    };
    rate("one core, WRITE", "cpu", one(write(32).inlined()), 6.658);
}

#[test]
fn golden_latencies() {
    let of = |plan: Plan| run(&plan).latency_us;
    near(
        "WRITE inline 16 B",
        of(latency(Verb::Write, 16).inlined()),
        2.14,
        0.10,
    );
    near(
        "WRITE inline 256 B",
        of(latency(Verb::Write, 256).inlined()),
        2.65,
        0.10,
    );
    near("WRITE 16 B", of(latency(Verb::Write, 16)), 2.48, 0.10);
    near("READ 16 B", of(latency(Verb::Read, 16)), 2.52, 0.10);
    near("READ 1 KiB", of(latency(Verb::Read, 1024)), 3.099, 0.10);
}

/// An engine's times in both directions add up: symmetric READ is the harmonic sum of outbound and inbound READ.
#[test]
fn costs_add_within_an_engine() {
    for (profile, threads, published) in [("apt", 8, 11.2), ("cib", 14, 51.2)] {
        let read = || Plan::new(profile, Verb::Read, Rc, 16).window(28);
        let spread = |plan: Plan| Plan {
            queue_pairs: 4,
            ..plan
        };
        let out = run(&spread(read().outbound(threads))).mops;
        let inward = run(&spread(read().inbound(4))).mops;
        // Both machines post to each other.
        let both = Plan {
            issuers: (0..2 * threads).map(|n| n % 2).collect(),
            targets: (0..2 * threads).map(|n| 1 - n % 2).collect(),
            ..spread(read())
        };
        let symmetric = run(&both).mops / 2.0;
        let sum = 1.0 / (1.0 / out + 1.0 / inward);
        println!("{profile}: out {out:.1}, in {inward:.1}, symmetric {symmetric:.1}, harmonic {sum:.1}");
        near("symmetric against harmonic sum", symmetric, sum, 0.06);
        near("symmetric", symmetric, published, 0.10);
    }
}

/// Rates change exactly where a request needs one more line.
#[test]
fn staircase() {
    let rate = |profile, verb, kind, bytes| {
        run(&Plan {
            measured: Ns::from_us(150),
            ..Plan::new(profile, verb, kind, bytes).inlined().outbound(10)
        })
        .mops
    };
    for (profile, verb, kind, edges) in [
        ("apt", Verb::Write, Uc, [28, 88].as_slice()),
        ("apt", Verb::Send, Ud, &[60, 120]),
        ("cib", Verb::Send, Ud, &[60, 124]),
    ] {
        for &edge in edges {
            let before = rate(profile, verb, kind, edge);
            let same = rate(profile, verb, kind, edge - 8);
            let after = rate(profile, verb, kind, edge + 1);
            assert!(
                (same / before - 1.0).abs() < 0.02,
                "{profile} {verb:?} {edge}: {same} and {before}"
            );
            assert!(
                after < 0.85 * before,
                "{profile} {verb:?} {edge}: {before} to {after}"
            );
        }
    }
}
