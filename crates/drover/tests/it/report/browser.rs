//! Chromium without a window: measures and photographs pages of ours.

use drover_figures::output::escape;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A browser with a profile of its own, which is gone with it.
pub struct Browser {
    profile: PathBuf,
}

/// A script that is added to a page.
const MEASURE: &str = include_str!("measure.js");

/// Windows are not narrower.
const WINDOW: u32 = 500;

/// Height of one picture, pixels: browsers draw no higher surfaces.
const PICTURE: u32 = 16_000;

/// A page and the width at which it is looked at.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// HTML of the page.
    pub page: &'a str,
    /// Width of the frame around the page, pixels.
    pub width: u32,
}

impl Browser {
    /// A browser that keeps its files in `folder`.
    pub fn in_folder(folder: &Path) -> Browser {
        Browser {
            profile: folder.join("profile"),
        }
    }

    /// Runs the script in the page and returns the lines that it wrote.
    pub fn measure(&self, view: View<'_>) -> Vec<String> {
        let script = format!("<script>{MEASURE}</script>");
        let dumped = self.run(view, 1000, &script, "--dump-dom");
        let (_, measured) = dumped
            .split_once("<pre id=\"measured\">")
            .expect("the script ran to its end");
        let (measured, _) = measured.split_once("</pre>").expect("an element ends");
        measured.lines().map(str::to_string).collect()
    }

    /// Takes pictures of a page of this height, one below the other, as `NAME-1.png` and so on.
    pub fn photograph(&self, view: View<'_>, height: u32, name: &Path) -> Vec<PathBuf> {
        let picture = |nth: u32| {
            let above = format!("<style>body {{ margin-top: -{}px }}</style>", nth * PICTURE);
            let file = name.with_file_name(format!(
                "{}-{}.png",
                name.file_name().expect("a name").to_string_lossy(),
                nth + 1
            ));
            let rest = (height - nth * PICTURE).min(PICTURE);
            self.run(view, rest, &above, &format!("--screenshot={}", file.display()));
            file
        };
        (0..height.div_ceil(PICTURE)).map(picture).collect()
    }

    /// Shows the page with `more` at its end, in a frame, which may be narrower than a window; returns what the browser writes.
    fn run(&self, view: View<'_>, height: u32, more: &str, action: &str) -> String {
        std::fs::create_dir_all(&self.profile).expect("a folder");
        let file = self.profile.with_file_name("framed.html");
        let page = view.page.replace("</body>", &format!("{more}</body>"));
        let frame = format!(
            "<!doctype html><meta charset=\"utf-8\"><body style=\"margin: 0\"><iframe style=\"border: 0; width: {}px; \
             height: {height}px\" srcdoc=\"{}\"></iframe></body>",
            view.width,
            escape(&page)
        );
        std::fs::write(&file, frame).expect("written");
        let done = Command::new("chromium")
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
            // It asks nobody anything: our pages need nothing.
            .args([
                "--disable-background-networking",
                "--host-resolver-rules=MAP * ~NOTFOUND",
            ])
            .arg(format!("--user-data-dir={}", self.profile.display()))
            .arg(format!("--window-size={},{height}", view.width.max(WINDOW)))
            .arg(action)
            .arg(format!("file://{}", file.display()))
            .output()
            .expect("chromium is installed: cargo xtask report installs it");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).into_owned()
    }
}
