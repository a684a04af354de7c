use super::*;
use clap::{Command as Clap, CommandFactory};
use std::path::PathBuf;

/// Widths of terminals for which the help texts are kept as files.
const WIDTHS: [usize; 2] = [80, 120];

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

/// The program and its commands, those that are hidden left out, each with its name as it is typed.
fn commands() -> Vec<(String, Clap)> {
    fn collect(name: String, command: &Clap, into: &mut Vec<(String, Clap)>) {
        into.push((name.clone(), command.clone()));
        let shown = command.get_subcommands();
        for below in shown.filter(|below| !below.is_hide_set() && below.get_name() != "help") {
            collect(format!("{name} {}", below.get_name()), below, into);
        }
    }
    let mut program = Cli::command();
    program.build();
    let mut all = Vec::new();
    collect("drover".to_owned(), &program, &mut all);
    all
}

/// The text of `--help` on a terminal of `width` columns.
fn help(command: &Clap, width: usize) -> String {
    let text = command
        .clone()
        .term_width(width.min(100))
        .render_long_help()
        .to_string();
    let lines = text.lines().map(|line| line.trim_end().to_owned() + "\n");
    lines.collect()
}

/// The texts are kept as files, so that a change of them is seen in review. With `DROVER_WRITE_HELP` set, the files are
/// written instead.
#[test]
fn help_texts_are_those_in_the_files() {
    for width in WIDTHS {
        let commands = commands();
        let texts = commands
            .iter()
            .map(|(name, command)| format!("==== {name} ====\n\n{}\n", help(command, width)));
        let text: String = texts.collect();
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("src/cli/help-{width}.txt"));
        if std::env::var_os("DROVER_WRITE_HELP").is_some() {
            std::fs::write(&path, &text).expect("written");
        }
        let kept = std::fs::read_to_string(&path).expect("the file of this width");
        let (mut new, mut old) = (text.lines(), kept.lines());
        loop {
            let (new, old) = (new.next(), old.next());
            assert_eq!(new, old, "{}: DROVER_WRITE_HELP=1 writes it anew", path.display());
            if new.is_none() {
                break;
            }
        }
    }
}

#[test]
fn every_option_is_under_a_heading_that_fits() {
    for (name, command) in commands() {
        for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
            let (long, heading) = (arg.get_long().unwrap_or_default(), arg.get_help_heading());
            let is_of_device = ["ib-dev", "ib-port", "gid-index"].contains(&long);
            assert_eq!(
                heading == Some("RDMA device"),
                is_of_device,
                "{name} --{long}: {heading:?}"
            );
            let has_many = command.get_arguments().count() > 30;
            let is_common = ["help", "version"].contains(&long);
            assert!(
                !has_many || is_common || heading.is_some(),
                "{name} --{long} is under no heading"
            );
        }
    }
}

/// A paragraph that is broken by hand and then by the terminal's width has short lines in its middle.
#[test]
fn no_line_is_broken_twice() {
    for width in WIDTHS {
        for (name, command) in commands() {
            let text = help(&command, width);
            let lines: Vec<&str> = text.lines().collect();
            for pair in lines.windows(2) {
                let is_prose = |line: &str| line.len() > 20 && !line.starts_with(' ') && !line.ends_with(':');
                let [line, next] = pair else {
                    unreachable!("windows of two")
                };
                assert!(
                    line.chars().count() <= width.min(100),
                    "{name} at {width}: too long: {line}"
                );
                if is_prose(line) && !next.is_empty() && !next.starts_with(' ') {
                    let word = next.split(' ').next().unwrap_or_default();
                    let joined = line.chars().count() + 1 + word.chars().count();
                    assert!(joined > width.min(100), "{name} at {width}: broken twice: {line}");
                }
            }
        }
    }
}

/// The commands that the README shows, without comments and what a shell takes for itself.
fn commands_of_readme() -> Vec<String> {
    let readme = include_str!("../../../../README.md");
    let blocks = readme.split("```").skip(1).step_by(2);
    let lines = blocks
        .filter_map(|block| block.strip_prefix("sh\n"))
        .flat_map(str::lines);
    let lines = lines.map(|line| line.trim_start_matches("$ "));
    let lines = lines.filter(|line| line.starts_with("drover "));
    let lines = lines.map(|line| line.split(" #").next().unwrap_or(line));
    let in_blocks = lines.map(|line| line.trim().trim_end_matches('&').to_owned());
    let runs = readme.split("`cargo run --release -- ").skip(1);
    let in_text = runs.filter_map(|text| Some(format!("drover {}", text.split('`').next()?)));
    in_blocks.chain(in_text).collect()
}

#[test]
fn the_commands_of_the_readme_are_understood() {
    let commands = commands_of_readme();
    assert!(commands.len() > 20, "{commands:?}");
    for command in commands {
        if let Err(error) = Cli::try_parse_from(command.split_whitespace()) {
            panic!("{command}: {error}");
        }
    }
}
