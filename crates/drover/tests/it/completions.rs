//! Completions as shells take them: each script is read by its shell, and bash is asked for words.

use crate::common::{drover, folder};
use std::path::PathBuf;
use std::process::Command;

/// A file with the completions of `shell`.
fn script(shell: &str) -> PathBuf {
    let (status, text, error) = drover(&["completions", shell], "");
    assert_eq!((status, error.as_str()), (0, ""));
    let path = folder(shell).join("completions");
    std::fs::write(&path, text).expect("temporary file");
    path
}

#[test]
fn each_shell_reads_its_completions() {
    for (shell, flags) in [
        ("bash", &["-n"][..]),
        ("zsh", &["-n"]),
        ("fish", &["--no-execute"]),
    ] {
        let path = script(shell);
        match Command::new(shell).args(flags).arg(&path).output() {
            Err(error) => println!("skipped: {shell}: {error}"),
            Ok(out) => assert!(
                out.status.success(),
                "{shell}: {}",
                String::from_utf8_lossy(&out.stderr)
            ),
        }
    }
}

/// What bash offers for the last of these words.
fn offered(words: &[&str]) -> Vec<String> {
    let line = format!(
        ". {}\nCOMP_WORDS=({})\nCOMP_CWORD={}\n_drover drover '{}' '{}'\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"",
        script("bash").display(),
        words
            .iter()
            .map(|word| format!("'{word}'"))
            .collect::<Vec<_>>()
            .join(" "),
        words.len() - 1,
        words[words.len() - 1],
        words[words.len() - 2],
    );
    let out = Command::new("bash").args(["-c", &line]).output().expect("bash");
    let text = String::from_utf8(out.stdout).expect("UTF-8");
    let words = text.lines().filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_and_options() {
    if Command::new("bash").arg("--version").output().is_err() {
        println!("skipped: no bash");
        return;
    }
    assert_eq!(offered(&["drover", "app"]), ["append"]);
    assert_eq!(offered(&["drover", "serve", "--memory-l"]), ["--memory-limit"]);
    assert_eq!(offered(&["drover", "completions", "z"]), ["zsh"]);
    assert!(offered(&["drover", "bench-h"]).is_empty(), "a hidden command");
}
