//! Pages in a browser, at the widths of a desk and of a phone: the report of every figure, and that of a measured run. Labels
//! are measured, not guessed.

mod browser;
mod rows;

use browser::{Browser, View};
use drover_figures::output::{self, About};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Widths of windows, pixels.
const WIDTHS: [u32; 2] = [1280, 400];
/// Variable with the folder for pictures, which stay there.
const PICTURES: &str = "DROVER_PICTURES";
/// Number of mistakes that the script plants.
const PLANTED: usize = 5;

#[test]
#[ignore = "needs Chromium: cargo xtask report"]
fn no_label_of_any_figure_overlaps_or_is_clipped() {
    let folder = Folder::new("figures");
    let results = rows::all();
    let page = output::html(&results, &about());
    std::fs::write(folder.path.join("report.html"), &page).expect("written");
    let shown = look_at_all_widths(&folder.path, &page);
    assert!(
        shown >= results.len(),
        "{shown} charts and tables of {} figures",
        results.len()
    );
}

#[test]
#[ignore = "needs Chromium: cargo xtask report"]
fn the_page_of_a_measured_run_is_readable() {
    let folder = Folder::new("measured");
    let words = "bench --compare herd,farm --value-size 32,256 --keys 5000 --seconds 0.05 --warm-up 0.05 --repeats 3 \
                 --churn 0 --no-results --quiet --report";
    let done = Command::new(env!("CARGO_BIN_EXE_drover"))
        .args(words.split_whitespace())
        .arg(&folder.path)
        .output()
        .expect("it starts");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let page = std::fs::read_to_string(folder.path.join("report.html")).expect("a page");
    look_at_all_widths(&folder.path, &page);
}

/// A folder for a page and its pictures; it is removed unless it was asked for.
struct Folder {
    path: PathBuf,
    is_asked_for: bool,
}

impl Folder {
    fn new(name: &str) -> Folder {
        let asked = std::env::var_os(PICTURES).map(PathBuf::from);
        let own = || std::env::temp_dir().join(format!("drover-report-{}", std::process::id()));
        let folder = Folder {
            is_asked_for: asked.is_some(),
            path: asked.unwrap_or_else(own).join(name),
        };
        std::fs::create_dir_all(&folder.path).expect("a folder");
        folder
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.is_asked_for {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Measures the page at each width and takes pictures. Returns the number of its charts and tables.
fn look_at_all_widths(folder: &Path, page: &str) -> usize {
    let browser = Browser::in_folder(folder);
    let look = |width| look(&browser, View { page, width }, folder);
    WIDTHS.map(look).into_iter().max().unwrap_or(0)
}

fn look(browser: &Browser, view: View<'_>, folder: &Path) -> usize {
    let lines = browser.measure(view);
    let with = |start: &str| {
        lines
            .iter()
            .filter_map(|line| line.strip_prefix(start))
            .collect::<Vec<_>>()
    };
    let number = |name: &str| -> u32 {
        let value = with(name).first().and_then(|value| value.trim().parse().ok());
        value.unwrap_or_else(|| panic!("no {name} in {lines:#?}"))
    };
    assert_eq!(number("width"), view.width);
    let wrong = with("wrong");
    assert!(
        wrong.is_empty(),
        "{} mistakes at {} pixels: {wrong:#?}",
        wrong.len(),
        view.width
    );
    assert_eq!(
        (with("overlooked").len(), with("noticed").len()),
        (0, PLANTED),
        "{lines:#?}"
    );
    let name = folder.join(format!("report-{}", view.width));
    for picture in browser.photograph(view, number("height"), &name) {
        let bytes = std::fs::read(&picture).expect("a picture");
        let is_empty = !bytes.starts_with(b"\x89PNG") || bytes.len() < 10_000;
        assert!(!is_empty, "{} shows nothing", picture.display());
    }
    (number("charts") + number("grids")) as usize
}

fn about() -> About {
    About {
        commit: "0123456789abcdef0123456789abcdef01234567".to_string(),
        seeds: "made-up values".to_string(),
        profiles: vec![("apt".to_string(), "0123456789abcdef".repeat(4))],
        leaks: vec!["apt: cpu.post_ns".to_string()],
        heldout: rows::held_out(),
    }
}
