//! [`Reads`]: counts of the READs of one-sided clients; [`Verbs`]: counts of all that they ask for; [`TableKind`]: the number of READs expected for each table.

use serde::{Deserialize, Serialize};

/// Counts of the GETs and READs of one client, or summed over several.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reads {
    /// GETs that returned a value, whether by READs or from the server.
    pub hits: u64,
    /// GETs that ended as "not found", by the server's answer or, with some policies, by the client's own READs.
    #[serde(default)]
    pub misses: u64,
    /// READs of the table: of a cuckoo entry, of a hopscotch neighbourhood or of an overflow block. Repeated READs are
    /// included, READs of the count of moves are not.
    pub probes: u64,
    /// READs of records (Pilaf) or objects (FaRM-KV), outside the table; repeated READs are included.
    pub records: u64,
    /// GET messages sent to the server. A GET may send several.
    pub asked: u64,
    /// READs that returned torn or replaced data, or in FaRM-KV took too long, and after which the GET began again.
    /// Those after which the GET was sent to the server instead are not counted.
    pub torn: u64,
}

impl Reads {
    /// Adds the counts of another client.
    pub fn add(&mut self, other: &Reads) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.probes += other.probes;
        self.records += other.records;
        self.asked += other.asked;
        self.torn += other.torn;
    }

    /// Difference between these counts and `earlier`, a previous state of them.
    ///
    /// # Panics
    /// In debug builds, if a count of `earlier` is larger.
    pub fn since(&self, earlier: &Reads) -> Reads {
        Reads {
            hits: self.hits - earlier.hits,
            misses: self.misses - earlier.misses,
            probes: self.probes - earlier.probes,
            records: self.records - earlier.records,
            asked: self.asked - earlier.asked,
            torn: self.torn - earlier.torn,
        }
    }
}

/// What a client has asked the fabric for that does an operation's work by itself, or several clients together.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Verbs {
    /// Verbs posted.
    pub posted: u64,
    /// Lists of verbs. Of operations one after the other each list is a round trip.
    pub lists: u64,
    /// READs of items of other keys, whose fingerprints are the same.
    pub collisions: u64,
}

impl Verbs {
    /// Difference between these counts and `earlier`, a previous state of them.
    ///
    /// # Panics
    /// In debug builds, if a count of `earlier` is larger.
    #[must_use]
    pub fn since(&self, earlier: &Verbs) -> Verbs {
        Verbs {
            posted: self.posted - earlier.posted,
            lists: self.lists - earlier.lists,
            collisions: self.collisions - earlier.collisions,
        }
    }
}

/// Kind of a table, which determines how many READs a GET is expected to take.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableKind {
    /// 3-1 cuckoo hashing: one READ per entry probed, one of the record.
    Cuckoo,
    /// Hopscotch hashing with neighbourhoods of 6 slots: one READ of the neighbourhood, for a key in overflow one more
    /// per block of its chain, and one of the object, if the value is outside the table.
    Hopscotch,
}

/// Computed for tables filled once without deletions: (load, READs of the table per GET that hits).
const CUCKOO: [(f64, f64); 4] = [(0.0, 1.0), (0.5, 1.32), (0.75, 1.56), (0.9, 1.80)];
const HOPSCOTCH: [(f64, f64); 5] = [
    (0.0, 1.0),
    (0.7, 1.006),
    (0.75, 1.011),
    (0.85, 1.029),
    (0.9, 1.043),
];

/// READs of the table per hit at a load of 0.75, when every operation is a DELETE or inserts a new key, with the
/// scrubber.
const CUCKOO_SCRUBBED: f64 = 1.65;

impl TableKind {
    /// Expected mean number of READs of the table per GET that hits, at `load` (share of the entries used, 0 to 1),
    /// without deletions: interpolated between computed values, which end at 0.9; a higher load gives the value at 0.9.
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

    /// Expected mean number of READs of the table per GET that hits, when keys are inserted and deleted at a constant
    /// `load` (0 to 1). For a cuckoo table `None` unless `load` is 0.75 (within 0.005).
    ///
    /// Keys in a cuckoo table stay in their later entries when an earlier one becomes free. Without a countermeasure
    /// the mean would rise to 1.88 READs at a load of 0.75; the server's scrubber moves keys back, which is expected to
    /// keep the mean at 1.65. In a hopscotch table a slot that becomes free takes a key back from overflow, so the
    /// table is like a newly filled one.
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
