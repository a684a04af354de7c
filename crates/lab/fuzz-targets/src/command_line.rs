//! What anybody may type after `drover`, or write into its configuration file.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Longer lines say nothing new and take clap long.
const WORDS_MAX: usize = 32;

/// Any words are understood or refused. Input: words that end with a line feed, of any bytes.
pub fn words(input: &[u8]) {
    let words: Vec<&OsStr> = input
        .split(|&byte| byte == b'\n')
        .take(WORDS_MAX)
        .map(OsStr::from_bytes)
        .collect();
    drover::fuzz_command_line(&words);
}

/// Any text is a configuration file or is refused.
pub fn config_file(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input) {
        drover::fuzz_config_file(text);
    }
}
