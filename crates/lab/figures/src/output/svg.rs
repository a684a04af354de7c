//! [`svg`]: the values of a figure as a drawing. Solid lines with dots are simulated, dashed lines with rings are
//! published.

use super::short;
use super::table::sorted;
use crate::run::{FigureRun, Row};
use std::fmt::Write;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 470.0;
/// Left, right, top, bottom of the plot.
const PLOT: [f64; 4] = [70.0, 590.0, 46.0, 410.0];
/// Distinguishable also with colour vision deficiencies.
const COLOURS: [&str; 8] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#7f7f7f",
];

/// Maps values to positions in the drawing.
struct Axes {
    x: (f64, f64),
    y_max: f64,
    doubles: bool,
}

impl Axes {
    fn of(result: &FigureRun) -> Axes {
        let doubles = result.figure.x_doubles;
        let place = |x: f64| if doubles { x.max(0.5).log2() } else { x };
        let xs = result.rows.iter().map(|row| place(row.x));
        let (low, high) = xs.fold((f64::MAX, f64::MIN), |(low, high), x| (low.min(x), high.max(x)));
        let ys = result
            .rows
            .iter()
            .flat_map(|row| [row.simulated, row.expected.as_ref().map(|e| e.value)]);
        let y_max = ys.flatten().fold(0.0, f64::max);
        Axes {
            x: if low < high {
                (low, high)
            } else {
                (low - 1.0, low + 1.0)
            },
            y_max: step(y_max) * (y_max / step(y_max)).ceil().max(1.0),
            doubles,
        }
    }

    fn x(&self, x: f64) -> f64 {
        let x = if self.doubles { x.max(0.5).log2() } else { x };
        PLOT[0] + (x - self.x.0) / (self.x.1 - self.x.0) * (PLOT[1] - PLOT[0])
    }

    fn y(&self, y: f64) -> f64 {
        PLOT[3] - y / self.y_max * (PLOT[3] - PLOT[2])
    }
}

/// A round tick distance for values up to `max`: about five ticks.
fn step(max: f64) -> f64 {
    if max <= 0.0 {
        return 1.0;
    }
    let rough = max / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 2.5, 5.0, 10.0]
        .map(|n| n * power)
        .into_iter()
        .find(|s| *s >= rough)
        .unwrap_or(rough)
}

/// Text escaped for tags and attributes.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// Returns the drawing of a figure as an SVG document.
pub fn svg(result: &FigureRun) -> String {
    let axes = Axes::of(result);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\"><rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
    );
    let figure = &result.figure;
    let title = format!("{}: {} ({}), simulated", figure.name, figure.title, figure.source);
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"24\" font-size=\"15\">{}</text>",
        PLOT[0],
        escape(&title)
    );
    grid(&mut out, result, &axes);
    curves(&mut out, result, &axes);
    out.push_str("</svg>\n");
    out
}

fn grid(out: &mut String, result: &FigureRun, axes: &Axes) {
    let step = step(axes.y_max);
    for n in 0..=(axes.y_max / step + 0.5) as usize {
        let value = n as f64 * step;
        let y = axes.y(value);
        let _ = writeln!(
            out,
            "<line x1=\"{}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            PLOT[0],
            PLOT[1],
            PLOT[0] - 6.0,
            y + 4.0,
            trimmed(value)
        );
    }
    let mut last = f64::MIN;
    for x in ticks(&result.rows) {
        let place = axes.x(x);
        if place - last < 26.0 {
            continue;
        }
        last = place;
        let _ = writeln!(
            out,
            "<line x1=\"{place:.1}\" x2=\"{place:.1}\" y1=\"{}\" y2=\"{}\" stroke=\"#eee\"/>\
             <text x=\"{place:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            PLOT[2],
            PLOT[3],
            PLOT[3] + 16.0,
            trimmed(x)
        );
    }
    let (middle, across) = ((PLOT[0] + PLOT[1]) / 2.0, (PLOT[2] + PLOT[3]) / 2.0);
    let _ = writeln!(
        out,
        "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
         <text x=\"18\" y=\"{across}\" text-anchor=\"middle\" transform=\"rotate(-90 18 {across})\">{}</text>",
        PLOT[3] + 38.0,
        escape(result.figure.x_axis),
        escape(result.figure.y_axis)
    );
}

/// All positions on the x axis, ascending and distinct.
fn ticks(rows: &[Row]) -> Vec<f64> {
    let mut xs: Vec<f64> = rows.iter().map(|row| row.x).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    xs
}

fn trimmed(value: f64) -> String {
    if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value}")
    }
}

fn curves(out: &mut String, result: &FigureRun, axes: &Axes) {
    let rows = sorted(result);
    let groups = rows.chunk_by(|a, b| a.series == b.series && a.metric.name() == b.metric.name());
    for (number, curve) in groups.enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let published = curve
            .iter()
            .filter_map(|row| Some((row.x, row.expected.as_ref()?.value)));
        let simulated = curve.iter().filter_map(|row| Some((row.x, row.simulated?)));
        line(out, axes, published, colour, true);
        line(out, axes, simulated, colour, false);
        bars(out, axes, curve, colour);
        legend(out, number, curve[0], colour);
    }
}

fn line(
    out: &mut String,
    axes: &Axes,
    points: impl Iterator<Item = (f64, f64)>,
    colour: &str,
    published: bool,
) {
    let points: Vec<(f64, f64)> = points.map(|(x, y)| (axes.x(x), axes.y(y))).collect();
    let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let dashes = if published {
        " stroke-dasharray=\"5 4\" opacity=\"0.7\""
    } else {
        ""
    };
    let _ = writeln!(
        out,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\"{dashes}/>",
        path.join(" ")
    );
    let fill = if published { "white" } else { colour };
    for (x, y) in points {
        let _ = writeln!(
            out,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{fill}\" stroke=\"{colour}\"/>"
        );
    }
}

/// Bars from the minimum to the maximum over the seeds.
fn bars(out: &mut String, axes: &Axes, curve: &[&Row], colour: &str) {
    for row in curve
        .iter()
        .filter(|row| row.simulated.is_some() && row.range.0 < row.range.1)
    {
        let (x, low, high) = (axes.x(row.x), axes.y(row.range.0), axes.y(row.range.1));
        let _ = writeln!(
            out,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{low:.1}\" y2=\"{high:.1}\" stroke=\"{colour}\"/>"
        );
    }
}

fn legend(out: &mut String, number: usize, row: &Row, colour: &str) {
    let y = PLOT[2] + 10.0 + 18.0 * number as f64;
    let x = PLOT[1] + 16.0;
    let name = match row.metric.name() {
        "throughput" | "latency" => row.series.clone(),
        metric => format!("{} ({metric})", row.series),
    };
    let peak = row.simulated.map_or(String::new(), short);
    let _ = writeln!(
        out,
        "<line x1=\"{x}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\" stroke=\"{colour}\" stroke-width=\"3\"/>\
         <text x=\"{}\" y=\"{}\"><title>{}</title>{}</text>",
        x + 18.0,
        x + 24.0,
        y + 4.0,
        escape(&peak),
        escape(&name)
    );
}
