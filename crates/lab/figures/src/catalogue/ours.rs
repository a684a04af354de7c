//! Our own figures: the real systems compared, by workload and by resources, on two kinds of machines. No published
//! values exist for them; HERD runs as we ship it.

use super::{herd, others};
use crate::figure::{Drawing, Figure, Metric, Point, Work};
use crate::in_cluster::InCluster;
use crate::sockets::Sockets;

/// A figure on the machines of one profile.
macro_rules! figure {
    ($name:literal, $profile:literal, $title:literal, $x:literal, $drawing:expr, $shape:literal, $points:ident) => {
        Figure {
            name: $name,
            title: $title,
            source: "our own",
            x_axis: $x,
            y_axis: "throughput, Mops",
            drawing: $drawing,
            shape: $shape,
            points: || $points($profile),
        }
    };
}

/// Two figures, on `apt` and on `cx6`: throughput of all systems by value size.
pub const BY_VALUE: [Figure; 2] = [
    figure!(
        "systems-by-value",
        "apt",
        "Systems by the size of values, 5 % PUTs",
        "value, B",
        Drawing::LogCurves,
        "one reply beats two READs until the link is full; then all do alike",
        by_value
    ),
    figure!(
        "systems-by-value-cx6",
        "cx6",
        "Systems by the size of values, 5 % PUTs, ConnectX-6",
        "value, B",
        Drawing::LogCurves,
        "as on Apt, at a higher level",
        by_value
    ),
];

/// Two figures, on `apt` and on `cx6`: throughput of all systems by the share of PUTs.
pub const BY_PUTS: [Figure; 2] = [
    figure!(
        "systems-by-puts",
        "apt",
        "Systems by the share of PUTs, items of 48 B",
        "PUTs, %",
        Drawing::Curves,
        "HERD is not affected; systems with READs are bound by the card until PUTs saturate one core",
        by_puts
    ),
    figure!(
        "systems-by-puts-cx6",
        "cx6",
        "Systems by the share of PUTs, items of 48 B, ConnectX-6",
        "PUTs, %",
        Drawing::Curves,
        "as on Apt; the core binds earlier",
        by_puts
    ),
];

/// Two figures, on `apt` and on `cx6`: throughput of all systems by the cores of the server.
pub const BY_CORES: [Figure; 2] = [
    figure!(
        "systems-by-cores",
        "apt",
        "Systems by the cores of the server, items of 48 B, 5 % PUTs",
        "cores",
        Drawing::Curves,
        "HERD needs five; systems with READs need one",
        by_cores
    ),
    figure!(
        "systems-by-cores-cx6",
        "cx6",
        "Systems by the cores of the server, items of 48 B, 5 % PUTs, ConnectX-6",
        "cores",
        Drawing::Curves,
        "as on Apt; HERD needs more of them to fill the card",
        by_cores
    ),
];

/// A model of memcached's sockets by the number of workers.
pub const SOCKETS_BY_CORES: Figure = Figure {
    name: "ours-sockets-by-cores",
    title: "A model: memcached's sockets by the number of workers, 5 % SETs",
    source: "our own, a model",
    x_axis: "workers",
    y_axis: "throughput, Mops",
    drawing: Drawing::LogCurves,
    shape: "forwarding takes more than half of a worker; reading in place grows with the workers until the connections ask no faster",
    points: sockets_by_cores,
};

fn sockets_by_cores() -> Vec<Point> {
    let mut points = Vec::new();
    for (connections, depth) in [(10, 1), (200, 1), (200, 32)] {
        for (way, in_place) in [("forward", false), ("in place", true)] {
            for workers in [1, 2, 4, 8, 16, 32] {
                let sockets = Sockets {
                    workers,
                    connections,
                    depth,
                    set_percent: 5,
                    in_place,
                };
                points.push(Point {
                    series: format!("model: {way}; {connections} connections x {depth}"),
                    against: None,
                    x: workers as f64,
                    metrics: vec![
                        Metric::Throughput,
                        Metric::Latency(1.0),
                        Metric::Named("wake-ups per operation", "1"),
                    ],
                    profile: "cx6",
                    changed: Vec::new(),
                    work: Work::Other(sockets.work()),
                });
            }
        }
    }
    points
}

fn by_value(profile: &'static str) -> Vec<Point> {
    side_by_side(profile, &[8, 32, 128, 512, 960], |plan, x| {
        plan.load.value_bytes = x
    })
}

fn by_puts(profile: &'static str) -> Vec<Point> {
    side_by_side(profile, &[0, 5, 20, 50, 100], |plan, x| {
        plan.load.put_percent = x as u64
    })
}

fn by_cores(profile: &'static str) -> Vec<Point> {
    side_by_side(profile, &[1, 2, 4, 6, 8], |plan, x| plan.servers.shard_count = x)
}

/// Throughput of every system at each of `xs`, in its set-up as `change` modifies it for that x.
fn side_by_side(profile: &'static str, xs: &[usize], change: impl Fn(&mut InCluster, usize)) -> Vec<Point> {
    let herd = xs.iter().map(|&x| {
        let mut plan = herd::in_batches();
        change(&mut plan, x);
        plan.point(profile, "HERD", x as f64)
    });
    herd.chain(others::rates(profile, xs, &change)).collect()
}
