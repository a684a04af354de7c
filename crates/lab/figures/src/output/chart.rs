//! [`Chart`]: up to eight curves over a common x axis, as a drawing. Knows no figure.

use super::legend;
use super::marks::{CURVES_MAX, colour, line, mark};
use super::scale::{SIZE, Scale, Tick, XAxis, y_text, y_ticks};
use super::text::{BOLD, END, MIDDLE, escape, label, trimmed, width, wrapped};
use std::fmt::Write;

/// Width of a chart: at 400 pixels it is drawn at nearly its own size, so that labels stay readable on a phone.
pub(super) const WIDTH: f64 = 420.0;
/// Height between the axes.
const PLOT_HEIGHT: f64 = 210.0;
/// Height of a line of text.
pub(super) const LINE: f64 = 17.0;
/// Space between the ends of an axis and the first and last values.
const PAD: f64 = 10.0;
/// Margin at the sides.
const MARGIN: f64 = 6.0;

/// What a chart shows.
#[derive(Clone, Debug)]
pub struct Chart {
    /// What the y axis shows, with its unit; stands above the chart.
    pub y_axis: String,
    /// Value that the y axis reaches at least, so that several charts have the same.
    pub y_least: f64,
    /// Label of the x axis, with its unit.
    pub x_axis: String,
    /// Kind of the x axis.
    pub x: XAxis,
    /// Text of a value on the x axis.
    pub x_text: fn(f64) -> String,
    /// What solid lines with filled marks are, and dashed lines with hollow marks.
    pub meaning: [&'static str; 2],
    /// The curves, in the order of the legend.
    pub curves: Vec<Curve>,
}

impl Default for Chart {
    fn default() -> Chart {
        Chart {
            y_axis: String::new(),
            y_least: 0.0,
            x_axis: String::new(),
            x: XAxis::Linear,
            x_text: trimmed,
            meaning: ["published", "simulated"],
            curves: Vec::new(),
        }
    }
}

/// One curve: a colour, a shape of marks and an entry of the legend.
#[derive(Clone, Default, Debug)]
pub struct Curve {
    /// Name in the legend.
    pub name: String,
    /// Values of the solid line, x ascending.
    pub solid: Vec<Dot>,
    /// Values of the dashed line, x ascending.
    pub dashed: Vec<Dot>,
}

/// A value of a curve.
#[derive(Clone, Default, Debug)]
pub struct Dot {
    /// Position on the x axis.
    pub x: f64,
    /// Value.
    pub y: f64,
    /// Ends of a vertical bar through the value, if it has one.
    pub range: Option<(f64, f64)>,
    /// Text that a pointer on the mark shows.
    pub hint: String,
}

impl Chart {
    fn dots(&self) -> impl Iterator<Item = &Dot> {
        self.curves
            .iter()
            .flat_map(|curve| curve.solid.iter().chain(&curve.dashed))
    }

    /// All positions on the x axis, ascending and distinct.
    fn xs(&self) -> Vec<f64> {
        let mut xs: Vec<f64> = self.dots().map(|dot| dot.x).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        xs
    }

    /// Greatest y of a value or bar.
    pub(super) fn y_max(&self) -> f64 {
        let highs = self
            .dots()
            .map(|dot| dot.range.map_or(dot.y, |(_, high)| high.max(dot.y)));
        highs.fold(self.y_least, f64::max)
    }

    /// Returns the chart as an `svg` element with these further attributes, and its height. The legend is not in it.
    ///
    /// # Panics
    /// If there are more than eight curves.
    pub(super) fn draw(&self, attributes: &str) -> (String, f64) {
        assert!(self.curves.len() <= CURVES_MAX, "no more than can be told apart");
        let frame = Frame::of(self);
        let height = frame.height();
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 {WIDTH} {height:.0}\" \
             font-family=\"sans-serif\" font-size=\"{SIZE}\" role=\"img\" aria-label=\"{}\" {attributes}>\n",
            escape(&format!("{} by {}", self.y_axis, self.x_axis))
        );
        frame.axes(&mut out);
        for (index, curve) in self.curves.iter().enumerate() {
            line(&mut out, index, &frame.positions(&curve.solid), true);
            line(&mut out, index, &frame.positions(&curve.dashed), false);
        }
        for (index, curve) in self.curves.iter().enumerate() {
            frame.dots(&mut out, index, &curve.solid, true);
            frame.dots(&mut out, index, &curve.dashed, false);
        }
        out.push_str("</svg>\n");
        (out, height)
    }

    /// Entries of the legend: the curves, then what kinds of lines mean.
    pub(super) fn legend(&self) -> Vec<legend::Entry> {
        let mut entries: Vec<legend::Entry> = self
            .curves
            .iter()
            .enumerate()
            .map(|(index, curve)| legend::Entry::curve(index, &curve.name))
            .collect();
        let has = [
            self.curves.iter().any(|curve| !curve.solid.is_empty()),
            self.curves.iter().any(|curve| !curve.dashed.is_empty()),
        ];
        for (is_solid, (meaning, has)) in [true, false].into_iter().zip(self.meaning.into_iter().zip(has)) {
            if has && !meaning.is_empty() {
                entries.push(legend::Entry::kind(is_solid, meaning));
            }
        }
        entries
    }
}

/// Where the parts of a chart are.
struct Frame {
    above: Vec<String>,
    below: Vec<String>,
    x: Scale,
    x_ticks: Vec<Tick>,
    y: Scale,
    y_ticks: Vec<f64>,
    /// Left, right, top and bottom of the plot.
    plot: [f64; 4],
}

impl Frame {
    fn of(chart: &Chart) -> Frame {
        let y_ticks = y_ticks(chart.y_max());
        let texts = y_ticks.iter().map(|value| width(&y_text(*value), SIZE));
        let left = MARGIN + texts.fold(0.0, f64::max) + MARGIN;
        let xs = chart.xs();
        let last = xs.last().map_or(0.0, |x| width(&(chart.x_text)(*x), SIZE));
        let right = WIDTH - MARGIN.max(last / 2.0 + 2.0 - PAD);
        let above = wrapped(&chart.y_axis, SIZE, WIDTH - 2.0 * MARGIN);
        let top = above.len() as f64 * LINE + 10.0;
        let bottom = top + PLOT_HEIGHT;
        let x = Scale::of_x(&chart.x, &xs, (left + PAD, right - PAD));
        Frame {
            above,
            below: wrapped(&chart.x_axis, SIZE, WIDTH - 2.0 * MARGIN),
            x_ticks: x.x_ticks(&chart.x, &xs, chart.x_text),
            x,
            y: Scale::of_y(y_ticks.last().copied().unwrap_or(1.0), (bottom, top)),
            y_ticks,
            plot: [left, right, top, bottom],
        }
    }

    fn lines_of_ticks(&self) -> usize {
        self.x_ticks
            .iter()
            .map(|tick| tick.lines.len())
            .max()
            .unwrap_or(1)
    }

    fn height(&self) -> f64 {
        self.plot[3] + (self.lines_of_ticks() + self.below.len()) as f64 * LINE + MARGIN
    }

    fn positions(&self, dots: &[Dot]) -> Vec<(f64, f64)> {
        dots.iter()
            .map(|dot| (self.x.position(dot.x), self.y.position(dot.y)))
            .collect()
    }

    fn axes(&self, out: &mut String) {
        let [left, right, top, bottom] = self.plot;
        for (nth, text) in self.above.iter().enumerate() {
            label(out, "label-y", BOLD, (MARGIN, 14.0 + nth as f64 * LINE), text);
        }
        for &value in &self.y_ticks {
            let y = self.y.position(value);
            let _ = writeln!(
                out,
                "<line x1=\"{left:.1}\" x2=\"{right:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>"
            );
            label(out, "tick-y", END, (left - MARGIN, y + 4.0), &y_text(value));
        }
        for tick in &self.x_ticks {
            let x = tick.position;
            let _ = writeln!(
                out,
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top:.1}\" y2=\"{bottom:.1}\" stroke=\"#eee\"/>"
            );
            for (nth, text) in tick.lines.iter().enumerate() {
                label(out, "tick-x", MIDDLE, (x, bottom + LINE * (nth + 1) as f64), text);
            }
        }
        let first = bottom + LINE * (self.lines_of_ticks() + 1) as f64;
        for (nth, text) in self.below.iter().enumerate() {
            let at = ((left + right) / 2.0, first + nth as f64 * LINE);
            label(out, "label-x", MIDDLE, at, text);
        }
    }

    /// Marks with their bars and hints. An invisible disc makes a mark easier to point at.
    fn dots(&self, out: &mut String, index: usize, dots: &[Dot], is_filled: bool) {
        for dot in dots {
            let (x, y) = (self.x.position(dot.x), self.y.position(dot.y));
            let _ = write!(out, "<g><title>{}</title>", escape(&dot.hint));
            if let Some((low, high)) = dot.range {
                let (low, high) = (self.y.position(low), self.y.position(high));
                let _ = write!(
                    out,
                    "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{low:.1}\" y2=\"{high:.1}\" stroke=\"{}\"/>",
                    colour(index)
                );
            }
            mark(out, index, (x, y), is_filled);
            let _ = writeln!(
                out,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"8\" fill-opacity=\"0\"/></g>"
            );
        }
    }
}
