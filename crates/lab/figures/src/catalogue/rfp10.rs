//! RFP Figs. 10 and 12: threads of clients and of the server. y 0 to 6 Mops.

use super::rfp_systems::{MACHINES, curves};
use crate::figure::{Drawing, Figure, Point};

/// RFP Fig. 10: throughput by the number of client threads.
pub const FIGURE_10: Figure = Figure {
    name: "rfp-10",
    title: "Throughput by client threads on seven machines",
    source: "[RFP] Fig. 10",
    x_axis: "client threads",
    y_axis: "throughput, Mops",
    drawing: Drawing::Curves,
    shape: "Jakiro rises to 5.5 at 35 threads, then falls slowly",
    points: by_client_threads,
};

/// RFP Fig. 12: throughput by the number of server threads.
pub const FIGURE_12: Figure = Figure {
    name: "rfp-12",
    title: "Throughput by threads of the server",
    source: "[RFP] Fig. 12",
    x_axis: "server threads",
    y_axis: "throughput, Mops",
    drawing: Drawing::Curves,
    shape: "Jakiro is flat from two threads on; ServerReply is fastest with six, and always slower",
    points: by_server_threads,
};

/// The last is of the text: 16 threads on each machine.
const CLIENTS: [usize; 11] = [7, 14, 21, 28, 35, 42, 49, 56, 63, 70, 112];

fn by_client_threads() -> Vec<Point> {
    curves(&CLIENTS, |plan, clients| {
        (plan.clients, plan.threads) = (clients, clients / MACHINES);
    })
}

fn by_server_threads() -> Vec<Point> {
    curves(&[1, 2, 4, 6, 8, 10, 12, 14, 16], |plan, cores| {
        plan.servers.shard_count = cores;
    })
}
