//! Dependencies point one way, and each foreign one has a comment with the reason.
//!
//! ARCHITECTURE.md lists the allowed edges, in the block that begins with [`FENCE`], one line per crate: `name: crates
//! it uses | dev: crates its tests use`. Edges that no table may allow are checked too.

use super::{Tree, Violation};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Document with the table.
const TABLE: &str = "ARCHITECTURE.md";
/// First line of the table.
const FENCE: &str = "```dependencies";
/// Prefix of package names before the crate's folder name; the binary has none.
const PREFIX: &str = "drover-";
/// Crates that may name a provider: they choose one at run time, or are for tests, which open them all.
const LEAVES: &[&str] = &[
    "drover",
    "client",
    "bench",
    "examples",
    "figures",
    "fuzz",
    "simcluster",
    "swarm",
    "testkit",
];

#[derive(Default, PartialEq, Debug)]
struct Edges {
    normal: BTreeSet<String>,
    dev: BTreeSet<String>,
}

/// Every edge of every Cargo.toml is in the table, every line of the table is an edge, and the invariants hold
/// regardless of the table.
pub fn edges(tree: &Tree) -> Vec<Violation> {
    let Some(file) = tree.file(TABLE) else {
        return vec![Violation::new(
            TABLE,
            0,
            "missing; it holds the table of dependencies",
        )];
    };
    let mut table = parse_table(&file.text);
    let mut found = Vec::new();
    for package in tree.members() {
        let name = short(&package["name"]);
        let actual = edges_of(package);
        let allowed = table.remove(&name).unwrap_or_default();
        found.extend(compare(package, "", &actual.normal, &allowed.normal));
        found.extend(compare(package, "dev: ", &actual.dev, &allowed.dev));
        found.extend(
            actual
                .normal
                .iter()
                .filter_map(|to| forbidden(&name, to))
                .map(|why| at(package, why)),
        );
    }
    found.extend(
        table
            .keys()
            .map(|name| Violation::new(TABLE, 0, format!("the table names `{name}`, which is no crate"))),
    );
    found
}

/// Every foreign dependency in the root Cargo.toml has a comment with the reason.
pub fn sentences(tree: &Tree) -> Vec<Violation> {
    let Some(file) = tree.file("Cargo.toml") else {
        return Vec::new();
    };
    let mut inside = false;
    let mut found = Vec::new();
    for (number, line) in file.lines() {
        if line.starts_with('[') {
            inside = line.starts_with("[workspace.dependencies");
        } else if inside && line.contains('=') && !line.contains("path =") && !has_sentence(line) {
            found.push(Violation::new(
                "Cargo.toml",
                number,
                "a dependency needs a sentence: `# what it is here for`",
            ));
        }
    }
    found
}

fn has_sentence(line: &str) -> bool {
    line.rsplit_once("# ")
        .is_some_and(|(_, why)| why.split_whitespace().count() >= 3)
}

fn compare(
    package: &Value,
    kind: &str,
    actual: &BTreeSet<String>,
    allowed: &BTreeSet<String>,
) -> Vec<Violation> {
    let name = short(&package["name"]);
    let new = actual.difference(allowed).map(|to| {
        at(
            package,
            format!("`{name}` uses `{kind}{to}`, which the table in {TABLE} does not allow"),
        )
    });
    let stale = allowed.difference(actual).map(|to| {
        Violation::new(
            TABLE,
            0,
            format!("the table allows `{name}` to use `{kind}{to}`, which it does not"),
        )
    });
    new.chain(stale).collect()
}

/// The reason why an edge is forbidden regardless of the table.
fn forbidden(from: &str, to: &str) -> Option<String> {
    let is_system = |name: &str| name.starts_with("kv-");
    // The suite tests providers; the rule of floors says which crates may link it.
    let is_provider = |name: &str| name.starts_with("verbs-") && name != "verbs-suite";
    if is_system(from) && is_system(to) {
        return Some(format!(
            "`{from}` uses `{to}`: what two systems share moves down to index, store, rt or kv"
        ));
    }
    if is_provider(to) && !is_provider(from) && !LEAVES.contains(&from) {
        return Some(format!(
            "`{from}` uses `{to}`: only binaries, tests and examples name a provider"
        ));
    }
    let floor: Option<&[&str]> = match from {
        "aes" => Some(&[]),
        "base" => Some(&["aes"]),
        "mem" => Some(&["base"]),
        "verbs" | "index" => Some(&["base", "mem"]),
        "store" => Some(&["base", "mem", "index"]),
        _ => None,
    };
    let floor = floor?;
    (!floor.contains(&to)).then(|| format!("`{from}` uses `{to}`: it rests on {} only", floor.join(", ")))
}

/// A violation in the package's Cargo.toml.
fn at(package: &Value, message: impl Into<String>) -> Violation {
    let manifest = package["manifest_path"].as_str().unwrap_or_default();
    let start = manifest.rfind("/crates/").map_or(0, |slash| slash + 1);
    Violation::new(&manifest[start..], 0, message)
}

fn edges_of(package: &Value) -> Edges {
    let mut edges = Edges::default();
    for dependency in package["dependencies"].as_array().into_iter().flatten() {
        if dependency["path"].is_null() {
            continue;
        }
        let name = short(&dependency["name"]);
        match dependency["kind"].as_str() {
            Some("dev") => edges.dev.insert(name),
            _ => edges.normal.insert(name),
        };
    }
    edges
}

fn short(name: &Value) -> String {
    name.as_str()
        .unwrap_or_default()
        .trim_start_matches(PREFIX)
        .to_string()
}

fn parse_table(text: &str) -> BTreeMap<String, Edges> {
    let lines = text.lines().skip_while(|line| line.trim() != FENCE).skip(1);
    let rows = lines.take_while(|line| !line.starts_with("```"));
    rows.filter_map(|line| line.split_once(':'))
        .map(|(name, uses)| (name.trim().to_string(), parse_row(uses)))
        .collect()
}

fn parse_row(uses: &str) -> Edges {
    let (normal, dev) = uses.split_once("| dev:").unwrap_or((uses, ""));
    let words = |text: &str| text.split_whitespace().map(str::to_string).collect();
    Edges {
        normal: words(normal),
        dev: words(dev),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::planted::tree;
    use super::*;
    use serde_json::json;

    fn package(name: &str, uses: &[&str], dev: &[&str]) -> Value {
        let edge =
            |to: &&str, kind: Value| json!({"name": format!("drover-{to}"), "path": "x", "kind": kind});
        let mut edges: Vec<Value> = uses.iter().map(|to| edge(to, Value::Null)).collect();
        edges.extend(dev.iter().map(|to| edge(to, json!("dev"))));
        json!({"name": format!("drover-{name}"), "id": name, "dependencies": edges})
    }

    fn messages(table: &str, packages: &[Value]) -> Vec<String> {
        let text = format!("# A\n{FENCE}\n{table}\n```\n");
        let mut tree = tree(&[(TABLE, &text)]);
        let ids: Vec<Value> = packages.iter().map(|p| p["id"].clone()).collect();
        tree.metadata = json!({"workspace_members": ids, "packages": packages});
        edges(&tree).into_iter().map(|v| v.message).collect()
    }

    #[test]
    fn an_exact_table_is_clean() {
        let packages = [package("base", &[], &[]), package("mem", &["base"], &["testkit"])];
        assert_eq!(
            messages("base:\nmem: base | dev: testkit", &packages),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_new_edge_is_caught() {
        let found = messages("rt: base", &[package("rt", &["base", "kv"], &[])]);
        assert_eq!(
            found,
            ["`rt` uses `kv`, which the table in ARCHITECTURE.md does not allow"]
        );
        let found = messages("rt: base", &[package("rt", &["base"], &["verbs-shm"])]);
        assert_eq!(
            found,
            ["`rt` uses `dev: verbs-shm`, which the table in ARCHITECTURE.md does not allow"]
        );
    }

    #[test]
    fn a_stale_line_is_caught() {
        let found = messages("rt: base mem\nold: base", &[package("rt", &["base"], &[])]);
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn what_no_table_may_allow_is_caught() {
        for (from, to) in [
            ("kv-a", "kv-b"),
            ("kv-a", "verbs-shm"),
            ("base", "mem"),
            ("index", "verbs"),
            ("store", "kv"),
            ("verbs", "verbs-shm"),
        ] {
            let found = messages(&format!("{from}: {to}"), &[package(from, &[to], &[])]);
            assert_eq!(found.len(), 1, "{from} -> {to}: {found:?}");
        }
        assert!(messages("kv-a: | dev: verbs-shm", &[package("kv-a", &[], &["verbs-shm"])]).is_empty());
        assert!(messages("bench: verbs-shm", &[package("bench", &["verbs-shm"], &[])]).is_empty());
    }

    #[test]
    fn a_dependency_without_a_sentence_is_caught() {
        let text = "[workspace.dependencies]\na = { path = \"a\" }\nb = \"1\" # the one true b\nc = \"1\"\n[profile.dev]\nd = 1\n";
        let found = sentences(&tree(&[("Cargo.toml", text)]));
        assert_eq!(found.iter().map(|v| v.line).collect::<Vec<_>>(), [4]);
    }
}
