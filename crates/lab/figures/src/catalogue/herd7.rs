//! HERD Fig. 7: echo by WRITE and SEND over UD with random memory accesses per request. x 1 to 5 cores, y 0 to 30 Mops.

use crate::figure::{Drawing, Figure, Point};
use crate::micro::{Accesses, Bench, Echo, Via};
use drover_verbs::QpKind;

/// HERD Fig. 7: throughput of an echo with memory accesses, by cores.
pub const FIGURE: Figure = Figure {
    name: "herd-7",
    title: "Prefetching hides random memory accesses",
    source: "[HERD] Fig. 7",
    x_axis: "cores",
    y_axis: "throughput, Mops",
    drawing: Drawing::Curves,
    shape: "with prefetching five cores do 26 Mops even with 8 accesses per request; without, a fourth of that",
    points,
};

fn points() -> Vec<Point> {
    let mut points = Vec::new();
    for (series, accesses) in [
        ("2 accesses", Accesses::Plain(2)),
        ("2 accesses / prefetch", Accesses::Prefetched(2)),
        ("8 accesses", Accesses::Plain(8)),
        ("8 accesses / prefetch", Accesses::Prefetched(8)),
    ] {
        for cores in 1..=5 {
            points.push(Point::throughput(
                "apt",
                series,
                cores as f64,
                echo(cores, accesses),
            ));
        }
    }
    points
}

fn echo(cores: usize, accesses: Accesses) -> Bench {
    Bench::Echo(Echo {
        request: Via::Write,
        reply: Via::Datagram,
        kind: QpKind::Uc,
        bytes: 32,
        inline: true,
        signaled: false,
        accesses,
        server_threads: cores,
        client_machines: 17,
        clients: 3,
        window: 4,
    })
}
