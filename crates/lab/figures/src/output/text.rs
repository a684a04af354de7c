//! Texts in drawings and pages: escaped, measured, broken into lines; numbers for readers.

use std::fmt::Write;

/// Width of a character in units of the font's size: that of wide sans-serif fonts, so that estimates are rather too large.
const CHARACTER: f64 = 0.64;

/// Escapes `text` for use in elements and attributes.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// A number with a sensible number of decimals.
pub fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 100.0 => format!("{value:.1}"),
        v if v >= 10.0 => format!("{value:.2}"),
        v if v >= 0.1 || v == 0.0 => format!("{value:.3}"),
        _ => format!("{value:.5}"),
    }
}

/// A value of an axis: six digits at most after the point, and no zeros at the end. Sums of steps such as 0.1 are not exact;
/// `{}` would print 0.6000000000000001.
pub fn trimmed(value: f64) -> String {
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    match text {
        "-0" => "0".to_string(),
        text => text.to_string(),
    }
}

/// Attributes of a text that begins at its position.
pub(super) const START: &str = r#"text-anchor="start""#;
/// Attributes of a bold text that begins at its position.
pub(super) const BOLD: &str = r#"text-anchor="start" font-weight="600""#;
/// Attributes of a text that is centred at its position.
pub(super) const MIDDLE: &str = r#"text-anchor="middle""#;
/// Attributes of a text that ends at its position.
pub(super) const END: &str = r#"text-anchor="end""#;
/// Attributes of a text in italics that ends at its position.
pub(super) const ITALIC_END: &str = r#"text-anchor="end" font-style="italic""#;

/// Adds a text with these attributes to a drawing; its position is that of the base line.
pub(super) fn label(out: &mut String, class: &str, attributes: &str, (x, y): (f64, f64), text: &str) {
    let _ = writeln!(
        out,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{}</text>",
        escape(text)
    );
}

/// Estimated width of `text` in a font of `size`.
pub(super) fn width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * CHARACTER
}

/// Breaks `text` between words into lines that are at most `space` wide; only a longer word is wider.
pub(super) fn wrapped(text: &str, size: f64, space: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line, size) + width(word, size) + size * CHARACTER <= space => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_axes_have_no_spurious_digits() {
        let tenths = (0..10).map(|n| f64::from(n) * 0.1);
        assert!(tenths.map(trimmed).all(|text| text.len() <= 3));
        assert_eq!(
            [0.1 + 0.2, 1024.0, -0.0, 2.5e-3].map(trimmed),
            ["0.3", "1024", "0", "0.0025"]
        );
    }

    #[test]
    fn lines_break_between_words() {
        let lines = wrapped("and unsignaled and more", 10.0, 70.0);
        assert_eq!(lines, ["and", "unsignaled", "and more"]);
        assert!(wrapped("", 10.0, 70.0).is_empty());
    }
}
