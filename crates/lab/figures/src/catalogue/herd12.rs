//! HERD Fig. 12: throughput by the number of client processes, 16-byte keys and 32-byte values. x 10 to 558, y 0 to 30
//! Mops.

use super::herd;
use crate::figure::{Drawing, Figure, Point};
use crate::in_cluster::InCluster;

/// HERD Fig. 12: throughput of HERD, by the number of client processes.
pub const FIGURE: Figure = Figure {
    name: "herd-12",
    title: "Throughput by the number of client processes",
    source: "[HERD] Fig. 12",
    x_axis: "client processes",
    y_axis: "throughput, Mops",
    drawing: Drawing::Curves,
    shape: "flat until the queue pairs of some 260 clients fill the card's cache, then falling, less so with the wider window",
    points,
};

/// Number of client machines: all of the cluster except the server.
const MACHINES: usize = 186;
/// Cores of the server.
const CORES: usize = 6;
const FEWER_CLIENTS: [usize; 6] = [10, 220, 260, 300, 372, 558];
const CLIENTS: [usize; 14] = [10, 50, 51, 100, 150, 180, 220, 240, 260, 280, 300, 372, 450, 558];

fn points() -> Vec<Point> {
    let of_window = |window: usize| {
        CLIENTS.map(|clients| {
            plan(clients, window, window).point("apt", format!("window {window}"), clients as f64)
        })
    };
    // The authors' code has the window for all cores together; their text may mean one for each.
    let each_core = FEWER_CLIENTS.map(|clients| Point {
        against: Some("window 4"),
        ..plan(clients, 4 * CORES, 4).point("apt", "window 4 to each core", clients as f64)
    });
    let mut points = [of_window(4), of_window(16)].concat();
    points.extend(each_core);
    points
}

fn plan(clients: usize, depth: usize, window: usize) -> InCluster {
    InCluster {
        clients,
        machines: clients.min(MACHINES),
        depth,
        window,
        ..herd::published()
    }
}
