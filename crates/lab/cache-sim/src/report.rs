//! [`Report`]: the results, and what they mean.

use crate::cache::Cache;
use crate::feed::{Asked, Oddities};
use crate::sizes::show;
use crate::table::{commas, percent};
use crate::{Options, Policy};
use serde::Serialize;
use std::fmt::Write;

/// Results of a simulation. As JSON it has the same fields; rates are fractions of 1.
#[derive(Clone, PartialEq, Serialize, Debug)]
#[non_exhaustive]
pub struct Report {
    /// Name of the trace.
    pub trace: String,
    /// Number of requests of all kinds.
    pub requests: u64,
    /// Index of the first request, from 0, whose hits and misses count.
    pub counted_from: u64,
    /// A row for each size and policy, by size.
    pub rows: Vec<Row>,
    /// What a reader of the rows should know, as sentences.
    pub notes: Vec<String>,
}

/// Result of one cache. Counts of a cache with a [sample](Row::sample) are estimates for all keys.
#[derive(Clone, PartialEq, Serialize, Debug)]
#[non_exhaustive]
pub struct Row {
    /// Size of the cache, bytes.
    pub size_bytes: u64,
    /// Which items it evicts.
    pub policy: Policy,
    /// Share of the keys that were simulated; 1: all.
    pub sample: f64,
    /// Number of gets that count.
    pub gets: u64,
    /// Share of these gets that were hits; `None` if there are none.
    pub hit_rate: Option<f64>,
    /// Share of the bytes asked for that were hits; `None` if there are none.
    pub byte_hit_rate: Option<f64>,
    /// Number of items at the end.
    pub items: u64,
    /// Number of items evicted in the whole trace.
    pub evicted: u64,
    /// Number of stores in the whole trace that were refused because the value was too long.
    pub refused: u64,
}

/// A size is enough if its hit rate is at most this much below the best.
const ENOUGH: f64 = 0.01;
/// A cache that evicts less than one item for this many that it holds has space for all.
const KEPT: u64 = 1000;
/// With fewer items, a sample says little.
const SAMPLED_ITEMS_MIN: f64 = 1000.0;

impl Report {
    pub(crate) fn new(asked: &Asked, caches: &[Cache], options: &Options) -> Report {
        let rows: Vec<Row> = caches
            .iter()
            .map(|cache| Row::new(asked, cache, options))
            .collect();
        let mut notes = asked.oddities.notes();
        if asked.is_timeless {
            notes.push("The trace has no column `time`: nothing expires.".to_string());
        }
        if asked.gets.count == 0 {
            notes.push("There is no get to count: no hit rate.".to_string());
        }
        notes.extend(sampled(&rows));
        let refused = rows.iter().map(|row| row.refused).max().unwrap_or(0);
        if refused > 0 {
            notes.push(format!(
                "Stores refused, at most: {}. A value is longer than {} (-I) or than half of the cache.",
                commas(refused),
                show(options.item_bytes_max as u64)
            ));
        }
        Report {
            trace: asked.name.clone(),
            requests: asked.requests,
            counted_from: asked.counted_from,
            rows,
            notes,
        }
    }

    /// The row of a size and policy.
    pub fn row(&self, size_bytes: u64, policy: Policy) -> Option<&Row> {
        self.of(policy).find(|row| row.size_bytes == size_bytes)
    }

    /// Rows of a policy, by size.
    pub fn of(&self, policy: Policy) -> impl DoubleEndedIterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.policy == policy)
    }

    /// Policies that have rows.
    pub fn policies(&self) -> impl Iterator<Item = Policy> {
        Policy::ALL
            .into_iter()
            .filter(|policy| self.of(*policy).next().is_some())
    }

    /// A sentence or two about the smallest size that is enough, for the first policy that was simulated; empty if nothing
    /// was counted.
    pub fn advice(&self) -> String {
        let Some(policy) = self.policies().next() else {
            return String::new();
        };
        let rates: Vec<(&Row, f64)> = self
            .of(policy)
            .filter_map(|row| Some((row, row.hit_rate?)))
            .collect();
        let Some((largest, best)) = rates.last().copied() else {
            return String::new();
        };
        let mut text = match rates.iter().find(|(_, rate)| *rate >= best - ENOUGH) {
            Some((row, rate)) if rates.len() > 1 => self.enough(row, *rate, largest, best),
            _ => format!(
                "With {} {policy} has {} hits.",
                show(largest.size_bytes),
                percent(Some(best))
            ),
        };
        if let Some(row) = self.of(policy).find(|row| row.evicted * KEPT <= row.items) {
            match rates.len() {
                1 => text.push_str(" Nearly nothing is evicted."),
                _ => {
                    let _ = write!(
                        text,
                        " From {} on nearly nothing is evicted.",
                        show(row.size_bytes)
                    );
                }
            }
        } else if let [.., (_, before), _] = rates[..]
            && best - before > ENOUGH
        {
            text.push_str(" Larger caches than these would have more hits.");
        }
        text
    }

    fn enough(&self, row: &Row, rate: f64, largest: &Row, best: f64) -> String {
        let policy = row.policy;
        let mut text = match row.size_bytes == largest.size_bytes {
            true => format!("{policy}: no smaller size comes within 1 point of the largest"),
            false => format!("{policy}: {} is enough", show(row.size_bytes)),
        };
        let _ = match row.size_bytes == largest.size_bytes {
            true => write!(
                text,
                " ({} at {}).",
                percent(Some(best)),
                show(largest.size_bytes)
            ),
            false => write!(
                text,
                ": {} hits, within 1 point of the largest ({} at {}).",
                percent(Some(rate)),
                percent(Some(best)),
                show(largest.size_bytes)
            ),
        };
        let lru = self.row(row.size_bytes, Policy::Lru).and_then(|lru| lru.hit_rate);
        if let Some(lru) = lru.filter(|_| policy != Policy::Lru) {
            let _ = write!(text, " LRU has {} there.", percent(Some(lru)));
        }
        text
    }

    /// The rows as comma-separated values, with a header line; rates are fractions of 1.
    pub fn csv(&self) -> String {
        let mut out =
            "size_bytes,policy,sample,gets,hit_rate,byte_hit_rate,items,evicted,refused\n".to_string();
        let rate = |rate: Option<f64>| rate.map_or(String::new(), |rate| format!("{rate:.6}"));
        for row in &self.rows {
            let _ = writeln!(
                out,
                "{},{},{},{},{},{},{},{},{}",
                row.size_bytes,
                row.policy,
                row.sample,
                row.gets,
                rate(row.hit_rate),
                rate(row.byte_hit_rate),
                row.items,
                row.evicted,
                row.refused
            );
        }
        out
    }
}

impl Row {
    fn new(asked: &Asked, cache: &Cache, options: &Options) -> Row {
        let missed = cache.missed(options.warmup, asked.requests);
        let scaled = |count: u64| cache.rate.scaled_up(count);
        let hits =
            |missed: u64, all: u64| (all > 0).then(|| ((all as f64 - scaled(missed)) / all as f64).max(0.0));
        Row {
            size_bytes: cache.size_bytes,
            policy: cache.policy,
            sample: cache.rate.share(),
            gets: asked.gets.count,
            hit_rate: hits(missed.count, asked.gets.count),
            byte_hit_rate: hits(missed.bytes, asked.gets.bytes),
            items: scaled(cache.item_count()) as u64,
            evicted: scaled(cache.evicted()) as u64,
            refused: scaled(cache.refused()) as u64,
        }
    }
}

/// Which sizes were simulated with a part of the keys.
fn sampled(rows: &[Row]) -> Vec<String> {
    let mut notes = Vec::new();
    let Some(first) = rows.iter().find(|row| row.sample < 1.0) else {
        return notes;
    };
    let from = match rows.iter().all(|row| row.sample < 1.0) {
        true => "All sizes".to_string(),
        false => format!("Sizes from {} on", show(first.size_bytes)),
    };
    notes.push(format!(
        "{from} are estimates from a sample of the keys (column `keys`); --memory or --sample 1 simulates more."
    ));
    if rows
        .iter()
        .any(|row| row.sample < 1.0 && row.items as f64 * row.sample < SAMPLED_ITEMS_MIN)
    {
        notes.push("A sample held fewer than 1,000 items, so its hit rate may be far off; --sample 1 simulates all keys.".to_string());
    }
    notes
}

impl Oddities {
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let mut note = |count: u64, what: &str| {
            if count > 0 {
                notes.push(what.replace("{}", &commas(count)));
            }
        };
        note(self.skipped, "Bad lines, left out: {}.");
        note(
            self.back_in_time,
            "Requests that go back in time: {}. For them it is as late as for those before.",
        );
        note(
            self.long_keys,
            "Requests with keys of more than 250 bytes: {}. A server refuses them; here they are shortened to 250.",
        );
        notes
    }
}
