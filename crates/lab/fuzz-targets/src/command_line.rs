//! Arbitrary command lines and configuration files of `drover`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Further words of an input are ignored: they find nothing new and take clap long.
const WORDS_MAX: usize = 32;

/// Checks that `drover` parses or refuses any command line without a panic; no command runs. Input: words of any bytes,
/// separated by line feeds, of which the first 32 count.
pub fn words(input: &[u8]) {
    let words: Vec<&OsStr> = input
        .split(|&byte| byte == b'\n')
        .take(WORDS_MAX)
        .map(OsStr::from_bytes)
        .collect();
    drover::fuzz_command_line(&words);
}

/// Checks that any text is parsed as a configuration file or refused with a reason. Input that is not UTF-8 is ignored.
pub fn config_file(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input) {
        drover::fuzz_config_file(text);
    }
}
