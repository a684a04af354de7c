//! The counters of the system's row: their names, their metrics, and how to read them off a worker.

use super::stats::Counters;
use drover_kv::{Counter, MetricFamily, ServiceStats, WorkerStats};
use std::fmt::Write;

type Labels = &'static [(&'static str, &'static str)];

const COMMANDS: MetricFamily = MetricFamily::COMMANDS;
const GET_HIT: Labels = &[("command", "get"), ("status", "hit")];
const GET_MISS: Labels = &[("command", "get"), ("status", "miss")];
const SET: Labels = &[("command", "set"), ("status", "done")];
const DELETE_HIT: Labels = &[("command", "delete"), ("status", "hit")];
const DELETE_MISS: Labels = &[("command", "delete"), ("status", "miss")];

const REFUSED: MetricFamily = family("drover_requests_refused_total", "Native requests refused.");
const BAD: Labels = &[("reason", "bad_request")];
const WRONG: Labels = &[("reason", "wrong_partition")];
const STALE: Labels = &[("reason", "stale_epoch")];

const DROPPED: MetricFamily = family(
    "drover_requests_dropped_total",
    "Native requests that got no answer.",
);
const CHECKSUM: Labels = &[("reason", "checksum")];
const STRAY: Labels = &[("reason", "stray")];
const SUPERSEDED: Labels = &[("reason", "superseded")];

const REPLIES: MetricFamily = family("drover_replies_total", "Replies to native clients.");
const POSTED: Labels = &[("status", "posted")];
const FAILED: Labels = &[("status", "failed")];
const DEFERRED: Labels = &[("status", "deferred")];

const RETRANSMITS: MetricFamily = family(
    "drover_retransmits_total",
    "Requests that a native client sent again.",
);
const DOORBELLS: MetricFamily = family("drover_doorbells_total", "Lists of replies handed to the fabric.");
const BULK: MetricFamily = family(
    "drover_bulk_operations_total",
    "Operations whose value moved through bulk memory.",
);

const fn family(name: &'static str, help: &'static str) -> MetricFamily {
    MetricFamily { name, help }
}

/// A counter, and its value for a worker.
type Row = (Counter, fn(&Counters, &WorkerStats) -> u64);

/// A count of events: its name, its field in [`Counters`], its help, and the metric that it feeds.
macro_rules! events {
    ($name:ident, $group:ident.$field:ident, $help:literal $(, $family:ident, $labels:expr)?) => {
        (
            Counter::events(stringify!($name), $help)$(.feeding($family, $labels))?,
            |counters, _| counters.$group.$field,
        )
    };
}

#[rustfmt::skip] // a table: one counter a line
const ROWS: [Row; 25] = [
    events!(gets, operations.gets, "GETs executed."),
    events!(get_hits, operations.get_hits, "GETs that found their key.", COMMANDS, GET_HIT),
    events!(puts, operations.puts, "PUTs executed.", COMMANDS, SET),
    events!(deletes, operations.deletes, "DELETEs executed."),
    (Counter::amount("items", "Items stored now, an estimate."), |_, worker| worker.partition.items),
    (Counter::amount("clients", "Clients with a session.").largest(), |_, worker| worker.clients as u64),
    (
        Counter::events("get_misses", "GETs that did not find their key.").feeding(COMMANDS, GET_MISS),
        |counters, _| counters.operations.gets - counters.operations.get_hits,
    ),
    (
        Counter::events("delete_misses", "DELETEs that did not find their key.").feeding(COMMANDS, DELETE_MISS),
        |counters, _| counters.operations.deletes - counters.operations.delete_hits,
    ),
    events!(delete_hits, operations.delete_hits, "DELETEs that found their key.", COMMANDS, DELETE_HIT),
    events!(nops, operations.nops, "NOPs answered."),
    events!(bulk_ops, operations.bulk_ops, "GETs and PUTs through bulk memory.", BULK, &[]),
    events!(retransmits, irregular.retransmits, "Retransmissions of the last request of a slot.", RETRANSMITS, &[]),
    events!(ignored, irregular.ignored, "Requests older than an executed one, or ruled out.", DROPPED, SUPERSEDED),
    events!(bad_requests, refused.bad_requests, "Requests answered `BadRequest`.", REFUSED, BAD),
    events!(wrong_partition, refused.wrong_partition, "Requests answered `WrongPartition`.", REFUSED, WRONG),
    events!(stale_epoch, refused.stale_epoch, "Requests answered `StaleEpoch`.", REFUSED, STALE),
    events!(crc_mismatches, irregular.crc_mismatches, "Looks at a slot whose checksum did not match yet."),
    events!(crc_dropped, irregular.crc_dropped, "Requests whose checksum never matched.", DROPPED, CHECKSUM),
    events!(out_of_turn, irregular.out_of_turn, "Requests found in another slot than expected."),
    events!(stray_datagrams, irregular.stray_datagrams, "Datagrams that named no client.", DROPPED, STRAY),
    events!(replies, replies.posted, "Replies posted.", REPLIES, POSTED),
    events!(replies_failed, replies.failed, "Replies that the fabric did not take.", REPLIES, FAILED),
    events!(replies_deferred, replies.deferred, "GETs to be asked again, for lack of memory.", REPLIES, DEFERRED),
    events!(doorbells, replies.doorbells, "Lists of replies posted.", DOORBELLS, &[]),
    events!(resyncs, irregular.resyncs, "Positions ruled out by a client's `Resync`."),
];

/// The counters of the system's row.
pub(crate) const COUNTERS: [Counter; ROWS.len()] = {
    let mut counters = [ROWS[0].0; ROWS.len()];
    let mut index = 1;
    while index < ROWS.len() {
        counters[index] = ROWS[index].0;
        index += 1;
    }
    counters
};

/// Values of the counters for one worker.
pub(super) fn values(counters: &Counters, worker: &WorkerStats) -> Vec<u64> {
    ROWS.iter().map(|(_, value)| value(counters, worker)).collect()
}

/// Lines of `drover stats`, and which counter each of them shows: memcached's name where it has one, otherwise the
/// counter's own.
const MEMCACHED: [(&str, &str); 6] = [
    ("cmd_get", "gets"),
    ("get_hits", "get_hits"),
    ("get_misses", "get_misses"),
    ("cmd_set", "puts"),
    ("cmd_delete", "deletes"),
    ("delete_hits", "delete_hits"),
];
/// Counters from this one on have only their own name.
const FIRST_OWN: &str = "nops";

/// Text of `drover stats`: lines `name value`.
pub(super) fn stats_text(stats: &ServiceStats) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: u64| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name} {value}");
    };
    line("uptime", stats.uptime_s);
    line("threads", stats.workers.len() as u64);
    line("curr_connections", stats.clients as u64);
    line("total_connections", stats.clients_total);
    line("datagram_connections", stats.datagram_clients as u64);
    line("curr_items", stats.total(|w| w.partition.items));
    line("bytes", stats.total(|w| w.partition.bytes));
    line("limit_maxbytes", stats.total(|w| w.partition.bytes_max));
    let evictions = |w: &WorkerStats| w.partition.evicted_bucket_full + w.partition.evicted_log_wrapped;
    line("evictions", stats.total(evictions));
    line("expired", stats.total(|w| w.partition.expired));
    for (name, counter) in MEMCACHED {
        line(name, stats.total(|w| number(w, counter)));
    }
    for counter in COUNTERS.iter().skip_while(|counter| counter.name != FIRST_OWN) {
        line(counter.name, stats.total(|w| number(w, counter.name)));
    }
    line("restarts", stats.total(|w| w.restarts));
    for (index, worker) in stats.workers.iter().enumerate() {
        let operations = ["gets", "puts", "deletes"].map(|name| number(worker, name));
        line(&format!("partition_{index}_ops"), operations.iter().sum());
        line(&format!("partition_{index}_items"), worker.partition.items);
    }
    text
}

/// Value of the counter called `name` for one worker.
fn number(worker: &WorkerStats, name: &str) -> u64 {
    let counters = COUNTERS.iter().zip(&worker.counters);
    counters
        .filter(|(counter, _)| counter.name == name)
        .map(|(_, value)| *value)
        .sum()
}
