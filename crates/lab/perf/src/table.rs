//! The result table, with perftest's columns, so that scripts for perftest can read it.

use crate::plan::kind_name;
use crate::rate::per_second;
use crate::{Found, Metric, Op, Plan, Verb};
use serde::Serialize;
use std::fmt;

/// A row of a latency table, times in microseconds: half a round trip for SEND and WRITE, a whole one for READ and
/// atomics.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct LatencyRow {
    /// Message size, bytes.
    pub bytes: u32,
    /// Number of measured iterations, without the warm-up.
    pub iterations: u64,
    /// Minimum latency (of SEND and WRITE half the round trip), microseconds.
    pub t_min: f64,
    /// Maximum latency (of SEND and WRITE half the round trip), microseconds.
    pub t_max: f64,
    /// Median latency (of SEND and WRITE half the round trip), microseconds.
    pub t_typical: f64,
    /// Mean latency (of SEND and WRITE half the round trip), microseconds.
    pub t_avg: f64,
    /// Standard deviation of the latency (of SEND and WRITE half the round trip), microseconds.
    pub t_stdev: f64,
    /// 99th percentile of the latency (of SEND and WRITE half the round trip), microseconds.
    pub p99: f64,
    /// 99.9th percentile of the latency (of SEND and WRITE half the round trip), microseconds.
    pub p999: f64,
}

/// A row of a rate table.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct RateRow {
    /// Message size, bytes.
    pub bytes: u32,
    /// Number of requests counted, without the warm-up.
    pub iterations: u64,
    /// Highest bandwidth of any stretch of at least [`tx_depth`](Plan::tx_depth) consecutive requests, MiB per second;
    /// at least `bw_average`. The measurement is divided into such stretches.
    pub bw_peak: f64,
    /// Average bandwidth of the counted requests, MiB per second.
    pub bw_average: f64,
    /// Average rate, millions of requests per second.
    pub msg_rate: f64,
    /// Number of SENDs posted (warm-up included) that the server had not received when it was asked: UC and UD may lose
    /// some. 0 for other verbs.
    pub lost: u64,
}

/// A row of the result table: the results of a latency or a rate test with one message size.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(untagged)]
pub enum Row {
    /// Row of a latency test.
    Latency(LatencyRow),
    /// Row of a rate test.
    Rate(RateRow),
}

/// perftest's megabyte.
const MEGABYTE: f64 = (1 << 20) as f64;

impl Row {
    /// Makes the row for messages of `bytes` bytes from the result `found`; halves the round trips of SEND and WRITE.
    /// `lost` becomes [`RateRow::lost`]; it is unused in a latency test.
    pub fn new(op: Op, bytes: u32, found: &Found, lost: u64) -> Row {
        match found {
            Found::Latency(latency) => {
                // A round trip is twice the one-way time.
                let part = match op.verb {
                    Verb::Send | Verb::Write => 0.5,
                    Verb::Read | Verb::Atomic => 1.0,
                };
                let (summary, spread) = (latency.summary(), latency.spread());
                Row::Latency(LatencyRow {
                    bytes,
                    iterations: latency.count(),
                    t_min: spread.min * part,
                    t_max: spread.max * part,
                    t_typical: summary.p50 * part,
                    t_avg: summary.mean * part,
                    t_stdev: spread.stdev * part,
                    p99: summary.p99 * part,
                    p999: summary.p999 * part,
                })
            }
            Found::Rate { count, time, peak } => {
                let (rate, scale) = (per_second(*count, *time), f64::from(bytes) / MEGABYTE);
                Row::Rate(RateRow {
                    bytes,
                    iterations: *count,
                    bw_peak: peak * scale,
                    bw_average: rate * scale,
                    msg_rate: rate / 1e6,
                    lost,
                })
            }
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Row::Latency(row) => write!(
                f,
                " {:<7} {:<11} {:<14.2} {:<14.2} {:<16.2} {:<14.2} {:<16.2} {:<22.2} {:<.2}",
                row.bytes,
                row.iterations,
                row.t_min,
                row.t_max,
                row.t_typical,
                row.t_avg,
                row.t_stdev,
                row.p99,
                row.p999
            ),
            Row::Rate(row) => {
                write!(
                    f,
                    " {:<10} {:<14} {:<18.2} {:<21.2} {:<.6}",
                    row.bytes, row.iterations, row.bw_peak, row.bw_average, row.msg_rate
                )?;
                match row.lost {
                    0 => Ok(()),
                    lost => write!(f, "   ({lost} lost)"),
                }
            }
        }
    }
}

const LINE: &str =
    "---------------------------------------------------------------------------------------------------";

/// Formats the lines above the rows of the table: the test, its settings and the names of the columns. `fabric` (any
/// description of it) and `mtu_bytes` (the path MTU) are only shown.
pub fn head(plan: &Plan, fabric: &str, mtu_bytes: usize) -> String {
    let what = match plan.op.metric {
        Metric::Latency => "Latency",
        Metric::Rate => "BW",
    };
    let verb = match plan.op.verb {
        Verb::Send => "Send",
        Verb::Write => "RDMA_Write",
        Verb::Read => "RDMA_Read",
        Verb::Atomic => "Atomic",
    };
    let mut lines = vec![LINE.to_string(), format!("{:20}{verb} {what} Test", "")];
    let mut line = |name: &str, value: String| lines.push(format!(" {name:<16}: {value}"));
    line("Fabric", fabric.to_string());
    line("Connection type", kind_name(plan.kind).to_string());
    line("Number of qps", "1".to_string());
    line("TX depth", plan.tx_depth.to_string());
    match plan.op {
        Op { verb: Verb::Send, .. } => line("RX depth", plan.rx_depth.to_string()),
        Op {
            verb: Verb::Atomic, ..
        } => line("Atomic", plan.atomic.to_string()),
        _ => {}
    }
    line("CQ Moderation", plan.signal_every().to_string());
    line("Mtu", format!("{mtu_bytes}[B]"));
    line("Max inline data", format!("{}[B]", plan.inline_bytes));
    line("Measured", measured(plan.op).to_string());
    lines.push(LINE.to_string());
    lines.push(columns(plan.op.metric).to_string());
    lines.join("\n") + "\n"
}

fn measured(op: Op) -> &'static str {
    match (op.metric, op.verb) {
        (Metric::Latency, Verb::Send | Verb::Write) => "half a round trip",
        (Metric::Latency, _) => "a whole round trip",
        (Metric::Rate, _) => "at the end that posts",
    }
}

fn columns(metric: Metric) -> &'static str {
    match metric {
        Metric::Latency => {
            " #bytes  #iterations t_min[usec]    t_max[usec]    t_typical[usec]  t_avg[usec]    t_stdev[usec]    \
             99% percentile[usec]   99.9% percentile[usec]"
        }
        Metric::Rate => " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]    MsgRate[Mpps]",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drover_base::Ns;
    use drover_bench::Latency;
    use drover_verbs::Caps;

    fn op(name: &str) -> Op {
        name.parse().expect("a test")
    }

    fn latency() -> Found {
        let mut latency = Latency::new();
        (1..=1000).for_each(|us| latency.record(us * 1000));
        Found::Latency(latency)
    }

    #[test]
    fn one_way_is_half_for_messages_and_whole_for_what_comes_back() {
        let typical = |name: &str| match Row::new(op(name), 2, &latency(), 0) {
            Row::Latency(row) => row.t_typical,
            Row::Rate(_) => panic!("a latency"),
        };
        let near = |got: f64, want: f64| (got - want).abs() < 0.5;
        assert!(near(typical("write-lat"), 250.0) && near(typical("send-lat"), 250.0));
        assert!(near(typical("read-lat"), 500.0) && near(typical("atomic-lat"), 500.0));
    }

    #[test]
    fn rates_in_megabytes_and_messages() {
        let found = Found::Rate {
            count: 1000,
            time: Ns::from_ms(1),
            peak: 2e6,
        };
        let row = Row::new(op("write-bw"), 1 << 20, &found, 0);
        assert_eq!(
            row.to_string(),
            " 1048576    1000           2000000.00         1000000.00            1.000000"
        );
        let row = Row::new(op("send-bw"), 64, &found, 3).to_string();
        assert!(row.ends_with("1.000000   (3 lost)"), "{row}");
    }

    #[test]
    fn columns_stand_above_their_figures() {
        let head = head(&Plan::new(op("write-lat"), &Caps::none()), "shm", 4096);
        let columns = head.lines().last().expect("columns");
        let row = Row::new(op("write-lat"), 2, &latency(), 0).to_string();
        assert_eq!(
            row,
            " 2       1000        0.50           500.22         250.11           250.25         144.34           \
             495.10                 499.71"
        );
        let starts = |text: &str| -> Vec<usize> {
            let bytes = text.as_bytes();
            (1..text.len())
                .filter(|&at| bytes[at - 1] == b' ' && bytes[at] != b' ')
                .collect()
        };
        let heads = starts(&columns.replace("% percentile", "%_percentile"));
        assert_eq!(heads, starts(&row), "{columns}\n{row}");
    }
}
