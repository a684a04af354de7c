//! Colours and shapes by which curves are told apart, on screens and on paper.

use std::fmt::Write;

/// Most curves of one chart: there are as many colours and shapes.
pub const CURVES_MAX: usize = 8;

/// Index of a colour and mark that no curve has, for samples of kinds of lines.
pub(super) const NEUTRAL: usize = CURVES_MAX;

/// Distinguishable also with colour vision deficiencies; the last is neutral.
const COLOURS: [&str; CURVES_MAX + 1] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#b8860b", "#000000", "#7f7f7f", "#444444",
];

/// The colour of the curve with this index.
pub(super) fn colour(index: usize) -> &'static str {
    COLOURS[index]
}

/// Adds the mark of the curve with this index at a position: filled, or hollow.
pub(super) fn mark(out: &mut String, index: usize, (x, y): (f64, f64), is_filled: bool) {
    let colour = colour(index);
    let fill = if is_filled { colour } else { "#fff" };
    let corners = corners(index);
    let style = format!("fill=\"{fill}\" stroke=\"{colour}\" stroke-width=\"1.3\"");
    if corners.is_empty() {
        let _ = write!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.2\" {style}/>");
        return;
    }
    let corners: Vec<String> = corners
        .iter()
        .map(|(dx, dy)| format!("{:.1},{:.1}", x + dx, y + dy))
        .collect();
    let _ = write!(out, "<polygon points=\"{}\" {style}/>", corners.join(" "));
}

/// Corners of a shape around its centre; none: a circle.
fn corners(shape: usize) -> &'static [(f64, f64)] {
    match shape {
        0 | NEUTRAL => &[],
        1 => &[(-3.0, -3.0), (3.0, -3.0), (3.0, 3.0), (-3.0, 3.0)],
        2 => &[(0.0, -4.2), (3.8, 2.8), (-3.8, 2.8)],
        3 => &[(0.0, -4.4), (4.4, 0.0), (0.0, 4.4), (-4.4, 0.0)],
        4 => &[(0.0, 4.2), (3.8, -2.8), (-3.8, -2.8)],
        5 => &[(-3.4, -3.8), (3.4, -3.8), (-3.4, 3.8), (3.4, 3.8)],
        6 => &[(-4.4, -2.0), (4.4, -2.0), (4.4, 2.0), (-4.4, 2.0)],
        _ => &[(-2.0, -4.4), (2.0, -4.4), (2.0, 4.4), (-2.0, 4.4)],
    }
}

/// Adds a line of the curve with this index through some positions: solid, or dashed.
pub(super) fn line(out: &mut String, index: usize, positions: &[(f64, f64)], is_solid: bool) {
    if positions.len() < 2 {
        return;
    }
    let path: Vec<String> = positions.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let dashes = if is_solid { "" } else { " stroke-dasharray=\"5 3\"" };
    let _ = writeln!(
        out,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\"{dashes}/>",
        path.join(" "),
        colour(index)
    );
}
