//! The folders of `crates/` are floors: no dependency points from a lower floor to a higher one, and only the lab's
//! crates link fault injectors.

use super::{Tree, Violation};
use serde_json::Value;
use std::path::Path;

/// Floors from the bottom up. The binary's folder is above them.
const FLOORS: &[&str] = &[
    "foundation",
    "fabrics",
    "runtime",
    "stores",
    "systems",
    "service",
    "lab",
    "drover",
];
/// Crates that are tests and may use everything, as tests may.
const TESTS: &[&str] = &["fuzz-targets"];
/// The floor of measurements and tests.
const LAB: &str = "lab";
/// The folder of the conformance suite, the reference provider and the fault injector.
const SUITE: &str = "verbs-suite";

/// Every crate is on a floor, in a folder with its name, and uses crates of its floor and of lower ones.
pub fn floors(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for package in tree.members() {
        let name = package["name"].as_str().unwrap_or_default();
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        let Some(location) = manifest.parent().and_then(Location::of) else {
            continue;
        };
        let report = |message| Violation::new(&location.manifest(), 0, message);
        let Some(floor) = location.floor() else {
            found.push(report(format!(
                "`{}` is no floor: {}",
                location.floor,
                FLOORS.join(", ")
            )));
            continue;
        };
        if name != location.package() {
            found.push(report(format!("`{name}` belongs in a folder of that name")));
        }
        if TESTS.contains(&location.folder.as_str()) {
            continue;
        }
        for to in uses(package).filter(|to| to.floor() > Some(floor)) {
            found.push(report(format!(
                "`{}` ({}) uses `{}` ({}), which is above it",
                location.folder, location.floor, to.folder, to.floor
            )));
        }
    }
    found
}

/// Only tests and crates of `lab` link the conformance suite of providers: it injects faults and breaks rules on
/// purpose.
///
/// Shipping crates are all floors below `lab`, and the binary's crate. The binary still contains `Faulty`, because
/// `drover sim` runs the clusters of `swarm`; that edge belongs to `swarm`, a crate of `lab`, and no code that serves
/// or requests keys can reach it.
pub fn suite(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for package in tree.members() {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        let Some(location) = manifest.parent().and_then(Location::of) else {
            continue;
        };
        if location.floor == LAB || !uses(package).any(|to| to.folder == SUITE) {
            continue;
        }
        let message = format!(
            "`{}` ships, so it uses `{SUITE}` in tests only: move it to [dev-dependencies]",
            location.folder
        );
        found.push(Violation::new(&location.manifest(), 0, message));
    }
    found
}

/// Crates that a package uses outside its tests.
fn uses(package: &Value) -> impl Iterator<Item = Location> {
    let dependencies = package["dependencies"].as_array().into_iter().flatten();
    dependencies
        .filter(|dependency| dependency["kind"].as_str() != Some("dev"))
        .filter_map(|dependency| Location::of(Path::new(dependency["path"].as_str()?)))
}

/// Floor and folder of a crate.
struct Location {
    floor: String,
    folder: String,
}

impl Location {
    /// The location of a crate folder below `crates/`; `None` for other folders.
    fn of(folder: &Path) -> Option<Location> {
        let mut names = folder.iter().map(|name| name.to_string_lossy().into_owned());
        names.by_ref().find(|name| name == "crates")?;
        let floor = names.next()?;
        let folder = names.next().unwrap_or_else(|| floor.clone());
        Some(Location { floor, folder })
    }

    fn floor(&self) -> Option<usize> {
        FLOORS.iter().position(|&floor| floor == self.floor)
    }

    fn package(&self) -> String {
        match self.folder.as_str() {
            "drover" => self.folder.clone(),
            folder => format!("drover-{folder}"),
        }
    }

    fn manifest(&self) -> String {
        match self.floor == self.folder {
            true => format!("crates/{}/Cargo.toml", self.folder),
            false => format!("crates/{}/{}/Cargo.toml", self.floor, self.folder),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::planted::tree;
    use super::*;
    use serde_json::json;

    /// Messages about a package in `crates/<folder>` that uses crates in folders `uses`, and whose tests use `dev`.
    fn messages(name: &str, folder: &str, uses: &[&str], dev: &[&str]) -> Vec<String> {
        messages_of(floors, name, folder, uses, dev)
    }

    fn messages_of(
        rule: fn(&Tree) -> Vec<Violation>,
        name: &str,
        folder: &str,
        uses: &[&str],
        dev: &[&str],
    ) -> Vec<String> {
        let edge = |to: &&str, kind: Value| json!({"path": format!("/x/crates/{to}"), "kind": kind});
        let mut edges: Vec<Value> = uses.iter().map(|to| edge(to, Value::Null)).collect();
        edges.extend(dev.iter().map(|to| edge(to, json!("dev"))));
        let manifest = format!("/x/crates/{folder}/Cargo.toml");
        let package = json!({"name": name, "id": name, "manifest_path": manifest, "dependencies": edges});
        let mut tree = tree(&[]);
        tree.metadata = json!({"workspace_members": [name], "packages": [package]});
        rule(&tree).into_iter().map(|v| v.message).collect()
    }

    #[test]
    fn an_edge_that_points_up_is_caught() {
        assert_eq!(
            messages("drover-rt", "runtime/rt", &["systems/kv"], &[]),
            ["`rt` (runtime) uses `kv` (systems), which is above it"]
        );
        assert_eq!(messages("drover-perf", "lab/perf", &["drover"], &[]).len(), 1);
    }

    #[test]
    fn other_edges_are_fine() {
        let none: Vec<String> = Vec::new();
        assert_eq!(
            messages("drover-kv", "systems/kv", &["runtime/rt", "systems/x"], &[]),
            none
        );
        assert_eq!(
            messages("drover-kv", "systems/kv", &[], &["lab/testkit"]),
            none,
            "a test's"
        );
        assert_eq!(messages("drover", "drover", &["lab/swarm"], &[]), none);
        assert_eq!(
            messages("drover-fuzz-targets", "lab/fuzz-targets", &["drover"], &[]),
            none
        );
    }

    #[test]
    fn a_crate_stands_on_a_floor_under_its_own_name() {
        assert_eq!(messages("drover-a", "attic/a", &[], &[]).len(), 1);
        assert_eq!(messages("drover-a", "lab/b", &[], &[]).len(), 1);
    }

    #[test]
    fn a_shipping_crate_that_links_the_suite_is_caught() {
        let of = |name, folder| messages_of(suite, name, folder, &["fabrics/verbs-suite"], &[]);
        assert_eq!(
            of("drover-kv", "systems/kv"),
            ["`kv` ships, so it uses `verbs-suite` in tests only: move it to [dev-dependencies]"]
        );
        for (name, folder) in [
            ("drover-sim", "foundation/sim"),
            ("drover-verbs-shm", "fabrics/verbs-shm"),
            ("drover-rt", "runtime/rt"),
            ("drover-store", "stores/store"),
            ("drover-net", "service/net"),
            ("drover", "drover"),
        ] {
            assert_eq!(of(name, folder).len(), 1, "{name}");
        }
    }

    #[test]
    fn tests_and_the_lab_may_link_the_suite() {
        let none: Vec<String> = Vec::new();
        let suite_only: &[&str] = &["fabrics/verbs-suite"];
        assert_eq!(
            messages_of(suite, "drover-rt", "runtime/rt", &["fabrics/verbs"], suite_only),
            none
        );
        assert_eq!(
            messages_of(suite, "drover-swarm", "lab/swarm", suite_only, &[]),
            none
        );
    }
}
