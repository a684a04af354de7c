//! HERD Fig. 5: echo of 32 B with optimisations added one by one. x the optimisations, y 0 to 30 Mops.

use crate::figure::{Drawing, Figure, Point};
use crate::micro::{Accesses, Bench, Echo, Via};
use drover_verbs::QpKind;

/// HERD Fig. 5: throughput of an echo with optimisations added one by one.
pub const FIGURE: Figure = Figure {
    name: "herd-5",
    title: "Echo of 32 B, optimisations added one by one",
    source: "[HERD] Fig. 5",
    x_axis: "optimisations, added one by one",
    y_axis: "throughput, Mops",
    drawing: Drawing::Steps(&["basic", "unreliable", "and unsignaled", "and inlined"]),
    shape: "each step helps; with all, 26 Mops by WRITE and 21 by SEND",
    points,
};

fn points() -> Vec<Point> {
    let mut points = Vec::new();
    for (series, request, reply) in [
        ("SEND/SEND", Via::Send, Via::Send),
        ("WRITE/WRITE", Via::Write, Via::Write),
        ("WRITE/SEND", Via::Write, Via::Datagram),
    ] {
        for step in 0..4 {
            points.push(Point::throughput(
                "apt",
                series,
                f64::from(step),
                echo(request, reply, step, 32),
            ));
        }
    }
    let short = echo(Via::Write, Via::Write, 3, 16);
    points.push(Point::throughput("apt", "WRITE/WRITE 16 B", 3.0, short));
    points
}

fn echo(request: Via, reply: Via, step: i32, bytes: usize) -> Bench {
    // Datagrams are unreliable, so the basic variant replies over the connection.
    let reply = if step == 0 && reply == Via::Datagram {
        Via::Send
    } else {
        reply
    };
    Bench::Echo(Echo {
        request,
        reply,
        kind: if step == 0 { QpKind::Rc } else { QpKind::Uc },
        bytes,
        inline: step >= 3,
        signaled: step < 2,
        accesses: Accesses::None,
        server_threads: 16,
        client_machines: 16,
        clients: 1,
        window: 16,
    })
}
