//! [`Expected`]: published values, rows of small tables that are joined with simulated values by figure, series, x and
//! metric.

use std::collections::BTreeMap;

/// The microbenchmark results that profiles are fitted to.
const CALIBRATION: &str = include_str!("../data/calibration.csv");

/// One published value.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// Name of the figure, such as `herd-3`.
    pub figure: String,
    /// Name of the curve or bar.
    pub series: String,
    /// Position on the x axis.
    pub x: f64,
    /// Name of the quantity, as [`Metric::name`](crate::figure::Metric::name) returns it.
    pub metric: String,
    /// Unit of the value.
    pub unit: String,
    /// Published value.
    pub value: f64,
    /// Source of the value.
    pub known_from: KnownFrom,
}

/// Source of a published value, which determines how far it can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownFrom {
    /// Stated in the text or a table.
    Text,
    /// A data file of the authors.
    Data,
    /// Read from a plot.
    Plot,
    /// Computed from other published values.
    Derived,
}

impl KnownFrom {
    /// Possible relative error, as a fraction, of a published value of this source *(our choice)*: 0.02 for text and
    /// data, 0.03 for plots, 0.05 for derived values.
    pub fn error(self) -> f64 {
        match self {
            KnownFrom::Text | KnownFrom::Data => 0.02,
            KnownFrom::Plot => 0.03,
            KnownFrom::Derived => 0.05,
        }
    }
}

/// A malformed table of published values.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("line {line} of the published values: {reason}")]
pub struct TableError {
    /// Number of the malformed line, counted from 1; the header is line 1.
    pub line: usize,
    /// What is wrong with the line.
    pub reason: &'static str,
}

/// Table of values published in papers, found by figure, series, x and metric. Simulated values are compared with them.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    rows: BTreeMap<Key, Published>,
    /// Values that nothing simulates, and why.
    listed: Vec<(Published, String)>,
}

/// Figure, series, x as bits, metric.
type Key = (String, String, u64, String);

impl Expected {
    /// The calibration rows: the only values that profiles may be fitted to.
    pub fn calibration() -> Expected {
        let mut expected = Expected::default();
        expected.add(CALIBRATION).expect("our own table is well-formed");
        expected
    }

    /// Adds the rows of a CSV table, whose first line, a header, is skipped.
    ///
    /// # Errors
    /// The first row that is malformed or repeats a point already added. The rows before it stay added, and a repeated
    /// point has the new value.
    pub fn add(&mut self, table: &str) -> Result<(), TableError> {
        for (index, line) in table.lines().enumerate().skip(1) {
            let row = parse(line).map_err(|reason| TableError {
                line: index + 1,
                reason,
            })?;
            let key = (
                row.figure.clone(),
                row.series.clone(),
                row.x.to_bits(),
                row.metric.clone(),
            );
            if self.rows.insert(key, row).is_some() {
                return Err(TableError {
                    line: index + 1,
                    reason: "the same point stands there twice",
                });
            }
        }
        Ok(())
    }

    /// Adds the rows of a CSV table of values that nothing simulates. It has one more column, the reason.
    ///
    /// # Errors
    /// The first row that is malformed.
    pub fn list(&mut self, table: &str) -> Result<(), TableError> {
        for (index, line) in table.lines().enumerate().skip(1) {
            let (row, why) = line.rsplit_once(',').unwrap_or((line, ""));
            let row = parse(row).map_err(|reason| TableError {
                line: index + 1,
                reason,
            })?;
            self.listed.push((row, why.to_string()));
        }
        Ok(())
    }

    /// The values of `figure` that nothing simulates, each with the reason.
    pub fn listed<'a>(&'a self, figure: &'a str) -> impl Iterator<Item = &'a (Published, String)> {
        self.listed.iter().filter(move |(row, _)| row.figure == figure)
    }

    /// The published value of exactly this point, if there is one.
    pub fn of(&self, figure: &str, series: &str, x: f64, metric: &str) -> Option<&Published> {
        let key = (
            figure.to_string(),
            series.to_string(),
            x.to_bits(),
            metric.to_string(),
        );
        self.rows.get(&key)
    }

    /// All rows of `figure`, by series and then ascending x (which is not negative); none if it is unknown.
    pub fn rows<'a>(&'a self, figure: &'a str) -> impl Iterator<Item = &'a Published> {
        self.rows.values().filter(move |row| row.figure == figure)
    }
}

fn parse(line: &str) -> Result<Published, &'static str> {
    let fields: Vec<&str> = line.split(',').collect();
    let [figure, series, x, metric, unit, value, known_from] = fields[..] else {
        return Err("seven fields are needed");
    };
    Ok(Published {
        figure: figure.to_string(),
        series: series.to_string(),
        x: x.parse().map_err(|_| "x is no number")?,
        metric: metric.to_string(),
        unit: unit.to_string(),
        value: value.parse().map_err(|_| "the value is no number")?,
        known_from: match known_from {
            "text" => KnownFrom::Text,
            "data" => KnownFrom::Data,
            "plot" => KnownFrom::Plot,
            "derived" => KnownFrom::Derived,
            _ => return Err("known from nowhere we know"),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calibration_rows_are_well_formed_and_found() {
        let expected = Expected::calibration();
        let peak = expected
            .of("herd-3", "READ RC", 32.0, "throughput")
            .expect("a row");
        assert_eq!((peak.value, peak.known_from), (25.593, KnownFrom::Plot));
        assert_eq!(expected.rows("herd-6").count(), 27);
    }

    #[test]
    fn end_to_end_results_are_not_among_them() {
        let figures: Vec<&str> = CALIBRATION
            .lines()
            .filter_map(|line| line.split(',').next())
            .collect();
        for heldout in crate::catalogue::tests::END_TO_END {
            assert!(!figures.contains(&heldout), "{heldout} is not for fitting");
        }
    }

    #[test]
    fn a_malformed_row_is_named() {
        let mut expected = Expected::default();
        let table = "header\nherd-2,READ,4,latency,us,2.1,plot\nherd-2,READ,4,latency,us,2.1,plot\n";
        assert_eq!(expected.add(table).map_err(|e| e.line), Err(3));
        assert!(expected.add("header\na,b,c\n").is_err());
    }
}
