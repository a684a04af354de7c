//! RFP Figs. 9, 14 and 15: calls that take the server long.

use super::rfp_systems::{JAKIRO, MANY_CORES, NEVER_SLOW, SERVER_REPLY, SLOW_READS, TUNED};
use crate::figure::{Drawing, Figure, Point};
use crate::in_cluster::{CLIENT_CPU, InCluster, OF_MODES};
use drover_kv::FetchChoice;

/// RFP Fig. 9: throughput of fetched and of pushed results of one byte, by the server's time per call. y 0 to 6 Mops.
pub const FIGURE_9: Figure = Figure {
    name: "rfp-9",
    title: "Results of 1 B, fetched or pushed, by the server's time per call",
    source: "[RFP] Fig. 9",
    x_axis: "time per call, us",
    y_axis: "throughput, Mops",
    drawing: Drawing::Curves,
    shape: "fetching falls from 5.5, pushing peaks at 1.8 near 5 us; they meet at 15 us",
    points: fetched_and_pushed,
};

/// RFP Fig. 14: throughput of the systems by the server's time per call. y 0 to 6 Mops.
pub const FIGURE_14: Figure = Figure {
    name: "rfp-14",
    title: "Throughput by the server's time per call",
    source: "[RFP] Fig. 14",
    x_axis: "time per call, us",
    y_axis: "throughput, Mops",
    drawing: Drawing::Curves,
    shape: "Jakiro is as fast as without changes of modes until 6 us, and from 7 us on as ServerReply",
    points: by_time,
};

/// RFP Fig. 15: how many of the clients' cores calls take, by the server's time per call. y 0 to 100 %.
pub const FIGURE_15: Figure = Figure {
    name: "rfp-15",
    title: "Clients' cores by the server's time per call",
    source: "[RFP] Fig. 15",
    x_axis: "time per call, us",
    y_axis: "share of the clients' cores, %",
    drawing: Drawing::Curves,
    shape: "100 % until 6 us; a quarter and less from 7 us on",
    points: by_time_at_clients,
};

/// Calls take so long, on as many cores as the paper has for it.
fn slow(plan: &mut InCluster, us: usize) {
    plan.handler_us = us as f64;
    plan.servers.shard_count = MANY_CORES;
}

fn fetched_and_pushed() -> Vec<Point> {
    let mut points = Vec::new();
    for us in 1..=15 {
        for (entry, series) in [
            (JAKIRO, "repeated fetch"),
            (SERVER_REPLY, "server reply"),
            (TUNED, "server reply tuned"),
        ] {
            let point = entry.point(us as f64, |plan| {
                slow(plan, us);
                (plan.load.value_bytes, plan.load.put_percent) = (1, 0);
                plan.fetch = Some(FetchChoice {
                    slow_reads: NEVER_SLOW,
                    first_bytes: 1,
                    takes_turns: false,
                });
            });
            points.push(Point {
                series: series.to_owned(),
                ..point
            });
        }
    }
    points
}

/// A point of Jakiro that changes modes after so many failed READs.
fn jakiro(us: usize, slow_reads: u32) -> Point {
    JAKIRO.point(us as f64, |plan| {
        slow(plan, us);
        plan.modes_settle = slow_reads < NEVER_SLOW;
        if let Some(fetch) = &mut plan.fetch {
            fetch.slow_reads = slow_reads;
        }
    })
}

fn by_time() -> Vec<Point> {
    let mut points = Vec::new();
    for us in 1..=12 {
        let mut point = jakiro(us, SLOW_READS);
        point.metrics.extend(OF_MODES);
        points.push(point);
        for entry in [SERVER_REPLY, TUNED] {
            points.push(entry.point(us as f64, |plan| slow(plan, us)));
        }
        points.push(Point {
            series: "Jakiro without changes".to_owned(),
            ..jakiro(us, NEVER_SLOW)
        });
    }
    points
}

fn by_time_at_clients() -> Vec<Point> {
    let mut points = Vec::new();
    for us in 1..=12 {
        let mut point = jakiro(us, SLOW_READS);
        point.metrics = vec![CLIENT_CPU, OF_MODES[0]];
        points.push(point);
        points.push(
            SERVER_REPLY
                .point(us as f64, |plan| slow(plan, us))
                .showing(CLIENT_CPU),
        );
    }
    points
}
