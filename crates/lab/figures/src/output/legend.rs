//! Legends of charts, in drawings and in pages.

use super::chart::LINE;
use super::marks::{NEUTRAL, colour, line, mark};
use super::scale::SIZE;
use super::text::{START, escape, label, wrapped};
use std::fmt::Write;

/// Width of a sample of a line.
const SAMPLE: f64 = 26.0;
/// Space between sample and name.
const GAP: f64 = 8.0;

/// An entry of a legend.
pub(super) struct Entry {
    name: String,
    sample: Sample,
}

/// What stands before a name.
enum Sample {
    /// The colour and mark of a curve.
    Curve(usize),
    /// The kind of lines: solid with filled marks or dashed with hollow ones.
    Kind { is_solid: bool },
}

impl Entry {
    /// The entry of the curve with this index.
    pub fn curve(index: usize, name: &str) -> Entry {
        Entry {
            name: name.to_string(),
            sample: Sample::Curve(index),
        }
    }

    /// The entry of solid or dashed lines.
    pub fn kind(is_solid: bool, meaning: &str) -> Entry {
        let kind = if is_solid {
            "solid, filled"
        } else {
            "dashed, hollow"
        };
        Entry {
            name: format!("{kind}: {meaning}"),
            sample: Sample::Kind { is_solid },
        }
    }

    /// Draws the sample with its left end at a position.
    fn sample(&self, out: &mut String, (x, y): (f64, f64)) {
        let middle = (x + SAMPLE / 2.0, y);
        match self.sample {
            Sample::Curve(index) => {
                let _ = write!(
                    out,
                    "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{SAMPLE}\" height=\"3\" fill=\"{}\"/>",
                    y - 1.5,
                    colour(index)
                );
                mark(out, index, middle, true);
            }
            Sample::Kind { is_solid } => {
                line(out, NEUTRAL, &[(x, y), (x + SAMPLE, y)], is_solid);
                mark(out, NEUTRAL, middle, is_solid);
            }
        }
    }
}

/// Returns a legend as a list for a page, which the browser breaks into lines.
pub(super) fn html(entries: &[Entry]) -> String {
    let mut out = "<ul class=\"legend\">".to_string();
    for entry in entries {
        let kind = match entry.sample {
            Sample::Curve(_) => "curve",
            Sample::Kind { .. } => "kind",
        };
        let _ = write!(
            out,
            "<li class=\"{kind}\"><svg viewBox=\"0 0 {SAMPLE} 12\" width=\"{SAMPLE}\" height=\"12\" aria-hidden=\"true\">"
        );
        entry.sample(&mut out, (0.0, 6.0));
        let _ = write!(out, "</svg><span>{}</span></li>", escape(&entry.name));
    }
    out.push_str("</ul>\n");
    out
}

/// Adds a legend to a drawing, an entry below the other from a position on; returns its height.
pub(super) fn svg(out: &mut String, entries: &[Entry], (x, y): (f64, f64), space: f64) -> f64 {
    let mut height = 0.0;
    for entry in entries {
        entry.sample(out, (x, y + height + LINE / 2.0));
        for text in wrapped(&entry.name, SIZE, space - SAMPLE - GAP) {
            height += LINE;
            label(out, "legend", START, (x + SAMPLE + GAP, y + height - 4.0), &text);
        }
    }
    height
}
