//! Random commands: all commands with the same answers on both servers, most of them valid, some not.

mod meta;
mod other;
mod spoil;

use super::command::{CONNECTIONS, Command, Element, End, LONGEST, Piece, TOO_LONG};
use drover_base::Rng;
use spoil::swallows;

/// Maximum number of commands in a batch.
const BATCH: u64 = 160;
/// Fraction of spoilt commands.
const SPOILT: f64 = 0.08;
/// Number of keys of ordinary length.
const KEYS: u64 = 8;
/// Number of keys, the last ones, that are incremented and decremented.
const COUNTERS: u64 = 3;
/// Number of `mn` after a spoilt body: more than the server can swallow.
const SYNCS: usize = 4;
/// Maximum size of a value including an item's overhead.
const ITEM_BYTES_MAX: u64 = 1 << 20;

/// Draws stream number `nth` of `seed`: batches of at most 160 random commands, about `commands` commands in all. Equal
/// arguments give equal streams.
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
                elements.push(draw.end(0.0));
            }
            elements.push(Element::Command(command));
        }
        elements.push(draw.end(0.01));
    }
    elements
}

/// Whether memcached drops unsent earlier answers: it does when it refuses a retrieval for the length of a key, and
/// which answers are unsent depends on how bytes arrived.
fn forgets(command: &Command) -> bool {
    let retrieves =
        matches!(&command.words[0], Piece::Text(verb) if verb.starts_with(b"g") || verb.starts_with(b"G"));
    retrieves && command.words.contains(&Piece::Key(TOO_LONG))
}

struct Draw {
    rng: Rng,
    /// In this batch numbers are counted and not read: memcached counts in place or in a new item, which has another
    /// history, depending on whether the old one is being sent.
    counting: bool,
}

fn text(word: impl Into<Vec<u8>>) -> Piece {
    Piece::Text(word.into())
}

impl Draw {
    /// The end of a batch, sometimes of its connection.
    fn end(&mut self, quits: f64) -> Element {
        Element::End(End {
            cut: self.rng.next_u64() as u32,
            connection: self.rng.below(CONNECTIONS as u64) as u8,
            quits: self.rng.chance(quits),
        })
    }

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
            // Spoilt, they could harm other streams.
            _ => return self.other(),
        };
        if self.rng.chance(SPOILT) {
            let as_it_was = command.clone();
            self.spoil(&mut command);
            if swallows(&command) {
                return as_it_was;
            }
            // Even if part of the body is taken for something else, the next command is not.
            if let Some(body) = &mut command.body {
                body.extend_from_slice(&b"\r\nmn".repeat(SYNCS));
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

    /// A key number of an item whose value will be sent.
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
            "2000000000",
            "2147483647",
            "4000000000",
            "-2147483648",
        ])
    }

    fn body(&mut self) -> Vec<u8> {
        let digits = self.rng.chance(0.4);
        let len = match self.rng.below(4000) {
            // Around the limit: the maximum length depends on the key.
            0 => return vec![b'z'; (ITEM_BYTES_MAX - 90 + self.rng.below(100)) as usize],
            1..10 => self.rng.below(60_000),
            10..200 => self.rng.below(3000),
            200..400 => 0,
            _ if digits => self.rng.below(22),
            _ => self.rng.below(40),
        };
        let letters: &[u8] = match digits {
            true if self.rng.chance(0.05) => b"0123456789 .",
            true => b"0123456789",
            false => b"abcdefghijklmnop \r\n\0\xff",
        };
        let mut body: Vec<u8> = (0..len).map(|_| self.one_of(letters)).collect();
        if body.iter().all(|byte| b" \r\n".contains(byte)) {
            // memcached looks beyond the spaces to count them.
            body.push(b'8');
        }
        body
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
        let mut count = 1 + self.rng.below(most);
        // A line longer than one read of a server; only these two commands may have one.
        if self.rng.chance(0.002) && verb.starts_with("get") {
            count = 500 + self.rng.below(2000);
        }
        for _ in 0..count {
            words.push(Piece::Key(self.read_number()));
        }
        self.line(words)
    }

    fn store(&mut self) -> Command {
        let key = self.key_number();
        let verb = self.one_of(&["set", "set", "set", "add", "replace", "append", "prepend"]);
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
