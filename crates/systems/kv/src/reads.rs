//! [`Reads`]: what clients of one-sided systems READ; [`TableKind`]: what was computed for the tables they READ.

use serde::{Deserialize, Serialize};

/// What clients READ in a run.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reads {
    /// GETs that found their value.
    pub hits: u64,
    /// READs of the table.
    pub probes: u64,
    /// READs of records.
    pub records: u64,
    /// Messages that asked the server what a key has.
    pub asked: u64,
    /// READs that brought something torn, and were made again.
    pub torn: u64,
}

impl Reads {
    /// Adds another client's.
    pub fn add(&mut self, other: &Reads) {
        self.hits += other.hits;
        self.probes += other.probes;
        self.records += other.records;
        self.asked += other.asked;
        self.torn += other.torn;
    }

    /// What has come since `earlier`.
    pub fn since(&self, earlier: &Reads) -> Reads {
        Reads {
            hits: self.hits - earlier.hits,
            probes: self.probes - earlier.probes,
            records: self.records - earlier.records,
            asked: self.asked - earlier.asked,
            torn: self.torn - earlier.torn,
        }
    }
}

/// Which table it is: what a GET of it should READ.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableKind {
    /// 3-1 cuckoo hashing: a READ of an entry for each place tried, and one of the record.
    Cuckoo,
    /// Hopscotch hashing, neighbourhoods of 6: one READ of the neighbourhood, one more for who overflowed; and one of
    /// the record, where values are beside the table.
    Hopscotch,
}

/// Computed for tables filled once, nothing deleted: load and READs of the table for a GET that hits.
const CUCKOO: [(f64, f64); 4] = [(0.0, 1.0), (0.5, 1.32), (0.75, 1.56), (0.9, 1.80)];
const HOPSCOTCH: [(f64, f64); 5] = [
    (0.0, 1.0),
    (0.7, 1.006),
    (0.75, 1.011),
    (0.85, 1.029),
    (0.9, 1.043),
];

/// At a load of 0.75 whose every operation is a DELETE or a new key, with the scrubber.
const CUCKOO_SCRUBBED: f64 = 1.65;

impl TableKind {
    /// READs of the table that a GET takes at `load`, interpolated between what was computed.
    pub fn probes_at(self, load: f64) -> f64 {
        let points: &[(f64, f64)] = match self {
            TableKind::Cuckoo => &CUCKOO,
            TableKind::Hopscotch => &HOPSCOTCH,
        };
        for pair in points.windows(2) {
            let ((from, low), (to, high)) = (pair[0], pair[1]);
            if load <= to {
                return low + (high - low) * ((load - from) / (to - from)).clamp(0.0, 1.0);
            }
        }
        points.last().map_or(1.0, |(_, most)| *most)
    }

    /// The same where keys come and go at a constant `load`; `None`: nothing was computed for it.
    ///
    /// Entries of a cuckoo table stay at their later places when an earlier one becomes free, and would drift to 1.88 READs at
    /// three quarters; the server's scrubber moves them back, and 1.65 is what it has to keep to. A slot of a hopscotch table that
    /// becomes free calls a key back from overflow: the table is as if just filled.
    pub fn probes_under_churn(self, load: f64) -> Option<f64> {
        match self {
            TableKind::Cuckoo => ((load - 0.75).abs() < 0.005).then_some(CUCKOO_SCRUBBED),
            TableKind::Hopscotch => Some(self.probes_at(load)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_three_quarters_a_get_takes_what_was_computed() {
        assert_eq!(TableKind::Cuckoo.probes_at(0.75), 1.56);
        assert_eq!(TableKind::Cuckoo.probes_at(0.0), 1.0);
        assert_eq!(TableKind::Cuckoo.probes_at(1.0), 1.80);
        assert_eq!(TableKind::Cuckoo.probes_under_churn(0.75), Some(1.65));
        assert_eq!(TableKind::Cuckoo.probes_under_churn(0.6), None);
        assert_eq!(TableKind::Hopscotch.probes_under_churn(0.75), Some(1.011));
        let between = TableKind::Cuckoo.probes_at(0.625);
        assert!((between - 1.44).abs() < 1e-9, "{between}");
    }
}
