//! READs per GET of clients of one-sided systems, next to the numbers computed for such tables.

use drover_kv::{Reads, TableKind};
use serde::{Deserialize, Serialize};

/// Average numbers of READs and messages per GET, over all GETs (hits and misses) of some runs and clients. The
/// computed number is that of a hit, so it is comparable only if nearly all GETs hit.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct ReadsPerGet {
    /// READs of the table per GET.
    pub probes: f64,
    /// READs per GET of both the table and the records (values outside the table).
    pub reads: f64,
    /// GET messages sent to the server, per GET.
    pub asked: f64,
    /// READs per GET after which the GET began again, because they returned torn data or, in FaRM-KV, took too long.
    pub torn: f64,
    /// Expected number of table READs per GET that hits, computed from the table's kind and load instead of measured.
    /// `None` without a table, or if no such number is known for this load.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub computed_probes: Option<f64>,
}

impl ReadsPerGet {
    /// Averages of `reads`, with the number computed for a freshly filled `table`. `None` if `reads` has no finished
    /// GET.
    pub fn of(reads: &Reads, table: Option<&Table>) -> Option<ReadsPerGet> {
        let computed = table.map(|table| table.kind.probes_at(table.load));
        ReadsPerGet::beside(reads, computed)
    }

    /// Averages of `reads`, with the number computed for a `table` whose keys have been replaced. `None` if `reads` has
    /// no finished GET.
    pub fn under_churn(reads: &Reads, table: Option<&Table>) -> Option<ReadsPerGet> {
        let computed = table.and_then(|table| table.kind.probes_under_churn(table.load));
        ReadsPerGet::beside(reads, computed)
    }

    fn beside(reads: &Reads, computed_probes: Option<f64>) -> Option<ReadsPerGet> {
        let gets = reads.hits + reads.misses;
        let per_get = |count: u64| count as f64 / gets as f64;
        (gets > 0).then(|| ReadsPerGet {
            probes: per_get(reads.probes),
            reads: per_get(reads.probes + reads.records),
            asked: per_get(reads.asked),
            torn: per_get(reads.torn),
            computed_probes,
        })
    }

    /// Expected number of READs of table and records per GET: `computed_probes` plus the measured READs of records.
    /// `None` if there is no `computed_probes`.
    pub fn computed_reads(&self) -> Option<f64> {
        Some(self.computed_probes? + self.reads - self.probes)
    }

    /// Relative deviation of the measured from the computed number, first of table READs, then of all READs: 0.01 means
    /// that 1 % more was measured than computed. `None` without a computed number.
    pub fn deviation(&self) -> Option<[f64; 2]> {
        Some([
            self.probes / self.computed_probes? - 1.0,
            self.reads / self.computed_reads()? - 1.0,
        ])
    }
}

/// READs per GET, measured after the table's keys were replaced.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Churned {
    /// Number of times that each key was replaced.
    pub turnovers: u32,
    /// Average READs per GET after the last replacement.
    pub reads_per_get: ReadsPerGet,
}

/// Description of the server's table that clients READ: its kind, and how full it is once the keys are loaded.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Table {
    /// Kind of hash table.
    pub kind: TableKind,
    /// Number of keys loaded divided by the number of the table's slots in all shards, usually 0 to 1.
    pub load: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_counted_per_get() {
        let early = Reads {
            hits: 100,
            probes: 200,
            ..Reads::default()
        };
        let late = Reads {
            hits: 190,
            misses: 10,
            probes: 356,
            records: 100,
            asked: 2,
            torn: 1,
        };
        let table = Table {
            kind: TableKind::Cuckoo,
            load: 0.75,
        };
        let per_get = ReadsPerGet::of(&late.since(&early), Some(&table)).expect("hits");
        assert_eq!((per_get.probes, per_get.reads), (1.56, 2.56));
        assert_eq!((per_get.asked, per_get.computed_probes), (0.02, Some(1.56)));
        assert_eq!(per_get.deviation(), Some([0.0, 0.0]));
        let churned = ReadsPerGet::under_churn(&late.since(&early), Some(&table)).expect("hits");
        assert_eq!(churned.computed_reads(), Some(2.65));
        let off = churned
            .deviation()
            .map(|parts| parts.map(|part| (part * 1000.0).round()));
        assert_eq!(off, Some([-55.0, -34.0]));
        assert_eq!(ReadsPerGet::of(&Reads::default(), None), None);
    }
}
