//! The configuration file: each line is a long option of the command line, parsed by the same parser.

use super::fill;
use crate::advice;
use crate::exit::{self, Failure};
use crate::serve::args::Args;
use clap::Parser;
use std::path::Path;

/// The file's lines are parsed by the same parser as the command line.
#[derive(Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
pub(super) struct FileArgs {
    #[command(flatten)]
    pub(super) args: Args,
}

pub(super) fn read_file(path: &Path) -> Result<Args, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(exit::NO_INPUT, advice::of_file("--config", path, &error)))?;
    parse_file(&text).map_err(|why| Failure::new(exit::USAGE, format!("--config {}: {why}", path.display())))
}

pub(super) fn parse_file(text: &str) -> Result<Args, String> {
    let mut words = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let number = index + 1;
        let (key, value) = line
            .split_once('=')
            .ok_or(format!("line {number}: expected `name = value`"))?;
        let word = format!("--{}={}", key.trim(), value.trim());
        // Parse the line alone first, so that the error can name it.
        FileArgs::try_parse_from([&word])
            .map_err(|error| format!("line {number}: {}", first_line(&error)))?;
        words.push(word);
    }
    FileArgs::try_parse_from(words)
        .map(|file| file.args)
        .map_err(|error| first_line(&error))
}

fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    text.lines()
        .next()
        .unwrap_or("")
        .trim_start_matches("error: ")
        .to_string()
}

/// For fuzzers: checks that any text is either parsed as a configuration file or refused with a reason.
pub fn fuzz_config_file(text: &str) {
    match parse_file(text) {
        Ok(args) => fuzz_settings(args),
        Err(why) => assert!(!why.is_empty(), "a refusal without a reason"),
    }
}

/// For fuzzers: checks that any arguments give settings that satisfy what `serve` assumes, or are refused with a
/// reason.
pub fn fuzz_settings(args: Args) {
    match fill(args, Args::default(), &[0, 1, 2, 3]) {
        Err(failure) => assert!(!failure.text.is_empty(), "a refusal without a reason"),
        Ok(settings) => {
            assert!(
                settings.capacity.threads.value > 0 && settings.workers.window_max.value.is_power_of_two()
            );
            let cores = settings.workers.cores.value.as_ref();
            assert!(cores.is_none_or(|cores| cores.len() >= settings.capacity.threads.value));
            assert!(settings.to_string().lines().all(|line| !line.trim().is_empty()));
        }
    }
}
