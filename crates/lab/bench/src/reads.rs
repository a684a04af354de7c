//! What clients of one-sided systems READ for each GET, beside what was computed for such tables.

use drover_kv::{Reads, TableKind};
use serde::{Deserialize, Serialize};

/// READs for each GET that found its value, of all samples that count.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct ReadsPerGet {
    /// Of the table.
    pub probes: f64,
    /// In all.
    pub reads: f64,
    /// Messages.
    pub asked: f64,
    /// Made again.
    pub torn: f64,
    /// What the table's probes should be at its load.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub computed_probes: Option<f64>,
}

impl ReadsPerGet {
    /// Of these, in a table that was filled before; `None`: no GET found anything.
    pub fn of(reads: &Reads, table: Option<&Table>) -> Option<ReadsPerGet> {
        let computed = table.map(|table| table.kind.probes_at(table.load));
        ReadsPerGet::beside(reads, computed)
    }

    /// Of these, in a table whose keys have come and gone since.
    pub fn under_churn(reads: &Reads, table: Option<&Table>) -> Option<ReadsPerGet> {
        let computed = table.and_then(|table| table.kind.probes_under_churn(table.load));
        ReadsPerGet::beside(reads, computed)
    }

    fn beside(reads: &Reads, computed_probes: Option<f64>) -> Option<ReadsPerGet> {
        let per_get = |count: u64| count as f64 / reads.hits as f64;
        (reads.hits > 0).then(|| ReadsPerGet {
            probes: per_get(reads.probes),
            reads: per_get(reads.probes + reads.records),
            asked: per_get(reads.asked),
            torn: per_get(reads.torn),
            computed_probes,
        })
    }

    /// READs in all that were computed: records are as measured, one or none.
    pub fn computed_reads(&self) -> Option<f64> {
        Some(self.computed_probes? + self.reads - self.probes)
    }

    /// How far probes, and READs in all, are from what was computed: 0.01 is 1 % more.
    pub fn deviation(&self) -> Option<[f64; 2]> {
        Some([
            self.probes / self.computed_probes? - 1.0,
            self.reads / self.computed_reads()? - 1.0,
        ])
    }
}

/// What clients READ after the table's keys were replaced.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Churned {
    /// How often each of them.
    pub turnovers: u32,
    /// For each GET that found its value.
    pub reads_per_get: ReadsPerGet,
}

/// A table that clients READ, as it was filled before the run.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Table {
    /// Which.
    pub kind: TableKind,
    /// Keys per place.
    pub load: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_counted_per_get_that_hits() {
        let early = Reads {
            hits: 100,
            probes: 200,
            ..Reads::default()
        };
        let late = Reads {
            hits: 200,
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
