//! HERD itself in its figures: the real system, as published and as we ship it.

use crate::figure::Point;
use crate::in_cluster::{Form, InCluster};

/// HERD's published set-up, as published.
pub fn published() -> InCluster {
    InCluster::published(Form::named("HERD"))
}

/// The same as we ship HERD.
pub fn in_batches() -> InCluster {
    InCluster::published(Form::named("HERD in batches"))
}

/// Two points on `apt`, both to compare with the published curve `HERD`: the published set-up in either form, as `change`
/// modifies it.
pub fn both(x: f64, change: impl Fn(&mut InCluster)) -> [Point; 2] {
    [published(), in_batches()].map(|mut plan| {
        change(&mut plan);
        let series = plan.form.name;
        Point {
            against: Some("HERD"),
            ..plan.point("apt", series, x)
        }
    })
}
