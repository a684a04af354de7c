//! Points of the real systems other than HERD, shown next to their emulations in HERD's figures. No published values exist
//! for them.

use crate::figure::Point;
use crate::in_cluster::{Form, InCluster};

/// Points for HERD Fig. 9 of every system but HERD: throughput by the percentage of PUTs.
pub fn by_put_share() -> Vec<Point> {
    rates("apt", &[5, 50, 100], |plan, x| plan.load.put_percent = x as u64)
}

/// Points for HERD Fig. 10 of every system but HERD: throughput by the bytes of a value, on machines of `profile`.
pub fn by_value(profile: &'static str) -> Vec<Point> {
    rates(profile, &[4, 16, 32, 64, 128, 256, 512, 1024], |plan, x| {
        plan.load.value_bytes = x
    })
}

/// Points for HERD Fig. 11 of every system but HERD: latencies at 1, 5 and 9 Mops, each with the fewest clients that
/// reach the rate.
pub fn by_rate() -> Vec<Point> {
    all(&[1.0, 5.0, 9.0], |form, mops| {
        InCluster::on_one_core(form).latencies_at("apt", form.name, mops)
    })
}

/// Points for HERD Fig. 13 of every system but HERD: throughput of PUTs by the cores of the server. GETs need no core.
pub fn by_cores() -> Vec<Point> {
    let points = rates("apt", &[1, 2, 3, 4, 5, 6, 7], |plan, x| {
        (plan.servers.shard_count, plan.load.put_percent) = (x, 100);
    });
    let puts = |point: Point| Point {
        series: format!("{} / PUT", point.series),
        ..point
    };
    points.into_iter().map(puts).collect()
}

/// Points that show the throughput of every system but HERD at each of `xs`. The set-up is [`InCluster::on_one_core`],
/// as `change` modifies it for that x.
pub fn rates(profile: &'static str, xs: &[usize], change: impl Fn(&mut InCluster, usize)) -> Vec<Point> {
    all(xs, |form, x| {
        let mut plan = InCluster::on_one_core(form);
        change(&mut plan, x);
        plan.point(profile, form.name, x as f64)
    })
}

fn all<X: Copy>(xs: &[X], point: impl Fn(Form, X) -> Point) -> Vec<Point> {
    let curve = |form| {
        let points: Vec<Point> = xs.iter().map(|x| point(form, *x)).collect();
        points
    };
    Form::of_others("herd").into_iter().flat_map(curve).collect()
}
