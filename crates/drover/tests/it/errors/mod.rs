//! What users read when something is wrong: each text is kept in a file beside the help texts, so that a change of it is
//! seen in review. A text names the flag or the file, and a next step. With `DROVER_WRITE_ERRORS` set, the files are
//! written instead.

mod command_line;
mod environment;
mod namespace;

use crate::common::Answer;
use std::path::PathBuf;

/// What a command said: the command as it is shown, its exit status, and its text.
struct Said {
    command: String,
    status: i32,
    text: String,
}

impl Said {
    /// What the command that is shown as `command` said, without its log. `named` is the flag or file that it must name.
    /// Of `hidden`, words of this machine or run, each is replaced by the second of its pair.
    fn new(command: &str, (status, _, error): &Answer, named: &str, hidden: &[(&str, &str)]) -> Said {
        let is_log = |line: &&str| [" INFO ", " WARN "].iter().any(|level| line.starts_with(level));
        let lines = error.lines().filter(|line| !is_log(line) && !line.is_empty());
        let lines: Vec<&str> = lines.collect();
        let hide = |text: String, (word, name): &(&str, &str)| text.replace(word, name);
        let text = hidden.iter().fold(lines.join("\n"), hide);
        assert_ne!(*status, 0, "{command}: {error}");
        assert!(text.contains(named), "{command}: {named} is not named: {text}");
        Said {
            command: hidden.iter().fold(command.to_owned(), hide),
            status: *status,
            text,
        }
    }
}

/// Compares what commands said with the file `errors-{name}.txt`.
fn compare(name: &str, all: &[Said]) {
    let texts = all.iter().map(|said| {
        let Said {
            command,
            status,
            text,
        } = said;
        format!("$ {command}\n{text}\n[{status}]\n\n")
    });
    let text: String = texts.collect();
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("src/cli/errors-{name}.txt"));
    if std::env::var_os("DROVER_WRITE_ERRORS").is_some() {
        std::fs::write(&path, &text).expect("written");
    }
    let kept = std::fs::read_to_string(&path).expect("the file of this table");
    for (new, old) in text.split("\n\n").zip(kept.split("\n\n")) {
        assert_eq!(
            new,
            old,
            "{}: DROVER_WRITE_ERRORS=1 writes it anew",
            path.display()
        );
    }
    assert_eq!(text.len(), kept.len(), "{}: more or fewer texts", path.display());
}
