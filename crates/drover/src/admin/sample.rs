//! One line of Prometheus' text format, taken apart.

/// A sample's name, labels and value.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// Of its family.
    pub name: String,
    /// In the order of the line.
    pub labels: Vec<(String, String)>,
    /// As it was then.
    pub value: f64,
}

impl Sample {
    /// What a label says, or nothing.
    pub fn label(&self, name: &str) -> &str {
        let found = self.labels.iter().find(|(label, _)| label == name);
        found.map_or("", |(_, value)| value)
    }
}

/// A sample, if the line is one.
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

/// What stands before the closing quote, unescaped, and what stands after it.
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
