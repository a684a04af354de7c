//! Points of the real systems of shards, shown next to their emulations in the figures about HERD. They are
//! unpublished.

use crate::figure::Point;
use crate::in_cluster::InCluster;
use crate::one_sided::{Form, OneSided};

/// Fig. 9: x the percentage of PUTs.
pub fn by_put_share() -> Vec<Point> {
    rates("apt", &[5, 50, 100], |plan, x| plan.load.put_percent = x as u64)
}

/// Fig. 10: x the bytes of a value, on the machines of `profile`.
pub fn by_value(profile: &'static str) -> Vec<Point> {
    rates(profile, &[4, 16, 32, 64, 128, 256, 512, 1024], |plan, x| {
        plan.load.value_bytes = x
    })
}

/// Fig. 11: x a rate. The load is the smallest that reaches this rate.
pub fn by_rate() -> Vec<Point> {
    all(&[1.0, 5.0, 9.0], |form, mops| {
        OneSided::published(form).latencies_at("apt", form.name, mops)
    })
}

/// Fig. 13: x the cores of the server; only PUTs, as GETs need no core.
pub fn by_cores() -> Vec<Point> {
    let points = rates("apt", &[1, 2, 3, 4, 5, 6, 7], |plan, x| {
        (plan.cores, plan.load.put_percent) = (x, 100);
    });
    let puts = |point: Point| Point {
        series: format!("{} / PUT", point.series),
        ..point
    };
    points.into_iter().map(puts).collect()
}

/// Rates at every x of the published set-up modified by `change`.
pub fn rates(profile: &'static str, xs: &[usize], change: impl Fn(&mut OneSided, usize)) -> Vec<Point> {
    all(xs, |form, x| {
        let mut plan = OneSided::published(form);
        change(&mut plan, x);
        plan.point(profile, form.name, x as f64)
    })
}

fn all<X: Copy>(xs: &[X], point: impl Fn(Form, X) -> Point) -> Vec<Point> {
    let curve = |form| {
        let points: Vec<Point> = xs.iter().map(|x| point(form, *x)).collect();
        points
    };
    Form::all().into_iter().flat_map(curve).collect()
}
