//! Manual pages, generated from the command line's definition: drover(1), a page per command, and drover.conf(5).
//! `cargo xtask man` calls it.

use crate::cli::Cli;
use crate::exit::{self, Failure};
use clap::{Arg, ArgAction, Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};
use std::path::Path;
use std::process::ExitCode;

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Flags of `drover serve` that are invalid in a configuration file.
const NOT_IN_FILES: &[&str] = &["config", "daemon", "verbose", "help"];

/// Writes all manual pages into `folder`, which is created if missing. Exit status 71: a file cannot be written.
pub fn run(folder: &Path) -> ExitCode {
    exit::from_result(write(folder))
}

fn write(folder: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::new(exit::OS_ERROR, format!("{}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(failed)?;
    pages()
        .iter()
        .try_for_each(|(name, text)| std::fs::write(folder.join(name), text).map_err(failed))
}

/// File names and contents.
fn pages() -> Vec<(String, Vec<u8>)> {
    let mut all = Cli::command();
    all.build();
    let mut pages = vec![("drover.1".to_string(), page(all.clone()))];
    for command in all.get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = format!("drover-{}", command.get_name());
        pages.push((format!("{name}.1"), page(command.clone().version(VERSION))));
    }
    if let Some(serve) = all.find_subcommand("serve") {
        pages.push(("drover.conf.5".to_string(), conf(serve)));
    }
    pages
}

fn page(command: Command) -> Vec<u8> {
    let mut text = Vec::new();
    // Writing to a Vec cannot fail.
    let _ = Man::new(command).render(&mut text);
    text
}

/// drover.conf(5): the settings, which are flags, too.
fn conf(serve: &Command) -> Vec<u8> {
    let mut page = Roff::new();
    page.control(
        "TH",
        [
            "drover.conf",
            "5",
            "",
            concat!("drover ", env!("CARGO_PKG_VERSION")),
        ],
    );
    page.control("SH", ["NAME"]);
    page.text([roman("drover.conf - settings of drover serve")]);
    page.control("SH", ["DESCRIPTION"]);
    page.text([
        roman("A file for "),
        bold("drover serve --config"),
        roman(": one "),
        italic("name = value"),
        roman(" per line, # begins a comment. Names are those of the long flags; the command line overrides the file. "),
        bold("drover config --config"),
        italic(" FILE"),
        roman(" prints the settings in force and their origins; an unknown name is an error that names its line."),
    ]);
    page.control("SH", ["SETTINGS"]);
    for arg in settings(serve) {
        let value = arg
            .get_value_names()
            .and_then(|names| names.first())
            .map_or("VALUE", |name| name.as_str());
        page.control("TP", []);
        page.text([
            bold(arg.get_long().unwrap_or_default()),
            roman(" = "),
            italic(value),
        ]);
        page.text([roman(arg.get_help().map(ToString::to_string).unwrap_or_default())]);
    }
    page.control("SH", ["SEE ALSO"]);
    page.text([
        bold("drover-serve"),
        roman("(1), "),
        bold("drover-config"),
        roman("(1)"),
    ]);
    page.render().into_bytes()
}

fn settings(serve: &Command) -> impl Iterator<Item = &Arg> {
    serve.get_arguments().filter(|arg| {
        let takes_value = !matches!(
            arg.get_action(),
            ArgAction::Help | ArgAction::Version | ArgAction::Count | ArgAction::SetTrue
        );
        takes_value && arg.get_long().is_some_and(|name| !NOT_IN_FILES.contains(&name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(pages: &[(String, Vec<u8>)], name: &str) -> String {
        let page = pages.iter().find(|(page, _)| page == name);
        String::from_utf8(page.unwrap_or_else(|| panic!("no page {name}")).1.clone()).expect("UTF-8")
    }

    /// A word with roff's escapes.
    fn escaped(word: &str) -> String {
        word.replace('-', "\\-")
    }

    #[test]
    fn every_command_and_every_flag_is_in_the_manual() {
        let pages = pages();
        let mut all = Cli::command();
        all.build();
        let index = text_of(&pages, "drover.1");
        for command in all.get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name();
            assert!(
                index.contains(&escaped(&format!("drover-{name}"))),
                "{name} is not in drover(1)"
            );
            let page = text_of(&pages, &format!("drover-{name}.1"));
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                if let Some(long) = arg.get_long() {
                    assert!(page.contains(&escaped(&format!("--{long}"))), "{name} --{long}");
                }
            }
        }
        assert!(!text_of(&pages, "drover-serve.1").contains(&escaped("--no-such-flag")));
    }

    #[test]
    fn every_setting_is_in_the_page_of_the_file() {
        let pages = pages();
        let page = text_of(&pages, "drover.conf.5");
        let all = Cli::command();
        let serve = all.find_subcommand("serve").expect("a command");
        let names: Vec<&str> = settings(serve).filter_map(Arg::get_long).collect();
        assert!(names.len() > 15, "{names:?}");
        assert!(
            !names.contains(&"config") && !names.contains(&"version"),
            "{names:?}"
        );
        for name in names {
            assert!(page.contains(&format!("\\fB{}\\fR = ", escaped(name))), "{name}");
        }
    }
}
