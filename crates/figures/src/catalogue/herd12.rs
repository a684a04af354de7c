//! HERD Fig. 12: throughput by the number of client processes, 16-byte keys and 32-byte values. x 10 to 558, y 0 to 30 Mops.

use crate::figure::{Figure, Point};
use crate::herd::Herd;

/// The figure.
pub const FIGURE: Figure = Figure {
    name: "herd-12",
    title: "Throughput by the number of client processes",
    source: "[HERD] Fig. 12",
    x_axis: "client processes",
    y_axis: "throughput, Mops",
    x_doubles: false,
    shape: "flat until the queue pairs of some 260 clients fill the card's cache, then falling, less so with the wider window",
    points,
};

/// Machines that clients are dealt out to: all of the cluster but the server.
const MACHINES: usize = 186;
const CLIENTS: [usize; 14] = [10, 50, 51, 100, 150, 180, 220, 240, 260, 280, 300, 372, 450, 558];

fn points() -> Vec<Point> {
    let curve = |window: usize| {
        CLIENTS.map(|clients| {
            let herd = Herd {
                clients,
                machines: clients.min(MACHINES),
                window,
                ..Herd::published()
            };
            herd.point("apt", format!("window {window}"), clients as f64)
        })
    };
    [curve(4), curve(16)].concat()
}
