//! [`Scale`]: maps the values of an axis to positions and chooses which of them have labels, so that no two labels touch.

use super::text::{trimmed, width, wrapped};

/// Size of the labels' font.
pub(super) const SIZE: f64 = 13.0;
/// Least space between two labels.
const GAP: f64 = 7.0;
/// Values below this have no logarithm that fits a drawing, above all 0; they are drawn here.
const LOG_MIN: f64 = 0.5;

/// Kind of an x axis.
#[derive(Clone, Debug, PartialEq)]
pub enum XAxis {
    /// Linear.
    Linear,
    /// Logarithmic; values below 0.5 are drawn at 0.5.
    Log,
    /// Steps with names; x is the index of one.
    Steps(Vec<String>),
}

/// A linear or logarithmic mapping of values to positions.
#[derive(Clone, Copy)]
pub(super) struct Scale {
    values: (f64, f64),
    positions: (f64, f64),
    is_log: bool,
}

/// A labelled value: its position and the lines of its label.
pub(super) struct Tick {
    pub position: f64,
    pub lines: Vec<String>,
}

impl Tick {
    fn new(position: f64, text: String) -> Tick {
        Tick {
            position,
            lines: vec![text],
        }
    }

    fn width(&self) -> f64 {
        self.lines
            .iter()
            .map(|line| width(line, SIZE))
            .fold(0.0, f64::max)
    }
}

impl Scale {
    /// The scale of an x axis between two positions, for these values.
    pub fn of_x(axis: &XAxis, values: &[f64], positions: (f64, f64)) -> Scale {
        let is_log = *axis == XAxis::Log;
        let (low, high) = match axis {
            XAxis::Steps(names) => (-0.5, names.len() as f64 - 0.5),
            _ => values
                .iter()
                .map(|x| if is_log { log(*x) } else { *x })
                .fold((f64::MAX, f64::MIN), |(low, high), x| (low.min(x), high.max(x))),
        };
        Scale {
            values: if low < high {
                (low, high)
            } else {
                (low - 1.0, low + 1.0)
            },
            positions,
            is_log,
        }
    }

    /// The scale of a y axis from 0 to `max`, which [`y_ticks`] gave.
    pub fn of_y(max: f64, positions: (f64, f64)) -> Scale {
        Scale {
            values: (0.0, max),
            positions,
            is_log: false,
        }
    }

    /// Position of `value`.
    pub fn position(&self, value: f64) -> f64 {
        let value = if self.is_log { log(value) } else { value };
        let share = (value - self.values.0) / (self.values.1 - self.values.0);
        self.positions.0 + share * (self.positions.1 - self.positions.0)
    }

    fn ticks(&self, values: impl Iterator<Item = f64>, text: fn(f64) -> String) -> Vec<Tick> {
        values
            .map(|value| Tick::new(self.position(value), text(value)))
            .collect()
    }

    /// The labelled values of an x axis: all of `values`, ascending and distinct, if there is space for their labels; else
    /// round ones, which on a logarithmic axis are powers of two.
    pub fn x_ticks(&self, axis: &XAxis, values: &[f64], text: fn(f64) -> String) -> Vec<Tick> {
        if let XAxis::Steps(names) = axis {
            return self.steps(names);
        }
        let all = self.ticks(values.iter().copied(), text);
        if are_apart(&all) {
            return all;
        }
        let (low, high) = self.values;
        let round = |count: i32| {
            let least = (high - low) / f64::from(count);
            let step = if self.is_log { least.ceil() } else { step(least) };
            let first = (low / step - 1e-9).ceil() as i64;
            let last = (high / step + 1e-9).floor() as i64;
            let round = (first..=last).map(|n| n as f64 * step);
            if !self.is_log {
                return self.ticks(round, text);
            }
            // What is drawn at the end because it has no logarithm has its own label.
            let zero = values.iter().copied().filter(|value| *value < LOG_MIN);
            let powers = round.map(f64::exp2).filter(|power| *power > LOG_MIN);
            self.ticks(zero.chain(powers), text)
        };
        (1..=8)
            .rev()
            .map(round)
            .find(|ticks| are_apart(ticks))
            .unwrap_or(all)
    }

    fn steps(&self, names: &[String]) -> Vec<Tick> {
        let space = (self.positions.1 - self.positions.0) / names.len() as f64 - GAP;
        names
            .iter()
            .enumerate()
            .map(|(index, name)| Tick {
                position: self.position(index as f64),
                lines: wrapped(name, SIZE, space),
            })
            .collect()
    }
}

fn log(value: f64) -> f64 {
    value.max(LOG_MIN).log2()
}

/// Whether no two labels touch.
fn are_apart(ticks: &[Tick]) -> bool {
    ticks
        .windows(2)
        .all(|pair| pair[1].position - pair[0].position >= (pair[0].width() + pair[1].width()) / 2.0 + GAP)
}

/// The labelled values of a y axis, from 0 to a round value that is not below `max`.
pub(super) fn y_ticks(max: f64) -> Vec<f64> {
    let step = if max > 0.0 { step(max / 5.0) } else { 1.0 };
    let count = (max / step - 1e-9).ceil().max(1.0) as usize;
    (0..=count).map(|n| n as f64 * step).collect()
}

/// The label of a value of the y axis.
pub(super) fn y_text(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{}M", trimmed(value / 1e6)),
        value if value >= 1e4 => format!("{}k", trimmed(value / 1e3)),
        value => trimmed(value),
    }
}

/// The least round distance that is not below `least`.
fn step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|n| n * power)
        .into_iter()
        .find(|step| *step >= least * (1.0 - 1e-9))
        .unwrap_or(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &XAxis, values: &[f64]) -> Vec<String> {
        let scale = Scale::of_x(axis, values, (50.0, 400.0));
        let ticks = scale.x_ticks(axis, values, trimmed);
        assert!(are_apart(&ticks));
        ticks.into_iter().map(|tick| tick.lines.concat()).collect()
    }

    #[test]
    fn few_values_are_all_labelled_and_many_at_round_places() {
        assert_eq!(texts(&XAxis::Linear, &[5.0, 50.0, 95.0]), ["5", "50", "95"]);
        let many: Vec<f64> = (1..=40).map(|n| f64::from(n) * 0.1).collect();
        assert_eq!(
            texts(&XAxis::Linear, &many),
            ["0.5", "1", "1.5", "2", "2.5", "3", "3.5", "4"]
        );
        let doubled: Vec<f64> = (0..24).map(|n| f64::from(1 << n)).collect();
        assert_eq!(texts(&XAxis::Log, &doubled)[..3], ["1", "16", "256"]);
        let sizes: Vec<f64> = (1..=64).map(|n| f64::from(n) * 16.0).collect();
        assert_eq!(
            texts(&XAxis::Log, &sizes),
            ["16", "32", "64", "128", "256", "512", "1024"]
        );
        assert_eq!(texts(&XAxis::Linear, &[7.0]), ["7"]);
        let pauses = (4..=13).map(|n| f64::from(1 << n));
        let pauses: Vec<f64> = [0.0].into_iter().chain(pauses).collect();
        assert_eq!(texts(&XAxis::Log, &pauses)[..3], ["0", "1", "4"]);
    }

    #[test]
    fn y_axes_end_at_or_above_the_maximum() {
        assert_eq!(y_ticks(26.0), [0.0, 10.0, 20.0, 30.0]);
        assert_eq!(
            y_ticks(0.6).into_iter().map(y_text).collect::<Vec<_>>(),
            ["0", "0.2", "0.4", "0.6"]
        );
        assert_eq!(y_ticks(0.0), [0.0, 1.0]);
        assert_eq!([40_000.0, 2e6, 150.0].map(y_text), ["40k", "2M", "150"]);
    }

    #[test]
    fn names_of_steps_break_into_lines() {
        let axis = XAxis::Steps(
            ["basic", "and unsignaled", "and inlined"]
                .map(str::to_string)
                .to_vec(),
        );
        let scale = Scale::of_x(&axis, &[], (50.0, 350.0));
        let ticks = scale.x_ticks(&axis, &[], trimmed);
        assert_eq!(ticks[1].lines, ["and", "unsignaled"]);
        assert_eq!(ticks[1].position, 200.0);
    }
}
