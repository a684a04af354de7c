//! Parser for one line of Prometheus' text format.

/// A sample's name, labels and value.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// Name of the sample.
    pub name: String,
    /// Labels and values, in the order of the line.
    pub labels: Vec<(String, String)>,
    /// Value of the sample.
    pub value: f64,
}

impl Sample {
    /// Value of the label `name`; empty if the sample has no such label.
    pub fn label(&self, name: &str) -> &str {
        let found = self.labels.iter().find(|(label, _)| label == name);
        found.map_or("", |(_, value)| value)
    }
}

/// Parses a line; `None` if it is not a sample. A sample with a timestamp is not accepted.
pub fn parse(line: &str) -> Option<Sample> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"")?;
            let (value, after) = quoted(after)?;
            labels.push((label.to_string(), value));
            match after.strip_prefix(',') {
                Some(more) => rest = more,
                None => {
                    rest = after.strip_prefix('}')?;
                    break;
                }
            }
        }
    }
    let name = name.to_string();
    let value = rest.strip_prefix(' ')?.parse().ok()?;
    Some(Sample { name, labels, value })
}

/// The unescaped text before the closing quote, and the text after it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut chars) = (String::new(), text.char_indices());
    loop {
        match chars.next()? {
            (at, '"') => return Some((value, &text[at + 1..])),
            (_, '\\') => value.push(match chars.next()?.1 {
                'n' => '\n',
                c @ ('\\' | '"') => c,
                _ => return None,
            }),
            (_, c) => value.push(c),
        }
    }
}
