//! Number of requests that a card has served, from the counters of vendors' cards.

use crate::cluster::Cluster;

/// Names of the counters whose sum is the number of requests served.
const SERVED: [&str; 4] = [
    "rx_write_requests",
    "rx_read_requests",
    "rx_atomic_requests",
    "rx_send_requests",
];

/// Number of requests that `machine`'s card has served so far; `None` if it has none of the counters.
pub fn count<R: Cluster>(cluster: &R, machine: usize) -> Option<u64> {
    let counters = SERVED.iter().filter_map(|name| cluster.counter(machine, name));
    counters.fold(None, |sum, count| Some(sum.unwrap_or(0) + count))
}
