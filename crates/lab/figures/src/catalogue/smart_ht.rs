//! SMART Figs 5, 7, 8, 9 and 14: RACE, and Smart-HT, which is the same code with other options, over two memory nodes. 8-byte keys and values, 8
//! tasks on each thread, 1e8 keys of which 1e5 are stored: the 16,384 most popular ones are exact, the others share what
//! is left. Nothing of it is fitted.

use super::smart3::THREADS;
use crate::figure::{Drawing, Figure, Metric, Point};
use crate::in_pool::{BY_RETRIES, InPool, Keys, Technique};
use drover_base::Ns;
use drover_rt::{Backoff, ConflictOptions};

/// SMART Fig. 5: updates by RACE, with more and more threads, and with more and more skew.
pub const FIGURE_5A: Figure = Figure {
    name: "smart-5",
    title: "RACE: updates with more threads; 1e8 keys mapped to 1e5, the popular ones exact",
    source: "[SMART] Fig. 5a",
    x_axis: "threads",
    y_axis: "throughput, Mops; latency, us",
    drawing: Drawing::Curves,
    shape: "throughput highest at 8 threads, then falling; the tail grows with each thread",
    points: points_5a,
};

/// The other half of it.
pub const FIGURE_5B: Figure = Figure {
    name: "smart-5b",
    title: "RACE: updates with more skew; 1e8 keys mapped to 1e5, the popular ones exact",
    source: "[SMART] Fig. 5b",
    x_axis: "exponent of Zipf's distribution",
    drawing: Drawing::Curves,
    shape: "flat up to 0.8, then falling",
    points: points_5b,
    ..FIGURE_5A
};

/// SMART Fig. 7: with more machines. Its other half is that of Fig. 8.
pub const FIGURE_7: Figure = Figure {
    name: "smart-7",
    title: "RACE and Smart-HT with more machines of 96 threads; 1e8 keys mapped to 1e5, the popular ones exact",
    source: "[SMART] Fig. 7d to 7f",
    x_axis: "compute machines",
    y_axis: "throughput, Mops",
    drawing: Drawing::Curves,
    shape: "lookups: both grow, Smart-HT to the limit of the nodes' cards; with updates RACE falls",
    points: points_7,
};

/// SMART Fig. 8, and Figs 7a to 7c, which are its first and last curves.
pub const FIGURE_8: Figure = Figure {
    name: "smart-8",
    title: "From RACE to Smart-HT, one option after the other; a search for credits that is 100 times as fast; 1e8 keys mapped to 1e5, the popular ones exact",
    source: "[SMART] Fig. 8 and Fig. 7a to 7c",
    x_axis: "threads",
    y_axis: "throughput, Mops",
    drawing: Drawing::Curves,
    shape: "own doorbells help lookups, credits many threads, and waits before retries decide where updates are half",
    points: points_8,
};

/// SMART Fig. 9: latency of lookups at lower loads.
pub const FIGURE_9: Figure = Figure {
    name: "smart-9",
    title: "Lookups of 96 threads with pauses; 1e8 keys mapped to 1e5, the popular ones exact",
    source: "[SMART] Fig. 9",
    x_axis: "pause after each lookup, us",
    y_axis: "throughput, Mops; latency, us",
    drawing: Drawing::LogCurves,
    shape: "Smart-HT has more throughput at less latency, and the same where little is asked for",
    points: points_9,
};

/// SMART Fig. 14: what each part of conflict avoidance brings.
pub const FIGURE_14: Figure = Figure {
    name: "smart-14",
    title: "Smart-HT: updates with parts of conflict avoidance; 1e8 keys mapped to 1e5, the popular ones exact",
    source: "[SMART] Fig. 14",
    x_axis: "threads",
    y_axis: "throughput, Mops; attempts",
    drawing: Drawing::Curves,
    shape: "without waits few threads are fastest; with all of it, throughput stays with many",
    points: points_14,
};

/// Metrics of figures with latencies.
const WITH_LATENCY: [Metric; 3] = [
    Metric::Throughput,
    Metric::Named("latency p50", "us"),
    Metric::Named("latency p99", "us"),
];

/// Metrics of figures of throughput, and what explains it.
const WITH_ATTEMPTS: [Metric; 2] = [Metric::Throughput, ATTEMPTS];

const ATTEMPTS: Metric = Metric::Named("attempts", "1");

/// Shares of updates in percent.
pub(super) const MIXES: [(&str, u64); 3] = [("write-heavy", 50), ("read-heavy", 5), ("read-only", 0)];

/// What Fig. 8 adds to RACE, one after the other.
pub(super) const STEPS: [&str; 3] = ["+ThdResAlloc", "+WorkReqThrot", "Smart-HT"];
/// What Fig. 14 adds, one after the other.
pub(super) const OF_CONFLICTS: [&str; 4] = ["none", "+Backoff", "+DynLimit", "+CoroThrot"];

/// A run of updates alone.
fn updates(technique: Technique, threads: usize) -> InPool {
    InPool {
        threads,
        update_percent: 100,
        ..InPool::published(technique)
    }
}

/// RACE with one doorbell for each list, and with one for each request.
const RACES: [(&str, Technique); 2] = [
    ("RACE", Technique::RACE),
    (PER_REQUEST, Technique::RACE_PER_REQUEST),
];
const PER_REQUEST: &str = "RACE / a doorbell per request";

/// A point of a figure by shares of updates.
fn of_mix(mix: &'static str, name: &str, x: usize, plan: InPool) -> Point {
    // Where all are lookups, every operation is one attempt.
    let metrics = match plan.update_percent {
        0 => &WITH_ATTEMPTS[..1],
        _ => &WITH_ATTEMPTS[..],
    };
    let published = match mix {
        "write-heavy" => "write-heavy / RACE",
        "read-heavy" => "read-heavy / RACE",
        _ => "read-only / RACE",
    };
    Point {
        against: (name == PER_REQUEST).then_some(published),
        ..plan.point(format!("{mix} / {name}"), x as f64, metrics)
    }
}

fn points_5a() -> Vec<Point> {
    let mut points = Vec::new();
    for (name, technique) in RACES {
        for threads in [1, 2, 4, 6, 8, 10, 12, 14, 16] {
            points.push(Point {
                against: Some("RACE"),
                ..updates(technique, threads).point(name, threads as f64, &WITH_LATENCY)
            });
        }
    }
    points
}

fn points_5b() -> Vec<Point> {
    let point = |exponent: f64| {
        let plan = InPool {
            keys: Keys::Zipf(exponent),
            ..updates(Technique::RACE, 16)
        };
        plan.point("RACE", exponent, &WITH_LATENCY)
    };
    [0.0, 0.4, 0.8, 0.9, 0.95, 0.99].map(point).into()
}

fn points_7() -> Vec<Point> {
    let mut points = Vec::new();
    for (mix, update_percent) in MIXES {
        for (name, technique) in RACES.into_iter().chain([("Smart-HT", Technique::smart_ht())]) {
            for machines in 1..=6 {
                let plan = InPool {
                    machines,
                    update_percent,
                    ..InPool::published(technique)
                };
                points.push(of_mix(mix, name, machines, plan));
            }
        }
    }
    points
}

fn points_8() -> Vec<Point> {
    let techniques = [Technique::ALLOCATED, Technique::THROTTLED, Technique::smart_ht()];
    let steps = STEPS.into_iter().zip(techniques);
    let mut points = Vec::new();
    for (mix, update_percent) in MIXES {
        for (name, technique) in RACES.into_iter().chain(steps.clone()) {
            for threads in THREADS {
                let plan = InPool {
                    threads,
                    update_percent,
                    ..InPool::published(technique)
                };
                points.push(of_mix(mix, name, threads, plan));
            }
        }
    }
    points
}

fn points_9() -> Vec<Point> {
    let mut points = Vec::new();
    for (name, technique) in RACES.into_iter().chain([("Smart-HT", Technique::smart_ht())]) {
        for idle in [0].into_iter().chain((4..=13).map(|n| 1 << n)) {
            let plan = InPool {
                idle: Ns::from_us(idle),
                ..InPool::published(technique)
            };
            points.push(Point {
                against: (name == PER_REQUEST).then_some("RACE"),
                ..plan.point(name, idle as f64, &WITH_LATENCY)
            });
        }
    }
    points
}

fn points_14() -> Vec<Point> {
    let backoff = ConflictOptions {
        backoff: Backoff::Random,
        ..ConflictOptions::OFF
    };
    let dynamic = ConflictOptions {
        dynamic_limit: true,
        ..backoff
    };
    let parts = [ConflictOptions::OFF, backoff, dynamic, ConflictOptions::default()];
    let shares = BY_RETRIES.map(|name| Metric::Named(name, "fraction"));
    let mut points = Vec::new();
    for (name, conflicts) in OF_CONFLICTS.into_iter().zip(parts) {
        for threads in [1, 16, 32, 48, 64, 80, 88, 96] {
            let technique = Technique {
                conflicts,
                ..Technique::THROTTLED
            };
            let mut metrics = WITH_ATTEMPTS.to_vec();
            if threads == 96 {
                metrics.extend(shares);
            }
            points.push(updates(technique, threads).point(name, threads as f64, &metrics));
        }
    }
    points
}
