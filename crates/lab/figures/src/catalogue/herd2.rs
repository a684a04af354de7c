//! HERD Fig. 2: latency of one verb from one client to one server, by payload. x 4 to 1024 B, y 1 to 4 us.

use super::parts::alone;
use crate::figure::{Drawing, Figure, Metric, Point};
use crate::micro::{Accesses, Bench, Echo, Verb, Via};
use drover_verbs::QpKind;

/// HERD Fig. 2: latency of verbs and of an echo, by payload.
pub const FIGURE: Figure = Figure {
    name: "herd-2",
    title: "Latency of verbs and of an echo, one client",
    source: "[HERD] Fig. 2",
    x_axis: "payload, B",
    y_axis: "latency, us",
    drawing: Drawing::LogCurves,
    shape: "READ as late as a signaled WRITE; inline earlier while small; half an echo about half a READ",
    points,
};

fn points() -> Vec<Point> {
    let verb = |series: &'static str, verb, inline, sizes: &[usize]| -> Vec<Point> {
        let point = |&bytes: &usize| {
            let bench = Bench::Verbs(alone(verb, QpKind::Rc, bytes, inline));
            Point::throughput("apt", series, bytes as f64, bench).showing(Metric::Latency(1.0))
        };
        sizes.iter().map(point).collect()
    };
    let mut points = verb("WRITE inline", Verb::Write, true, &[4, 16, 64, 256]);
    points.extend(verb("WRITE", Verb::Write, false, &[4, 16, 64, 256, 1024]));
    points.extend(verb("READ", Verb::Read, false, &[4, 16, 64, 256, 1024]));
    for bytes in [4, 16, 64, 256] {
        for (series, factor) in [("ECHO", 1.0), ("ECHO / 2", 0.5)] {
            let point = Point::throughput("apt", series, bytes as f64, echo(bytes));
            points.push(point.showing(Metric::Latency(factor)));
        }
    }
    points
}

fn echo(bytes: usize) -> Bench {
    Bench::Echo(Echo {
        request: Via::Write,
        reply: Via::Write,
        kind: QpKind::Rc,
        bytes,
        inline: true,
        signaled: false,
        accesses: Accesses::None,
        server_threads: 1,
        client_machines: 1,
        clients: 1,
        window: 1,
    })
}
