//! `drover figure` and `drover calibrate` as others rely on them: names, files, columns, exit statuses.

use std::path::PathBuf;
use std::process::{Command, Output};

fn drover(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_drover"))
        .args(args)
        .output()
        .expect("it starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A directory of this test, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("drover-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory");
        Folder(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a plain name")
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn figures_become_values_drawings_and_one_report() {
    let folder = Folder::new("figure");
    let done = drover(&[
        "figure",
        "rfp-4",
        "prism-1",
        "--quick",
        "--jobs",
        "1",
        "--out",
        folder.path(),
    ]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert!(text(&done.stdout).contains("within 10 %"));
    let values = folder.read("rfp-4.csv");
    let header = "series,x,metric,unit,expected,simulated,ratio,in_band,binding_resource";
    assert_eq!(values.lines().next(), Some(header));
    assert_eq!(values.lines().count(), 11);
    assert!(folder.read("rfp-4.svg").contains("</svg>") && folder.read("prism-1.svg").contains("</svg>"));
    let report = folder.read("report.html");
    assert!(report.contains("id=\"rfp-4\"") && report.contains("id=\"prism-1\""));
    assert!(
        !report.contains("src=") && !report.contains("href=\"http"),
        "it needs no other file"
    );
}

#[test]
fn the_list_names_every_figure_and_other_names_are_refused() {
    let list = text(&drover(&["figure", "list"]).stdout);
    for name in [
        "herd-2",
        "herd-6",
        "herd-7",
        "herd-9",
        "herd-10",
        "herd-10-susitna",
        "herd-11",
        "herd-12",
        "herd-13",
        "herd-14",
        "rfp-3",
        "smart-13",
        "atc-13",
    ] {
        assert!(
            list.lines()
                .any(|line| line.split_whitespace().next() == Some(name)),
            "{name}"
        );
    }
    let refused = drover(&["figure", "herd-99"]);
    assert_eq!(refused.status.code(), Some(64));
    assert!(text(&refused.stderr).contains("herd-99"));
}

#[test]
fn the_fit_is_reported_by_group_of_rows() {
    let said = drover(&["calibrate", "prism", "--check", "--jobs", "1"]);
    assert!(said.status.success(), "{}", text(&said.stderr));
    let said = text(&said.stdout);
    assert!(
        said.contains("prism, hash ") && said.contains("prism-1"),
        "{said}"
    );
    assert_eq!(
        drover(&["calibrate", "susitna_roce"]).status.code(),
        Some(64),
        "it has no rows"
    );
}
