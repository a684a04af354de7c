//! Invalid commands.

use super::Draw;
use crate::differ::command::{Command, NO_CAS, Piece, TOO_LONG};
use crate::differ::prepare::NUMBER_MAX;

/// Bodies of spoilt commands stay shorter than the longest line that a server reads.
const SPOILT_BODY_MAX: usize = 900;
// Their lengths may be taken for a version.
const _: () = assert!(SPOILT_BODY_MAX <= NUMBER_MAX);
/// Maximum number of words of a spoilt line, which stays short, too.
const SPOILT_WORDS_MAX: usize = 40;

/// Whether a server waits for, or discards, the bytes that a line announces. If many more are announced than sent, the
/// rest of the stream is lost; so only a few more are, and the end of a batch makes up for them.
pub(super) fn swallows(command: &Command) -> bool {
    let Some(body) = &command.body else {
        return false;
    };
    let at = match &command.words[0] {
        Piece::Text(verb) if verb == b"ms" => 2,
        _ => 4,
    };
    match command.words.get(at) {
        Some(Piece::Text(word)) => {
            let bytes: Option<u64> = std::str::from_utf8(word).ok().and_then(|word| word.parse().ok());
            bytes.is_some_and(|bytes| bytes > body.len() as u64 + 8)
        }
        Some(Piece::Cas(..) | Piece::Cas64(..)) => true,
        _ => false,
    }
}

fn is_text(word: &Piece, text: &[u8]) -> bool {
    matches!(word, Piece::Text(word) if word == text)
}

/// Index of the word with a command's expiry or delay.
fn time_at(command: &Command) -> Option<usize> {
    let Piece::Text(verb) = &command.words[0] else {
        return None;
    };
    match &verb[..] {
        b"gat" | b"gats" | b"flush_all" => Some(1),
        b"touch" => Some(2),
        b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas" => Some(3),
        _ => None,
    }
}

/// See the differences: whether a few seconds pass within a stream is chance, so short times become 0.
fn forget_short_times(command: &mut Command) {
    let word = time_at(command).and_then(|at| command.words.get_mut(at));
    if let Some(word) = word
        && [&b"1"[..], b"+3"].iter().any(|few| is_text(word, few))
    {
        *word = Piece::Text(b"0".to_vec());
    }
}

/// See the differences: a version is only compared with that of its own item. If the command now names another item,
/// because its key was replaced or its encoding changed, a version that no item has replaces it.
fn forget_other_versions(command: &mut Command) {
    let is_base64 = command.words[2.min(command.words.len())..]
        .iter()
        .any(|word| is_text(word, b"b"));
    let key = command.words.get(1).cloned();
    for word in &mut command.words {
        let (text, is_own) = match *word {
            Piece::Cas(text, number) => (text, !is_base64 && key == Some(Piece::Key(number))),
            Piece::Cas64(text, number) => (text, is_base64 && key == Some(Piece::Key64(number))),
            _ => continue,
        };
        if !is_own {
            *word = Piece::Text(format!("{text}{NO_CAS}").into_bytes());
        }
    }
}

/// See the differences: an `ma` that has lost its word for a falling number gives no time to live.
fn forget_times_of_growing_numbers(command: &mut Command) {
    let falls = |word: &Piece| [&b"MD"[..], b"M-", b"Md"].iter().any(|mode| is_text(word, mode));
    if is_text(&command.words[0], b"ma") && !command.words.iter().any(falls) {
        command.words.retain(|word| !is_text(word, b"T1000"));
    }
}

/// Whether a command with a plain key may create or copy an item.
fn makes_items(command: &Command) -> bool {
    let plain = !command.words.iter().any(|word| matches!(word, Piece::Key64(_)));
    let makes =
        |word: &Piece| matches!(word, Piece::Text(word) if word.starts_with(b"N") || word.starts_with(b"M"));
    plain && (is_text(&command.words[0], b"ma") || command.words.iter().any(makes))
}

impl Draw {
    pub(super) fn spoil(&mut self, command: &mut Command) {
        // Long lines stay as they are: they must not become other commands.
        if command.words.len() > SPOILT_WORDS_MAX {
            return;
        }
        if command
            .body
            .as_ref()
            .is_some_and(|body| body.len() > SPOILT_BODY_MAX)
        {
            return;
        }
        let at = self.rng.below(command.words.len() as u64) as usize;
        match self.rng.below(9) {
            0 if command.words.len() > 1 => {
                command.words.remove(at);
            }
            1 => command.words.insert(at, command.words[at].clone()),
            2 => command.words[at] = self.junk(),
            3 => command.words.insert(at + 1, self.junk()),
            4 => command.ending = "\n",
            5 => command.gap = "  ",
            6 => command.words[0] = self.word(&["GET", "Set", "mx", "m", "getx", "sets", "0", "\u{1}"]),
            7 => {
                let key = command
                    .words
                    .iter_mut()
                    .find(|word| matches!(word, Piece::Key(_) | Piece::Key64(_)));
                if let Some(Piece::Key(number) | Piece::Key64(number)) = key {
                    *number = TOO_LONG;
                }
            }
            _ => self.spoil_body(command),
        }
        forget_short_times(command);
        forget_times_of_growing_numbers(command);
        if makes_items(command) {
            // See the differences: memcached forgets that such an item's key came in base64.
            command.words.retain(|word| !is_text(word, b"b"));
        }
        forget_other_versions(command);
    }

    fn junk(&mut self) -> Piece {
        self.word(&[
            "-1",
            "abc",
            "99999999999999999999999",
            "noreply",
            "0",
            "1",
            "1.5",
            "0x10",
            "+3",
            "",
            "q",
            "v",
            "k",
            "Z",
            "4294967296",
            "18446744073709551616",
            "-0",
            "b",
            "I",
        ])
    }

    /// More or fewer bytes than the line announces; only few fewer, so that the end of the batch makes up for them.
    fn spoil_body(&mut self, command: &mut Command) {
        if let Some(body) = &mut command.body {
            match self.rng.chance(0.5) {
                true => body.push(b'x'),
                false => {
                    body.pop();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_other_items_are_none() {
        let text = |word: &str| Piece::Text(word.into());
        let cas = |words: &[Piece]| {
            let mut command = Command {
                words: words.to_vec(),
                gap: " ",
                ending: "\r\n",
                body: None,
            };
            forget_other_versions(&mut command);
            command.words.pop().expect("the version")
        };
        let own = |number| Piece::Cas("C", number);
        let none = text("C9223372036854775808");
        assert_eq!(cas(&[text("md"), Piece::Key(3), own(3)]), own(3));
        assert_eq!(cas(&[text("md"), text("abc"), own(3)]), none);
        assert_eq!(cas(&[text("md"), Piece::Key(TOO_LONG), own(3)]), none);
        assert_eq!(cas(&[text("md"), Piece::Key(3), text("b"), own(3)]), none);
        assert_eq!(cas(&[own(3)]), none);
        let own = Piece::Cas64("C", 3);
        let key = || Piece::Key64(3);
        assert_eq!(cas(&[text("md"), key(), text("b"), own.clone()]), own);
        assert_eq!(cas(&[text("md"), key(), own]), none);
    }

    #[test]
    fn no_growing_number_gets_a_time_to_live() {
        let left = |line: &str| {
            let mut command = Command {
                words: line.split(' ').map(|word| Piece::Text(word.into())).collect(),
                gap: " ",
                ending: "\r\n",
                body: None,
            };
            forget_times_of_growing_numbers(&mut command);
            command.words.len()
        };
        assert_eq!(left("ma a t D10 T1000"), 4);
        assert_eq!(left("ma a t D10 MI T1000"), 5);
        assert_eq!(left("ma a t D10 M- T1000"), 6);
        assert_eq!(left("mg a t T1000"), 4);
    }

    #[test]
    fn no_time_is_a_few_seconds() {
        let times = |line: &str| {
            let mut command = Command {
                words: line
                    .split(' ')
                    .map(|word| Piece::Text(word.as_bytes().to_vec()))
                    .collect(),
                gap: " ",
                ending: "\r\n",
                body: None,
            };
            forget_short_times(&mut command);
            let at = time_at(&command).and_then(|at| command.words.get(at));
            at.is_some_and(|word| is_text(word, b"0"))
        };
        for line in [
            "gats 1 k",
            "touch k +3",
            "set k 5 1 2",
            "flush_all 1",
            "cas k 0 1 2 7",
        ] {
            assert!(times(line), "{line}");
        }
        for line in ["gat 1000 k", "incr k 1", "set k 1 50 2", "touch k"] {
            assert!(!times(line), "{line}");
        }
    }
}
