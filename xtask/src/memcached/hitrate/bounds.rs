//! What drover must reach.

use super::capacity::{Capacity, SIZES};
use super::contest::Contest;

/// Percentage points by which drover's hit rate must be above memcached's, by stream.
const LEADS: &[(&str, f64)] = &[
    ("zipf1.2", 0.0),
    ("zipf0.99", 2.5),
    ("zipf0.8", 4.0),
    ("onetime", 3.0),
    ("mixed", 0.5),
];
/// The same of the short form, and drover's hit rate in it, percent, at least: what was measured, less one to two points.
/// memcached's rate depends on how fast the requests come, drover's does not.
const SHORT: &[(&str, f64, f64)] = &[
    ("zipf0.99", 1.5, 79.5),
    ("onetime", 2.5, 61.0),
    ("mixed", 2.0, 68.0),
];
/// Resident memory of drover with as little memory as in the short form, above memcached's, KiB: buffers and code.
const SHORT_MORE_KIB: u64 = 6 << 10;
/// Policy of the oracle that drover is compared with.
const POLICY: &str = "S3-FIFO";
/// Percentage points by which drover's hit rate may be below that policy's.
const BEHIND_MAX: f64 = 1.0;

/// The bounds that a stream's results miss.
pub fn missed(contest: &Contest, is_short: bool) -> Vec<String> {
    let name = contest.stream().name();
    let mut missed = Vec::new();
    if contest.stream().expires() {
        return missed;
    }
    if is_short {
        let short = SHORT.iter().find(|(stream, _, _)| *stream == name);
        let least = |&(_, lead, percent): &(&str, f64, f64)| {
            let drover = contest.drover_percent();
            [behind(contest.lead(), lead), below(drover, percent)]
        };
        missed.extend(short.map(least).into_iter().flatten().flatten());
    } else {
        let lead = LEADS.iter().find(|(stream, _)| *stream == name);
        missed.extend(lead.and_then(|(_, least)| behind(contest.lead(), *least)));
    }
    let policy = contest.simulated_percent(POLICY);
    missed.extend(policy.and_then(|percent| too_far_behind(contest.drover_percent(), percent)));
    let [memcached, drover] = contest.held();
    let more_kib = if is_short { SHORT_MORE_KIB } else { 0 };
    missed.extend(larger(drover.resident_kib(), memcached.resident_kib() + more_kib));
    missed.extend(lost(drover.found_count(), drover.item_count()));
    missed
}

/// The bound that the results of a size of items miss.
pub fn missed_by(capacity: &Capacity) -> Option<String> {
    let size = SIZES.iter().find(|(bytes, _)| *bytes == capacity.value_bytes());
    let (_, least) = size?;
    let percent = capacity.lead_percent();
    (percent < *least).then(|| format!("{percent:+.1} % items instead of at least {least:+.1} %"))
}

fn behind(lead: f64, least: f64) -> Option<String> {
    (lead < least).then(|| format!("{lead:+.2} points to memcached instead of at least {least:+.2}"))
}

fn below(percent: f64, least: f64) -> Option<String> {
    (percent < least).then(|| format!("hit rate {percent:.2} % instead of at least {least:.2} %"))
}

fn too_far_behind(percent: f64, policy: f64) -> Option<String> {
    let behind = policy - percent;
    (behind > BEHIND_MAX)
        .then(|| format!("{behind:.2} points below {POLICY} instead of at most {BEHIND_MAX:.2}"))
}

fn larger(drover_kib: u64, memcached_kib: u64) -> Option<String> {
    (drover_kib > memcached_kib)
        .then(|| format!("{drover_kib} KiB resident, more than memcached's {memcached_kib} KiB"))
}

fn lost(found: u64, reported: u64) -> Option<String> {
    (found != reported).then(|| format!("gets find {found} items, but curr_items is {reported}"))
}

#[cfg(test)]
mod tests {
    use super::super::stream::STREAMS;
    use super::*;

    #[test]
    fn every_bound_is_of_a_stream() {
        let short = SHORT.iter().map(|(name, _, _)| name);
        for name in LEADS.iter().map(|(name, _)| name).chain(short) {
            assert!(STREAMS.iter().any(|stream| stream.name() == *name), "{name}");
        }
    }

    #[test]
    fn a_bound_itself_is_reached() {
        assert_eq!(behind(2.5, 2.5), None);
        assert!(behind(2.4, 2.5).is_some());
        assert_eq!(below(60.0, 60.0), None);
        assert!(below(59.9, 60.0).is_some());
        assert_eq!(too_far_behind(79.0, 80.0), None);
        assert!(too_far_behind(78.9, 80.0).is_some());
        assert_eq!(larger(5, 5), None);
        assert!(larger(6, 5).is_some());
        assert_eq!(lost(7, 7), None);
        assert!(lost(6, 7).is_some());
    }
}
