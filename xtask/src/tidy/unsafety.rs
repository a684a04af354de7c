//! Only few crates use `unsafe`, and each use states the fact that makes it sound and who keeps it.

use super::tree::{File, code_of};
use super::{Tree, Violation};

/// Crates that may use `unsafe`: shared memory, providers close to the machine, instructions for AES, and the interface for C.
const HOMES: &[&str] = &[
    "crates/foundation/aes/",
    "crates/foundation/mem/",
    "crates/fabrics/verbs-shm/",
    "crates/fabrics/verbs-ibv/",
    "crates/fabrics/verbs-ibv-stub/",
    "crates/service/c/",
];
/// Number of lines above an `unsafe` that are searched for its reason.
const LINES_ABOVE: usize = 10;
/// Type of a pointer to a foreign function, as left by `code_of`: only its call needs a reason.
const FOREIGN_POINTER: &str = "unsafe extern \"\" fn(";
/// Beginning of a function that foreign code calls, as left by `code_of`.
const FOREIGN_FUNCTION: &str = "unsafe extern \"\" fn ";
/// First line of a crate that may not use `unsafe`.
const FORBID: &str = "#![forbid(unsafe_code)]";

/// No other crate uses `unsafe`.
pub fn in_its_place(tree: &Tree) -> Vec<Violation> {
    let elsewhere = tree.rust().filter(|file| !is_home(&file.path));
    elsewhere
        .flat_map(|file| uses(file).map(move |(number, _)| (file, number)))
        .map(|(file, number)| {
            Violation::new(
                &file.path,
                number,
                format!("unsafe belongs to {}", HOMES.join(", ")),
            )
        })
        .collect()
}

/// Every block and impl has a SAFETY comment, every unsafe function a `# Safety` section.
pub fn explained(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in tree.rust().filter(|file| is_home(&file.path)) {
        let lines: Vec<&str> = file.text.lines().collect();
        for (number, code) in uses(file) {
            let function = code.contains("unsafe fn") || code.contains(FOREIGN_FUNCTION);
            if function && is_in_unsafe_impl(&lines, number - 1) {
                continue; // the trait documents its callers' duties
            }
            let wanted = if function { "# Safety" } else { "SAFETY:" };
            if !is_explained(&lines, number - 1, wanted) {
                let message = format!("unsafe without `{wanted}` above it");
                found.push(Violation::new(&file.path, number, message));
            }
        }
    }
    found
}

/// Every library, binary and example of the other crates forbids `unsafe`.
pub fn forbidden_elsewhere(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    let root = tree.metadata["workspace_root"].as_str().unwrap_or_default();
    for target in tree
        .members()
        .iter()
        .flat_map(|package| package["targets"].as_array().into_iter().flatten())
    {
        let kind = target["kind"][0].as_str().unwrap_or_default();
        let path = target["src_path"].as_str().unwrap_or_default();
        let path = path.strip_prefix(root).unwrap_or(path).trim_start_matches('/');
        let Some(file) = tree.file(path) else { continue };
        if matches!(kind, "lib" | "cdylib" | "bin" | "proc-macro")
            && !is_home(path)
            && !file.text.contains(FORBID)
        {
            found.push(Violation::new(path, 1, format!("begin with {FORBID}")));
        }
    }
    found
}

fn is_home(path: &str) -> bool {
    HOMES.iter().any(|home| path.starts_with(home))
}

/// Lines, from 1, whose code uses `unsafe`, except function pointer types and trait bounds.
fn uses(file: &File) -> impl Iterator<Item = (usize, String)> {
    file.lines()
        .map(|(number, line)| (number, code_of(line).replace(FOREIGN_POINTER, "")))
        .filter(|(_, code)| {
            [
                "unsafe {",
                "unsafe impl",
                "unsafe fn",
                "unsafe trait",
                "unsafe extern",
            ]
            .iter()
            .any(|form| code.contains(form))
                || code.trim_end().ends_with("unsafe")
        })
}

/// Whether the line at `at` is in the block of an `unsafe impl`.
fn is_in_unsafe_impl(lines: &[&str], at: usize) -> bool {
    let item = lines[..at]
        .iter()
        .rev()
        .find(|line| line.starts_with("unsafe impl") || **line == "}");
    item.is_some_and(|line| line.starts_with("unsafe impl"))
}

fn is_explained(lines: &[&str], at: usize, wanted: &str) -> bool {
    let above = lines[at.saturating_sub(LINES_ABOVE)..=at].iter().rev();
    // A blank line or the end of an earlier item ends the search; one comment may cover several lines of one statement.
    above
        .take_while(|line| !line.trim().is_empty())
        .any(|line| line.contains(wanted))
}

#[cfg(test)]
mod tests {
    use super::super::tree::planted::tree;
    use super::*;
    use serde_json::json;

    #[test]
    fn unsafe_outside_its_homes_is_caught() {
        let found = in_its_place(&tree(&[(
            "crates/runtime/rt/src/lib.rs",
            "fn a() {\n    unsafe { b() }\n}\n",
        )]));
        assert_eq!(found[0].line, 2);
        assert_eq!(
            in_its_place(&tree(&[(
                "crates/runtime/rt/src/lib.rs",
                "// unsafe { }\nlet a = \"unsafe { }\";\n"
            )])),
            []
        );
        assert_eq!(
            in_its_place(&tree(&[("crates/foundation/mem/src/lib.rs", "unsafe { b() }")])),
            []
        );
    }

    #[test]
    fn unsafe_without_a_reason_is_caught() {
        let check = |text: &str| explained(&tree(&[("crates/foundation/mem/src/a.rs", text)])).len();
        assert_eq!(check("let a = 1;\nunsafe { b() }\n"), 1);
        assert_eq!(check("// SAFETY: ours alone.\nunsafe { b() }\n"), 0);
        assert_eq!(check("// SAFETY: far away.\n\nunsafe { b() }\n"), 1);
        assert_eq!(check("/// Does.\nunsafe fn b() {}\n"), 1);
        assert_eq!(check("/// # Safety\n/// Hold it.\nunsafe fn b() {}\n"), 0);
        assert_eq!(check("unsafe impl Send for A {}\n"), 1);
        assert_eq!(check("type F = unsafe extern \"C\" fn(u8);\n"), 0);
        assert_eq!(check("unsafe extern \"C\" fn f(a: u8) {}\n"), 1);
        assert_eq!(
            check("/// # Safety\n/// Hold it.\nunsafe extern \"C\" fn f(a: u8) {}\n"),
            0
        );
        assert_eq!(check("unsafe extern \"C\" {\n"), 1);
        assert_eq!(
            check("// SAFETY: passed on.\nunsafe impl A for B {\n    unsafe fn c() {}\n}\n"),
            0
        );
        assert_eq!(
            check("// SAFETY: passed on.\nunsafe impl A for B {\n}\n\nunsafe fn c() {}\n"),
            1
        );
    }

    #[test]
    fn a_crate_that_does_not_forbid_it_is_caught() {
        let metadata = json!({
            "workspace_root": "/x",
            "workspace_members": ["rt", "mem"],
            "packages": [
                {"id": "rt", "targets": [{"kind": ["lib"], "src_path": "/x/crates/runtime/rt/src/lib.rs"}]},
                {"id": "mem", "targets": [{"kind": ["lib"], "src_path": "/x/crates/foundation/mem/src/lib.rs"}]},
            ],
        });
        let check = |text: &str| {
            let mut tree = tree(&[
                ("crates/runtime/rt/src/lib.rs", text),
                ("crates/foundation/mem/src/lib.rs", ""),
            ]);
            tree.metadata = metadata.clone();
            forbidden_elsewhere(&tree).len()
        };
        assert_eq!(check("//! A crate.\n"), 1);
        assert_eq!(check("//! A crate.\n#![forbid(unsafe_code)]\n"), 0);
    }
}
