//! What is drawn: all commands that have the same answers on both servers, most of them as they should be, some not.

use super::command::{Command, Element, LONGEST, Piece, TOO_LONG};
use drover_base::Rng;

/// Commands between two barriers, at most.
const BATCH: u64 = 160;
/// One in so many commands is spoilt.
const SPOILT: f64 = 0.08;
/// Keys of ordinary length.
const KEYS: u64 = 8;
/// The last of them are counted up and down. Nothing is appended to them and nobody asks for their size, because a number
/// that has become shorter may have blanks behind it.
const COUNTERS: u64 = 3;
/// Bodies of spoilt commands stay shorter than the longest line that a server reads.
const SPOILT_BODY_MAX: usize = 900;

/// Stream `nth` of `seed`, of about so many commands.
pub fn stream(seed: u64, nth: u64, commands: usize) -> Vec<Element> {
    let mut draw = Draw {
        rng: Rng::new(seed, nth, 0xd1ff),
        counting: false,
    };
    let mut elements = Vec::with_capacity(commands + commands / 40);
    while elements.len() < commands {
        draw.counting = draw.rng.chance(0.3);
        for _ in 0..=draw.rng.below(BATCH) {
            let command = draw.command();
            if forgets(&command) {
                elements.push(Element::Barrier);
            }
            elements.push(Element::Command(command));
        }
        elements.push(match draw.rng.chance(0.01) {
            true => Element::Quit,
            false => Element::Barrier,
        });
    }
    elements
}

/// A server waits for, or throws away, as many bytes as a line promises: many more than come, and the rest of the stream
/// is gone. So a few more at most, which what ends a batch makes up for.
fn swallows(command: &Command) -> bool {
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
        Some(Piece::Cas(..)) => true,
        _ => false,
    }
}

/// memcached, refusing a retrieval for the length of a key, forgets what it has not sent yet of earlier answers:
/// which those are depends on how bytes arrived.
fn forgets(command: &Command) -> bool {
    let retrieves =
        matches!(&command.words[0], Piece::Text(verb) if verb.starts_with(b"g") || verb.starts_with(b"G"));
    retrieves && command.words.contains(&Piece::Key(TOO_LONG))
}

/// An item that memcached 1.6.18 makes because of N forgets that its key came in base64, and shows it as it is.
fn makes_none(words: &[Piece]) -> bool {
    matches!(words[1], Piece::Key64(_))
}

fn is_counter(key: u8) -> bool {
    (KEYS - COUNTERS..KEYS).contains(&u64::from(key))
}

struct Draw {
    rng: Rng,
    /// In this batch numbers are counted, and nobody reads them: memcached counts in place or in a new item, which has
    /// another history, by whether anybody is just being sent the old one.
    counting: bool,
}

fn text(word: impl Into<Vec<u8>>) -> Piece {
    Piece::Text(word.into())
}

impl Draw {
    fn command(&mut self) -> Command {
        let mut command = match self.rng.below(100) {
            0..20 => self.get(),
            20..42 => self.store(),
            42..47 => self.cas(),
            47..53 if self.counting => self.arithmetic(),
            53..57 => self.remove(),
            57..61 => self.touch(),
            61..77 => self.meta_get(),
            77..89 => self.meta_set(),
            89..93 => self.meta_delete(),
            93..97 if self.counting => self.meta_arithmetic(),
            47..53 => self.get(),
            _ => self.other(),
        };
        if self.rng.chance(SPOILT) {
            let as_it_was = command.clone();
            self.spoil(&mut command);
            if swallows(&command) {
                return as_it_was;
            }
        }
        command
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.rng.below(of.len() as u64) as usize]
    }

    fn line(&mut self, words: Vec<Piece>) -> Command {
        Command {
            words,
            gap: " ",
            ending: "\r\n",
            body: None,
        }
    }

    fn key(&mut self) -> Piece {
        Piece::Key(self.key_number())
    }

    /// Of an item whose value will be sent.
    fn read_number(&mut self) -> u8 {
        match self.counting {
            true => self.rng.below(KEYS - COUNTERS) as u8,
            false => self.key_number(),
        }
    }

    fn counter(&mut self) -> u8 {
        (KEYS - 1 - self.rng.below(COUNTERS)) as u8
    }

    fn key_number(&mut self) -> u8 {
        match self.rng.below(60) {
            0 => LONGEST,
            _ => self.rng.below(KEYS) as u8,
        }
    }

    fn word(&mut self, of: &[&str]) -> Piece {
        text(self.one_of(of))
    }

    fn flags(&mut self) -> Piece {
        self.word(&["0", "0", "1", "65535", "65536", "4294967295", "123456"])
    }

    fn expiry(&mut self) -> Piece {
        self.word(&[
            "0",
            "0",
            "0",
            "0",
            "0",
            "0",
            "1000",
            "5000",
            "2592000",
            "-1",
            "2592001",
            "1000000000",
            "4000000000",
        ])
    }

    fn body(&mut self) -> Vec<u8> {
        let digits = self.rng.chance(0.4);
        let len = match self.rng.below(400) {
            0 => 60_000,
            1..20 => self.rng.below(3000),
            20..40 => 0,
            _ if digits => self.rng.below(22),
            _ => self.rng.below(40),
        };
        let letters: &[u8] = match digits {
            true => b"0123456789",
            false => b"abcdefghijklmnop \r\n\0\xff",
        };
        (0..len).map(|_| self.one_of(letters)).collect()
    }

    fn noreply(&mut self, words: &mut Vec<Piece>) {
        if self.rng.chance(0.12) {
            words.push(text("noreply"));
        }
    }

    fn get(&mut self) -> Command {
        let verb = self.one_of(&["get", "get", "gets", "gets", "gat", "gats"]);
        let mut words = vec![text(verb)];
        if verb.starts_with("gat") {
            words.push(self.expiry());
        }
        let most = self.one_of(&[1, 1, 1, 3, 30]);
        for _ in 0..=self.rng.below(most) {
            words.push(Piece::Key(self.read_number()));
        }
        self.line(words)
    }

    fn store(&mut self) -> Command {
        let key = self.key_number();
        let verb = match is_counter(key) {
            true => self.one_of(&["set", "set", "add", "replace"]),
            false => self.one_of(&["set", "set", "set", "add", "replace", "append", "prepend"]),
        };
        let body = self.body();
        let mut words = vec![
            text(verb),
            Piece::Key(key),
            self.flags(),
            self.expiry(),
            text(body.len().to_string()),
        ];
        self.noreply(&mut words);
        self.with_body(words, body)
    }

    fn with_body(&mut self, words: Vec<Piece>, body: Vec<u8>) -> Command {
        let mut command = self.line(words);
        command.body = Some(body);
        command
    }

    fn cas(&mut self) -> Command {
        let (body, key) = (self.body(), self.key_number());
        let mut words = vec![text("cas"), Piece::Key(key), self.flags(), self.expiry()];
        words.extend([text(body.len().to_string()), Piece::Cas("", key)]);
        self.noreply(&mut words);
        self.with_body(words, body)
    }

    fn number(&mut self) -> &'static str {
        self.one_of(&[
            "1",
            "1",
            "0",
            "10",
            "99999",
            "18446744073709551615",
            "9223372036854775808",
        ])
    }

    fn arithmetic(&mut self) -> Command {
        let key = Piece::Key(self.counter());
        let mut words = vec![self.word(&["incr", "decr"]), key, text(self.number())];
        self.noreply(&mut words);
        self.line(words)
    }

    fn remove(&mut self) -> Command {
        let mut words = vec![text("delete"), self.key()];
        if self.rng.chance(0.2) {
            words.push(text("0"));
        }
        self.noreply(&mut words);
        self.line(words)
    }

    fn touch(&mut self) -> Command {
        let mut words = vec![text("touch"), self.key(), self.expiry()];
        self.noreply(&mut words);
        self.line(words)
    }

    /// A verb, a key, and the flag that says how it is written.
    fn meta(&mut self, verb: &str) -> (Vec<Piece>, u8) {
        let number = match verb {
            "ma" => self.counter(),
            "mg" => self.read_number(),
            _ => self.key_number(),
        };
        let base64 = self.rng.chance(0.1);
        let key = match base64 {
            true => Piece::Key64(number),
            false => Piece::Key(number),
        };
        let mut words = vec![text(verb), key];
        if base64 {
            words.push(text("b"));
        }
        (words, number)
    }

    /// Some of these flags, in any order, each at most once.
    fn some_of(&mut self, flags: &[&str], words: &mut Vec<Piece>) {
        let start = self.rng.below(flags.len() as u64) as usize;
        for nth in 0..flags.len() {
            if self.rng.chance(0.35) {
                words.push(text(flags[(start + nth) % flags.len()]));
            }
        }
    }

    fn meta_get(&mut self) -> Command {
        let (mut words, number) = self.meta("mg");
        let flags = ["s", "v", "k", "h", "c", "f", "t", "l", "q", "Oabc"];
        self.some_of(&flags[usize::from(is_counter(number))..], &mut words);
        if self.rng.chance(0.15) {
            let tokens = ["N1000", "N0", "R30", "R3000", "R700", "T1000", "T0", "T-1"];
            words.push(self.word(&tokens[if makes_none(&words) { 2 } else { 0 }..]));
        }
        self.line(words)
    }

    fn meta_set(&mut self) -> Command {
        let body = self.body();
        let (mut words, number) = self.meta("ms");
        words.insert(2, text(body.len().to_string()));
        self.some_of(&["c", "k", "q", "Ox", "F77", "T1000"], &mut words);
        if self.rng.chance(0.3) {
            let modes = ["MA", "MP", "Ma", "ME", "MR", "MS", "Mr"];
            words.push(self.word(&modes[if is_counter(number) { 3 } else { 0 }..]));
        }
        if self.rng.chance(0.15) {
            words.push(Piece::Cas("C", number));
        }
        if self.rng.chance(0.1) {
            words.push(text("I"));
        }
        self.with_body(words, body)
    }

    fn meta_delete(&mut self) -> Command {
        let (mut words, number) = self.meta("md");
        self.some_of(&["k", "q", "Oz9"], &mut words);
        if self.rng.chance(0.4) {
            words.push(text("I"));
        }
        if self.rng.chance(0.3) {
            words.push(text("T1000"));
        }
        if self.rng.chance(0.2) {
            words.push(Piece::Cas("C", number));
        }
        self.line(words)
    }

    fn meta_arithmetic(&mut self) -> Command {
        let (mut words, number) = self.meta("ma");
        self.some_of(&["v", "t", "c", "k", "q", "Om", "T1000"], &mut words);
        if self.rng.chance(0.5) {
            words.push(text(format!("D{}", self.number())));
        }
        if self.rng.chance(0.4) {
            words.push(self.word(&["MI", "MD", "M+", "M-", "Mi", "Md"]));
        }
        if !makes_none(&words) && self.rng.chance(0.3) {
            words.push(self.word(&["N0", "N1000"]));
            words.push(self.word(&["J0", "J13", "J18446744073709551615"]));
        }
        if self.rng.chance(0.1) {
            words.push(Piece::Cas("C", number));
        }
        self.line(words)
    }

    fn other(&mut self) -> Command {
        let words = match self.rng.below(12) {
            0 => vec![text("flush_all")],
            1 => vec![text("flush_all"), text("0")],
            2 => vec![text("flush_all"), text("noreply")],
            3 => vec![text("verbosity"), text("0")],
            4 => vec![text("verbosity"), text("0"), text("noreply")],
            5 => vec![text("")],
            6..9 => vec![text("me"), Piece::Key(self.rng.below(KEYS - COUNTERS) as u8)],
            _ => vec![text("mn")],
        };
        self.line(words)
    }

    fn spoil(&mut self, command: &mut Command) {
        if command
            .body
            .as_ref()
            .is_some_and(|body| body.len() > SPOILT_BODY_MAX)
        {
            return;
        }
        // With a number behind it, it empties the cache some seconds later, in the midst of other streams.
        if command.words[0] == text("flush_all") {
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
                    .find(|word| matches!(word, Piece::Key(_)));
                if let Some(key) = key {
                    *key = Piece::Key(TOO_LONG);
                }
            }
            _ => self.spoil_body(command),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_stream_and_another_another() {
        let first = stream(7, 3, 500);
        assert!(first == stream(7, 3, 500));
        assert!(first != stream(8, 3, 500) && first != stream(7, 4, 500));
        assert!(first.iter().filter(|element| element.is_command()).count() >= 490);
        assert_eq!(first.last().map(Element::is_command), Some(false));
    }
}
