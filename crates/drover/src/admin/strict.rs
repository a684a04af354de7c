//! A parser of Prometheus' text format, stricter than the format: it accepts what a careful exporter writes.

use std::collections::{BTreeMap, BTreeSet};

/// One family: its type, help, and samples by their labels.
#[derive(Debug, Default)]
pub struct Family {
    pub kind: String,
    pub help: String,
    pub samples: BTreeMap<Vec<(String, String)>, f64>,
}

impl Family {
    /// Names of the labels, in order.
    pub fn labels(&self) -> BTreeSet<&str> {
        let names = self.samples.keys().flatten().map(|(name, _)| name.as_str());
        names.filter(|name| !["le", "part"].contains(name)).collect()
    }
}

/// Parses all families, or returns the first wrong line.
pub fn parse(text: &str) -> Result<BTreeMap<String, Family>, String> {
    if !text.ends_with('\n') {
        return Err("the last line has no end".into());
    }
    let mut families = BTreeMap::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let wrong = |what: &str| format!("{what}: {line}");
        let (name, help) = after(line, "# HELP ").ok_or(wrong("expected HELP"))?;
        let kind_line = lines.next().ok_or(wrong("no TYPE after HELP"))?;
        let (of, kind) = after(kind_line, "# TYPE ").ok_or(wrong("no TYPE after HELP"))?;
        if of != name || !matches!(kind, "counter" | "gauge" | "histogram") {
            return Err(wrong("TYPE does not fit HELP"));
        }
        if !is_name(name) || (kind == "counter") != name.ends_with("_total") || !help.ends_with('.') {
            return Err(wrong("a bad name or help"));
        }
        let mut family = Family {
            kind: kind.into(),
            help: help.into(),
            ..Family::default()
        };
        while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
            let is_histogram = kind == "histogram";
            let parts: &[&'static str] = if is_histogram {
                &["_bucket", "_sum", "_count"]
            } else {
                &[""]
            };
            let of = |part: &&'static str| Some((sample(line, &format!("{name}{part}"))?, *part));
            let ((mut labels, value), part) =
                parts.iter().find_map(of).ok_or(format!("a bad sample: {line}"))?;
            if is_histogram {
                if (part == "_bucket") != labels.last().is_some_and(|(label, _)| label == "le") {
                    return Err(format!("a bucket without a bound: {line}"));
                }
                labels.push(("part".into(), part.into()));
            }
            if kind == "counter" && value < 0.0 || family.samples.insert(labels, value).is_some() {
                return Err(format!("a counter below 0, or a sample twice: {line}"));
            }
        }
        if families.insert(name.to_string(), family).is_some() {
            return Err(wrong("a family twice"));
        }
    }
    Ok(families)
}

fn after<'a>(line: &'a str, head: &str) -> Option<(&'a str, &'a str)> {
    line.strip_prefix(head)?.split_once(' ')
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

fn sample(line: &str, name: &str) -> Option<(Vec<(String, String)>, f64)> {
    let sample = super::sample::parse(line)?;
    let plain = line
        .rsplit(' ')
        .next()?
        .chars()
        .all(|c| c.is_ascii_digit() || "+-.e".contains(c));
    let names: BTreeSet<&str> = sample.labels.iter().map(|(label, _)| label.as_str()).collect();
    let good = sample.name == name
        && plain
        && names.len() == sample.labels.len()
        && names.iter().all(|l| is_name(l));
    good.then_some((sample.labels, sample.value))
}

#[test]
fn it_is_strict() {
    let head = "# HELP a_total A.\n# TYPE a_total counter\n";
    assert!(parse(&format!("{head}a_total{{x=\"1\",y=\"\\\"\"}} 1\na_total 2\n")).is_ok());
    for bad in [
        "a_total 1",
        "a_total -1\n",
        "a_total 1\na_total 1\n",
        "a_total{x=1} 1\n",
        "a_total{x=\"1\" 1\n",
        "a_total{x=\"1\",x=\"2\"} 1\n",
        "a_total{x=\"\\t\"} 1\n",
        "a_total NaN\n",
        "a_total  1\n",
        "b_total 1\n",
        "# HELP a_total A.\n# TYPE a_total counter\n",
        "# HELP b B.\n# TYPE b counter\n",
        "# HELP b_total B.\n# TYPE b_total gauge\n",
        "# HELP b_total B.\n",
    ] {
        assert!(parse(&format!("{head}{bad}")).is_err(), "{bad}");
    }
}
