//! The table of stages: which parameter is fitted to which rows, how, and in which order. It is in `stages.txt`.

use super::Target;

/// The table; its first lines describe its format.
const TABLE: &str = include_str!("stages.txt");

/// Selects calibration rows: those of one figure, of one of its curves or all, with x in a range. Holds no rows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rows {
    figure: &'static str,
    series: &'static str,
    x: (f64, f64),
}

impl Rows {
    /// Whether `target` is selected; only throughputs and latencies ever are.
    pub fn take(&self, target: &Target) -> bool {
        let published = &target.published;
        target.figure == self.figure
            && (self.series.is_empty() || published.series == self.series)
            && (self.x.0..=self.x.1).contains(&published.x)
            && ["throughput", "latency"].contains(&published.metric.as_str())
    }
}

/// Search method for a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// Multiplies or divides the parameter by 1.12, then by 1.06, 1.03 and 1.01, each up to six times in one direction,
    /// as long as that reduces the error of its rows.
    Climb,
    /// As `Climb`, but short runs judge the moves by 1.12 and 1.06, which the second pass over the stage leaves out.
    Scan,
}

/// One step of a stage: the parameter to fit (or one point of it, if it is a curve), the search method, and the rows to
/// fit it to.
#[derive(Clone, PartialEq, Debug)]
pub struct Step {
    /// Path of the parameter in the profile, such as `tx.read_ns`.
    pub path: &'static str,
    /// If the parameter is a curve, the index of the point to fit, from 0. `None`: the parameter's only number, or all
    /// points of its curve one after the other.
    pub index: Option<usize>,
    /// Search method.
    pub method: Method,
    /// Rows whose error the parameter must reduce.
    pub rows: Vec<Rows>,
}

impl Step {
    /// Names of the figures that the rows come from, separated by commas, as [`fit`](super::fit()) notes them in the
    /// profile.
    pub fn source(&self) -> String {
        let mut figures: Vec<&str> = self.rows.iter().map(|rows| rows.figure).collect();
        figures.dedup();
        figures.join(", ")
    }
}

/// Parameters that are fitted together; later stages do not change them.
#[derive(Clone, PartialEq, Debug)]
pub struct Stage {
    /// Name of the profile that is fitted.
    pub profile: &'static str,
    /// Name of the stage.
    pub name: &'static str,
    /// Parameters of the stage with their rows, fitted in this order.
    pub steps: Vec<Step>,
}

/// The stages of the profile named `profile`, in order; empty if the table has none for it.
pub fn stages(profile: &str) -> Vec<Stage> {
    let mut all = parse(TABLE).expect("our own table is well-formed");
    all.retain(|stage| stage.profile == profile);
    all
}

/// A malformed table of stages.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("line {line} of the stages: {reason}")]
pub struct StageError {
    /// Number of the malformed line, counted from 1.
    pub line: usize,
    /// What is wrong with the line.
    pub reason: &'static str,
}

/// Parses all stages of a table.
pub(super) fn parse(table: &'static str) -> Result<Vec<Stage>, StageError> {
    let mut stages: Vec<Stage> = Vec::new();
    for (index, line) in table.lines().enumerate() {
        let failed = |reason| StageError {
            line: index + 1,
            reason,
        };
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(heading) = line.strip_prefix('[') {
            let (profile, name) = heading.split_once("] ").ok_or(failed("a stage has a name"))?;
            let steps = Vec::new();
            stages.push(Stage { profile, name, steps });
            continue;
        }
        let stage = stages.last_mut().ok_or(failed("a step belongs to a stage"))?;
        match line.strip_prefix(' ') {
            None => stage.steps.push(step(line).map_err(failed)?),
            Some(more) => {
                let step = stage.steps.last_mut().ok_or(failed("nothing to go on with"))?;
                let more = more.trim().strip_prefix("+ ").ok_or(failed("no `+`"))?;
                step.rows.extend(all_rows(more).map_err(failed)?);
            }
        }
    }
    Ok(stages)
}

fn step(line: &'static str) -> Result<Step, &'static str> {
    let (path, rest) = word(line)?;
    let (method, rows) = word(rest)?;
    let (path, index) = match path.strip_suffix(']').and_then(|path| path.split_once('[')) {
        None => (path, None),
        Some((path, index)) => (path, Some(index.parse().map_err(|_| "a point is a number")?)),
    };
    let method = match method {
        "climb" => Method::Climb,
        "scan" => Method::Scan,
        _ => return Err("a method is `climb` or `scan`"),
    };
    Ok(Step {
        path,
        index,
        method,
        rows: all_rows(rows)?,
    })
}

/// The first word of a text, and the rest.
fn word(text: &'static str) -> Result<(&'static str, &'static str), &'static str> {
    let (word, rest) = text
        .split_once(' ')
        .ok_or("a step is a parameter, a method and rows")?;
    Ok((word, rest.trim_start()))
}

fn all_rows(text: &'static str) -> Result<Vec<Rows>, &'static str> {
    text.split(" + ").map(some_rows).collect()
}

fn some_rows(text: &'static str) -> Result<Rows, &'static str> {
    let (curve, x) = match text.split_once(" @ ") {
        None => (text, (0.0, 1e9)),
        Some((curve, x)) => {
            let (low, high) = x.split_once("..").unwrap_or((x, x));
            let number = |text: &str| text.parse::<f64>().map_err(|_| "x is no number");
            (curve, (number(low)?, number(high)?))
        }
    };
    let (figure, series) = curve.split_once(": ").unwrap_or((curve, ""));
    Ok(Rows { figure, series, x })
}
