//! Commands that are not as they should be.

use super::Draw;
use crate::differ::command::{Command, Piece, TOO_LONG};

/// Bodies of spoilt commands stay shorter than the longest line that a server reads.
const SPOILT_BODY_MAX: usize = 900;
/// And so do their lines.
const SPOILT_WORDS_MAX: usize = 40;

/// A server waits for, or throws away, as many bytes as a line promises: many more than come, and the rest of the stream
/// is gone. So a few more at most, which what ends a batch makes up for.
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

/// Whether a command with a plain key may make an item of nothing or of another one.
fn makes_items(command: &Command) -> bool {
    let plain = !command.words.iter().any(|word| matches!(word, Piece::Key64(_)));
    let makes =
        |word: &Piece| matches!(word, Piece::Text(word) if word.starts_with(b"N") || word.starts_with(b"M"));
    plain && (is_text(&command.words[0], b"ma") || command.words.iter().any(makes))
}

impl Draw {
    pub(super) fn spoil(&mut self, command: &mut Command) {
        // A longer line may be no other command than the one it is.
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
        if makes_items(command) {
            // See the differences: of such an item memcached forgets that its key came in base64.
            command.words.retain(|word| !is_text(word, b"b"));
        }
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

    /// More or fewer bytes than the line promises. So few more that what is sent last in a batch makes up for them.
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
