//! Prometheus' text format, version 0.0.4 `[Prometheus]`.
//!
//! It is written by hand, without `prometheus` or `prometheus-client`: those keep a registry of atomics that the program
//! updates, whereas our numbers are plain words of the workers, copied at each scrape.

use drover_base::{Durations, Ns, Spread};
use std::fmt::Write;

/// Content type of the text, for a response's header.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Type of a metric family in Prometheus' terms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A count that grows from the start of the process. Two events zero some counts: memcached's `stats reset` those
    /// of memcached commands, a restart of a worker after a panic those of its partition. The family's name ends in
    /// `_total`.
    Counter,
    /// A value that goes up and down.
    Gauge,
    /// Cumulative counts by upper bound, with the sum and the number of the values.
    Histogram,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// A label's name and value.
pub type Label<'a> = (&'static str, &'a str);

/// Text in Prometheus' format, under construction: the body of the reply to `/metrics`.
#[derive(Default)]
pub struct Exposition {
    text: String,
}

/// Adds samples to one family, which [`Exposition::family`] has started.
pub struct Samples<'a> {
    text: &'a mut String,
    name: &'a str,
}

impl Exposition {
    /// Starts a family and returns the means to add its samples. Each family is started once and may stay without
    /// samples.
    pub fn family<'a>(&'a mut self, name: &'a str, kind: Kind, help: &str) -> Samples<'a> {
        // Writing to a String cannot fail; help texts are ours and have neither backslashes nor line ends.
        let _ = writeln!(self.text, "# HELP {name} {help}");
        let _ = writeln!(self.text, "# TYPE {name} {}", kind.name());
        Samples {
            text: &mut self.text,
            name,
        }
    }

    /// Adds families of one kind of numbers.
    pub fn add_all<T>(&mut self, families: &[Family<T>], numbers: &T) {
        for family in families {
            let mut samples = self.family(family.name, family.kind, family.help);
            (family.add)(numbers, &mut samples);
        }
    }

    /// Returns the complete text.
    pub fn finish(self) -> String {
        self.text
    }
}

/// A family of metrics that is made from `T`.
pub struct Family<T> {
    pub name: &'static str,
    pub kind: Kind,
    pub help: &'static str,
    pub add: fn(&T, &mut Samples<'_>),
}

/// A family that counts.
pub const fn counter<T>(name: &'static str, help: &'static str, add: fn(&T, &mut Samples<'_>)) -> Family<T> {
    let kind = Kind::Counter;
    Family {
        name,
        kind,
        help,
        add,
    }
}

/// A family that goes up and down.
pub const fn gauge<T>(name: &'static str, help: &'static str, add: fn(&T, &mut Samples<'_>)) -> Family<T> {
    let kind = Kind::Gauge;
    Family {
        name,
        kind,
        help,
        add,
    }
}

/// Compares the list of metrics below a heading of `docs/metrics.md` with those of `families` whose names begin with `prefix`.
#[cfg(test)]
pub fn check_document<T>(heading: &str, prefix: &str, families: &[Family<T>]) {
    let (_, text) = include_str!("../../../../docs/metrics.md")
        .split_once(&format!("{heading}\n"))
        .expect("the heading");
    let text = text.split("\n## ").next().unwrap_or_default();
    let listed: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("- `drover_"))
        .collect();
    let own = families.iter().filter(|family| family.name.starts_with(prefix));
    let told: Vec<String> = own
        .map(|family| format!("- `{}` ({}): {}", family.name, family.kind.name(), family.help))
        .collect();
    assert!(
        listed == told,
        "docs/metrics.md should have below {heading}\n{}",
        told.join("\n")
    );
}

impl Samples<'_> {
    /// Adds one sample with these labels.
    pub fn add(&mut self, labels: &[Label<'_>], value: f64) {
        self.part("", labels, value);
    }

    /// Adds a histogram of durations with these labels, in seconds.
    pub fn spread(&mut self, labels: &[Label<'_>], spread: &Spread) {
        let mut below = 0;
        for (index, count) in spread.counts.iter().enumerate() {
            below += count;
            let bound = Durations::bound(index);
            let bound = bound.map_or("+Inf".to_string(), |bound| seconds(bound).to_string());
            self.part("_bucket", &[labels, &[("le", &bound)]].concat(), below as f64);
        }
        self.part("_sum", labels, seconds(spread.sum));
        self.part("_count", labels, below as f64);
    }

    fn part(&mut self, suffix: &str, labels: &[Label<'_>], value: f64) {
        self.text.push_str(self.name);
        self.text.push_str(suffix);
        for (index, (name, value)) in labels.iter().enumerate() {
            self.text.push(if index == 0 { '{' } else { ',' });
            let _ = write!(self.text, "{name}=\"");
            value.chars().for_each(|c| push_escaped(self.text, c));
            self.text.push('"');
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    /// Adds one sample with these labels and an integer value, which is exact up to 2^53.
    pub fn count(&mut self, labels: &[Label<'_>], value: u64) {
        self.add(labels, value as f64);
    }
}

fn seconds(time: Ns) -> f64 {
    time.0 as f64 / 1e9
}

fn push_escaped(text: &mut String, c: char) {
    match c {
        '\\' => text.push_str("\\\\"),
        '"' => text.push_str("\\\""),
        '\n' => text.push_str("\\n"),
        c => text.push(c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_numbers_plain() {
        let mut out = Exposition::default();
        let mut samples = out.family("a_total", Kind::Counter, "Things.");
        samples.count(&[], 1 << 40);
        samples.add(&[("x", "a\"b\\c\nd"), ("y", "")], 0.25);
        assert_eq!(
            out.finish(),
            "# HELP a_total Things.\n# TYPE a_total counter\na_total 1099511627776\na_total{x=\"a\\\"b\\\\c\\nd\",y=\"\"} 0.25\n"
        );
    }
}
