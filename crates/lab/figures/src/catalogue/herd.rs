//! HERD itself in its figures: the real system, as published and as we ship it.

use crate::figure::Point;
use crate::in_cluster::{Form, InCluster};

/// The set-up of the HERD paper, with HERD as the paper describes it.
pub fn published() -> InCluster {
    InCluster::published(Form::named("HERD"))
}

/// The set-up of the HERD paper, with HERD as we ship it, which handles requests in batches.
pub fn in_batches() -> InCluster {
    InCluster::published(Form::named("HERD in batches"))
}

/// Two points on `apt`, one of [`published`] and one of [`in_batches`], each set-up modified by `change`. Both are
/// compared with the published curve `HERD`.
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
