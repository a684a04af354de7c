//! READs per GET of clients of one-sided systems, next to the numbers computed for such tables.

use drover_kv::{Reads, TableKind};
use serde::{Deserialize, Serialize};

/// Average number of READs per GET, hits and misses alike, over all samples that count. The computed numbers are those
/// of hits, so they compare only if nearly all GETs hit.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct ReadsPerGet {
    /// READs of the table per GET.
    pub probes: f64,
    /// READs of table and records per GET.
    pub reads: f64,
    /// Messages to the server per GET.
    pub asked: f64,
    /// READs per GET that were repeated because of a concurrent write.
    pub torn: f64,
    /// Number of table READs per GET computed for the table's load; `None` without a table, or if none is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub computed_probes: Option<f64>,
}

impl ReadsPerGet {
    /// Averages of `reads`, next to the numbers computed for a freshly filled table; `None`: no GET ended.
    pub fn of(reads: &Reads, table: Option<&Table>) -> Option<ReadsPerGet> {
        let computed = table.map(|table| table.kind.probes_at(table.load));
        ReadsPerGet::beside(reads, computed)
    }

    /// Averages of `reads`, next to the numbers computed for a table whose keys have been replaced; `None`: no GET
    /// ended.
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

    /// Computed number of READs of table and records per GET; the part of the records is the measured one.
    pub fn computed_reads(&self) -> Option<f64> {
        Some(self.computed_probes? + self.reads - self.probes)
    }

    /// Relative deviations of the measured from the computed numbers, of table READs and of all READs: 0.01 is 1 %
    /// more.
    pub fn deviation(&self) -> Option<[f64; 2]> {
        Some([
            self.probes / self.computed_probes? - 1.0,
            self.reads / self.computed_reads()? - 1.0,
        ])
    }
}

/// READs of clients, measured after the table's keys were replaced.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Churned {
    /// Number of times that each key was replaced.
    pub turnovers: u32,
    /// Average number of READs per GET after that.
    pub reads_per_get: ReadsPerGet,
}

/// A table that clients READ, as filled before the run.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Table {
    /// Kind of table.
    pub kind: TableKind,
    /// Keys per slot of the table.
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
