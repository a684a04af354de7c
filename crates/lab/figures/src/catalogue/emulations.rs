//! Points of Pilaf-em-OPT, FaRM-em and FaRM-em-VAR, the emulations with which HERD's figures compare it.

use crate::figure::{Metric, Point};
use crate::micro::{Bench, Emulation, System};

/// Curves, in the order of HERD's legends.
const SYSTEMS: [(&str, System); 3] = [
    ("Pilaf-em-OPT", System::PilafOpt),
    ("FaRM-em", System::FarmInline),
    ("FaRM-em-VAR", System::FarmVar),
];

/// The emulations' points of HERD Fig. 9: throughput by the percentage of PUTs.
pub fn by_put_share() -> Vec<Point> {
    all([5, 50, 100].map(f64::from), |system, x| Emulation {
        put_percent: x as u64,
        ..Emulation::published(system)
    })
}

/// The emulations' points of HERD Fig. 10: throughput by the bytes of a value, on machines of `profile`. Over RoCE the
/// last value has 1000 bytes instead of 1024.
pub fn by_value(profile: &'static str) -> Vec<Point> {
    // Over RoCE a datagram holds 1024 bytes, including the PUT's key.
    let longest = if profile == "susitna_roce" { 1_000 } else { 1_024 };
    let points = all(
        [4, 16, 32, 64, 128, 256, 512, 1024].map(f64::from),
        |system, x| Emulation {
            value_bytes: (x as usize).min(longest),
            ..Emulation::published(system)
        },
    );
    let there = |point| Point { profile, ..point };
    points.into_iter().map(there).collect()
}

/// The emulations' points of HERD Fig. 11: latencies at the published rates, each with the fewest outstanding
/// operations that reach the rate.
pub fn by_rate() -> Vec<Point> {
    let rates = [
        [0.28, 1.18, 6.08, 10.02],
        [0.68, 6.55, 11.5, 17.4],
        [0.74, 2.85, 5.57, 11.4],
    ];
    let point = |(name, system): (&str, System), x: f64| Point {
        metrics: vec![
            Metric::Named("latency mean", "us"),
            Metric::Named("latency p5", "us"),
            Metric::Named("latency p95", "us"),
            Metric::Throughput,
        ],
        ..Point::throughput(
            "apt",
            name,
            x,
            Bench::EmulationAt(Emulation::published(system), x),
        )
    };
    let curves = SYSTEMS.into_iter().zip(rates);
    curves
        .flat_map(|(system, rates)| rates.map(|x| point(system, x)))
        .collect()
}

/// The emulations' points of HERD Fig. 13: throughput of PUTs by the cores of the server. GETs need no core, and the
/// PUTs of FaRM-em-VAR, which are those of FaRM-em, are left out.
pub fn by_cores() -> Vec<Point> {
    let points = all([1, 2, 3, 4, 5, 6, 7].map(f64::from), |system, x| Emulation {
        put_percent: 100,
        server_threads: x as usize,
        ..Emulation::published(system)
    });
    let puts = |point: Point| Point {
        series: format!("{} / PUT", point.series),
        ..point
    };
    // FaRM's PUTs are the same with and without pointers.
    points
        .into_iter()
        .filter(|point| point.series != "FaRM-em-VAR")
        .map(puts)
        .collect()
}

/// Throughput of every system at every x.
fn all<const N: usize>(xs: [f64; N], plan: impl Fn(System, f64) -> Emulation) -> Vec<Point> {
    let curve = |(name, system): (&str, System)| {
        let points = xs.map(|x| Point::throughput("apt", name, x, Bench::Emulation(plan(system, x))));
        Vec::from(points)
    };
    SYSTEMS.into_iter().flat_map(curve).collect()
}
