//! [`Chart`]: curves over a common x axis, as a drawing. Knows no figure.

use std::fmt::Write;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 470.0;
/// Left, right, top, bottom of the plot.
const PLOT: [f64; 4] = [70.0, 590.0, 46.0, 410.0];
/// Distinguishable also with colour vision deficiencies.
const COLOURS: [&str; 8] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#7f7f7f",
];

/// What a chart shows.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Title, one line.
    pub title: String,
    /// Label of the x axis, with its unit.
    pub x_axis: String,
    /// Label of the y axis, with its unit.
    pub y_axis: String,
    /// Whether the x axis is logarithmic; then values below 0.5 are drawn at 0.5.
    pub x_doubles: bool,
    /// Text of a value on the x axis.
    pub x_text: fn(f64) -> String,
    /// The curves, in the order of the legend.
    pub curves: Vec<Curve>,
}

/// One curve: a colour and a line of the legend.
#[derive(Clone, Default, Debug)]
pub struct Curve {
    /// Name in the legend.
    pub name: String,
    /// Text that a pointer on the name shows.
    pub hint: String,
    /// Values, a solid line with dots: x and y, x ascending.
    pub solid: Vec<(f64, f64)>,
    /// Values to compare with, a dashed line with rings.
    pub dashed: Vec<(f64, f64)>,
    /// Vertical bars: x, and the y of both ends.
    pub bars: Vec<(f64, f64, f64)>,
}

/// A value of an axis as text: without decimals if it is whole.
pub fn trimmed(value: f64) -> String {
    if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value}")
    }
}

impl Chart {
    fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        self.curves
            .iter()
            .flat_map(|curve| curve.solid.iter().chain(&curve.dashed).copied())
    }

    /// All positions on the x axis, ascending and distinct.
    fn ticks(&self) -> Vec<f64> {
        let mut xs: Vec<f64> = self.points().map(|(x, _)| x).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        xs
    }

    /// Returns the chart as an SVG document.
    pub fn svg(&self) -> String {
        let axes = Axes::of(self);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
             font-size=\"12\"><rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
        );
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"24\" font-size=\"15\">{}</text>",
            PLOT[0],
            escape(&self.title)
        );
        grid(&mut out, self, &axes);
        for (number, curve) in self.curves.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            line(&mut out, &axes, &curve.dashed, colour, true);
            line(&mut out, &axes, &curve.solid, colour, false);
            bars(&mut out, &axes, &curve.bars, colour);
            legend(&mut out, number, curve, colour);
        }
        out.push_str("</svg>\n");
        out
    }
}

/// Maps values to positions in the drawing.
struct Axes {
    x: (f64, f64),
    y_max: f64,
    doubles: bool,
}

impl Axes {
    fn of(chart: &Chart) -> Axes {
        let doubles = chart.x_doubles;
        let place = |x: f64| if doubles { x.max(0.5).log2() } else { x };
        let xs = chart.points().map(|(x, _)| place(x));
        let (low, high) = xs.fold((f64::MAX, f64::MIN), |(low, high), x| (low.min(x), high.max(x)));
        let y_max = chart.points().map(|(_, y)| y).fold(0.0, f64::max);
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

fn grid(out: &mut String, chart: &Chart, axes: &Axes) {
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
    for x in chart.ticks() {
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
            escape(&(chart.x_text)(x))
        );
    }
    let (middle, across) = ((PLOT[0] + PLOT[1]) / 2.0, (PLOT[2] + PLOT[3]) / 2.0);
    let _ = writeln!(
        out,
        "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
         <text x=\"18\" y=\"{across}\" text-anchor=\"middle\" transform=\"rotate(-90 18 {across})\">{}</text>",
        PLOT[3] + 38.0,
        escape(&chart.x_axis),
        escape(&chart.y_axis)
    );
}

fn line(out: &mut String, axes: &Axes, points: &[(f64, f64)], colour: &str, dashed: bool) {
    let points: Vec<(f64, f64)> = points.iter().map(|(x, y)| (axes.x(*x), axes.y(*y))).collect();
    let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let dashes = if dashed {
        " stroke-dasharray=\"5 4\" opacity=\"0.7\""
    } else {
        ""
    };
    let _ = writeln!(
        out,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\"{dashes}/>",
        path.join(" ")
    );
    let fill = if dashed { "white" } else { colour };
    for (x, y) in points {
        let _ = writeln!(
            out,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{fill}\" stroke=\"{colour}\"/>"
        );
    }
}

fn bars(out: &mut String, axes: &Axes, bars: &[(f64, f64, f64)], colour: &str) {
    for (x, low, high) in bars {
        let (x, low, high) = (axes.x(*x), axes.y(*low), axes.y(*high));
        let _ = writeln!(
            out,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{low:.1}\" y2=\"{high:.1}\" stroke=\"{colour}\"/>"
        );
    }
}

fn legend(out: &mut String, number: usize, curve: &Curve, colour: &str) {
    let y = PLOT[2] + 10.0 + 18.0 * number as f64;
    let x = PLOT[1] + 16.0;
    let _ = writeln!(
        out,
        "<line x1=\"{x}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\" stroke=\"{colour}\" stroke-width=\"3\"/>\
         <text x=\"{}\" y=\"{}\"><title>{}</title>{}</text>",
        x + 18.0,
        x + 24.0,
        y + 4.0,
        escape(&curve.hint),
        escape(&curve.name)
    );
}
