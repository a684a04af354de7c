//! The counters that HERD contributes to the table of systems: their names, their metrics, and their values for a
//! worker.

use super::stats::Counters;
use drover_kv::{Counter, MetricFamily, WorkerStats};

const COMMANDS: MetricFamily = MetricFamily::COMMANDS;
const BULK: MetricFamily = family(
    "drover_bulk_operations_total",
    "Operations whose value moved through bulk memory.",
);
const RETRANSMITS: MetricFamily = family(
    "drover_retransmits_total",
    "Requests that a native client sent again.",
);
const DROPPED: MetricFamily = family(
    "drover_requests_dropped_total",
    "Native requests that got no answer.",
);
const REFUSED: MetricFamily = family("drover_requests_refused_total", "Native requests refused.");
const REPLIES: MetricFamily = family("drover_replies_total", "Replies to native clients.");
const DOORBELLS: MetricFamily = family("drover_doorbells_total", "Lists of replies handed to the fabric.");

const fn family(name: &'static str, help: &'static str) -> MetricFamily {
    MetricFamily { name, help }
}

/// A counter, and the function that returns its value for a worker.
type Row = (Counter, fn(&Counters, &WorkerStats) -> u64);

/// A count of events: name, value, help; then the metric that it feeds, if any, and its labels there.
macro_rules! events {
    ($name:ident, |$counters:ident| $value:expr, $help:literal
        $(, $family:ident $(, $label:ident = $of_label:literal)*)?) => {
        (
            Counter::events(stringify!($name), $help)
                $(.feeding($family, &[$((stringify!($label), $of_label)),*]))?,
            |$counters, _| $value,
        )
    };
}

#[rustfmt::skip] // a table: one counter a line
const ROWS: [Row; 26] = [
    events!(gets, |c| c.operations.gets, "GETs executed."),
    events!(get_hits, |c| c.operations.get_hits, "GETs that found their key.", COMMANDS, command = "get", status = "hit"),
    events!(puts, |c| c.operations.puts, "PUTs executed.", COMMANDS, command = "set", status = "done"),
    events!(deletes, |c| c.operations.deletes, "DELETEs executed."),
    (Counter::amount("items", "Items stored now, an estimate."), |_, worker| worker.partition.items),
    (Counter::amount("clients", "Clients with a session.").largest(), |_, worker| worker.clients as u64),
    events!(get_misses, |c| c.operations.gets - c.operations.get_hits, "GETs that found nothing.", COMMANDS, command = "get", status = "miss"),
    events!(delete_hits, |c| c.operations.delete_hits, "DELETEs that found their key.", COMMANDS, command = "delete", status = "hit"),
    events!(delete_misses, |c| c.operations.deletes - c.operations.delete_hits, "DELETEs that found nothing.", COMMANDS, command = "delete", status = "miss"),
    events!(nops, |c| c.operations.nops, "NOPs answered."),
    events!(bulk_ops, |c| c.operations.bulk_ops, "GETs and PUTs through bulk memory.", BULK),
    events!(retransmits, |c| c.irregular.retransmits, "Retransmissions of the last request of a slot.", RETRANSMITS),
    events!(ignored, |c| c.irregular.ignored, "Requests older than an executed one, or ruled out.", DROPPED, reason = "superseded"),
    events!(bad_requests, |c| c.refused.bad_requests, "Requests answered `BadRequest`.", REFUSED, reason = "bad_request"),
    events!(wrong_partition, |c| c.refused.wrong_partition, "Requests answered `WrongPartition`.", REFUSED, reason = "wrong_partition"),
    events!(stale_epoch, |c| c.refused.stale_epoch, "Requests answered `StaleEpoch`.", REFUSED, reason = "stale_epoch"),
    events!(elsewhere, |c| c.refused.elsewhere, "Requests answered `Elsewhere`.", REFUSED, reason = "elsewhere"),
    events!(crc_mismatches, |c| c.irregular.crc_mismatches, "Looks at a slot whose checksum did not match yet."),
    events!(crc_dropped, |c| c.irregular.crc_dropped, "Requests whose checksum never matched.", DROPPED, reason = "checksum"),
    events!(out_of_turn, |c| c.irregular.out_of_turn, "Requests found in another slot than expected."),
    events!(stray_datagrams, |c| c.irregular.stray_datagrams, "Datagrams that named no client.", DROPPED, reason = "stray"),
    events!(replies, |c| c.replies.posted, "Replies posted.", REPLIES, status = "posted"),
    events!(replies_failed, |c| c.replies.failed, "Replies that the fabric did not take.", REPLIES, status = "failed"),
    events!(replies_deferred, |c| c.replies.deferred, "GETs to be asked again, for lack of memory.", REPLIES, status = "deferred"),
    events!(doorbells, |c| c.replies.doorbells, "Lists of replies posted.", DOORBELLS),
    events!(resyncs, |c| c.irregular.resyncs, "Positions ruled out by a client's `Resync`."),
];

/// HERD's counters of each partition, for [`Facts::counters`](drover_kv::Facts::counters).
pub(crate) const COUNTERS: [Counter; ROWS.len()] = {
    let mut counters = [ROWS[0].0; ROWS.len()];
    let mut index = 1;
    while index < ROWS.len() {
        counters[index] = ROWS[index].0;
        index += 1;
    }
    counters
};

/// Values of [`COUNTERS`] for one worker, in their order.
pub(super) fn values(counters: &Counters, worker: &WorkerStats) -> Vec<u64> {
    ROWS.iter().map(|(_, value)| value(counters, worker)).collect()
}
