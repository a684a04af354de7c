//! The licence expression of every dependency can be met by permissive licences.

use super::{Tree, Violation};

/// Licences that require only their notice.
const ALLOWED: &[&str] = &[
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-1-Clause",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "NCSA",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "Zlib",
    "0BSD",
];

/// Dependencies whose licence is missing or requires more.
pub fn allowed(tree: &Tree) -> Vec<Violation> {
    let foreign = tree.packages().filter(|package| !package["source"].is_null());
    foreign
        .filter(|package| !package["license"].as_str().is_some_and(is_met))
        .map(|package| {
            let message = format!(
                "{} has licence {}: MIT, Apache-2.0, BSD and their like only",
                package["name"], package["license"]
            );
            Violation::new("Cargo.lock", 0, message)
        })
        .collect()
}

/// Whether allowed licences can meet the SPDX `expression`: some side of an OR, both sides of an AND.
fn is_met(expression: &str) -> bool {
    let expression = expression.replace('/', " OR "); // as older packages write it
    let tokens = expression.replace('(', " ( ").replace(')', " ) ");
    let tokens: Vec<&str> = tokens.split_whitespace().collect();
    let mut at = 0;
    any_of(&tokens, &mut at) && at == tokens.len()
}

fn any_of(tokens: &[&str], at: &mut usize) -> bool {
    let mut met = all_of(tokens, at);
    while tokens.get(*at) == Some(&"OR") {
        *at += 1;
        met |= all_of(tokens, at);
    }
    met
}

fn all_of(tokens: &[&str], at: &mut usize) -> bool {
    let mut met = one(tokens, at);
    while tokens.get(*at) == Some(&"AND") {
        *at += 1;
        met &= one(tokens, at);
    }
    met
}

fn one(tokens: &[&str], at: &mut usize) -> bool {
    if tokens.get(*at) == Some(&"(") {
        *at += 1;
        let met = any_of(tokens, at);
        *at += 1; // the closing bracket
        return met;
    }
    let Some(name) = tokens.get(*at) else { return false };
    *at += 1;
    let mut name = name.to_string();
    if tokens.get(*at) == Some(&"WITH") {
        name = format!("{name} WITH {}", tokens.get(*at + 1).unwrap_or(&""));
        *at += 2;
    }
    ALLOWED.contains(&name.as_str())
}

#[cfg(test)]
mod tests {
    use super::super::tree::planted::tree;
    use super::*;
    use serde_json::json;

    #[test]
    fn expressions() {
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-2.0 OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
        ] {
            assert!(is_met(good), "{good}");
        }
        for bad in [
            "GPL-3.0",
            "MIT AND GPL-2.0",
            "",
            "(MIT OR GPL-2.0) AND AGPL-3.0",
            "MPL-2.0",
        ] {
            assert!(!is_met(bad), "{bad}");
        }
    }

    #[test]
    fn a_dependency_with_a_bad_or_no_licence_is_caught() {
        let mut tree = tree(&[]);
        tree.metadata = json!({"packages": [
            {"name": "ours", "source": null, "license": null},
            {"name": "good", "source": "r", "license": "MIT"},
            {"name": "bad", "source": "r", "license": "GPL-3.0-only"},
            {"name": "none", "source": "r", "license": null},
        ]});
        assert_eq!(allowed(&tree).len(), 2);
    }
}
