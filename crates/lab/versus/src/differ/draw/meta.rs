//! Meta commands.

use super::{Draw, text};
use crate::differ::command::{Command, Piece};

/// Whether the key is in base64, so that the command must not create or copy an item: memcached 1.6.18 forgets the
/// encoding of the new item's key and shows it raw.
fn makes_none(words: &[Piece]) -> bool {
    matches!(words[1], Piece::Key64(_))
}

impl Draw {
    /// A verb, a key, and the flag for the key's encoding.
    fn meta(&mut self, verb: &str) -> (Vec<Piece>, u8) {
        let number = match verb {
            "ma" => self.counter(),
            "mg" => self.read_number(),
            _ => self.key_number(),
        };
        let base64 = self.rng.chance(0.15);
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

    /// Adds some of these flags, in any order, each at most once.
    fn some_of(&mut self, flags: &[&str], words: &mut Vec<Piece>) {
        let start = self.rng.below(flags.len() as u64) as usize;
        for nth in 0..flags.len() {
            if self.rng.chance(0.35) {
                words.push(text(flags[(start + nth) % flags.len()]));
            }
        }
    }

    /// Adds a comparison, mostly with the last known version of the key.
    fn compare(&mut self, words: &mut Vec<Piece>, number: u8, share: f64) {
        if self.rng.chance(share) {
            words.push(match self.rng.below(8) {
                0 => self.word(&["C0", "C1", "C18446744073709551615", "C", "Cx"]),
                _ if makes_none(words) => Piece::Cas64("C", number),
                _ => Piece::Cas("C", number),
            });
        }
    }

    fn opaque(&mut self) -> &'static str {
        self.one_of(&[
            "O1",
            "Oz9",
            "O",
            "O234567890123456789012345678901",
            "O2345678901234567890123456789012",
        ])
    }

    pub(super) fn meta_get(&mut self) -> Command {
        let (mut words, _) = self.meta("mg");
        let flags = [
            "s", "v", "k", "h", "c", "f", "t", "l", "q", "u", "Oabc", "Px", "Ly",
        ];
        self.some_of(&flags, &mut words);
        if self.rng.chance(0.15) {
            let tokens = ["N1000", "N0", "R30", "R3000", "R700", "T1000", "T0", "T-1"];
            words.push(self.word(&tokens[if makes_none(&words) { 2 } else { 0 }..]));
        }
        self.line(words)
    }

    pub(super) fn meta_set(&mut self) -> Command {
        let body = self.body();
        let (mut words, number) = self.meta("ms");
        words.insert(2, text(body.len().to_string()));
        let opaque = self.opaque();
        self.some_of(&["c", "k", "q", opaque, "F77", "T1000"], &mut words);
        if self.rng.chance(0.04) {
            words.push(self.word(&[
                "F4294967296",
                "Fx",
                "F",
                "T-1",
                "T0",
                "Tx",
                "T",
                "Z",
                "\u{7f}",
                "I",
            ]));
        }
        if self.rng.chance(0.3) {
            let modes = ["MA", "MP", "Ma", "ME", "MR", "MS", "Mr", "M", "MSS"];
            words.push(self.word(&modes[if makes_none(&words) { 2 } else { 0 }..]));
        }
        self.compare(&mut words, number, 0.15);
        if self.rng.chance(0.1) {
            words.push(text("I"));
        }
        self.with_body(words, body)
    }

    pub(super) fn meta_delete(&mut self) -> Command {
        let (mut words, number) = self.meta("md");
        self.some_of(&["k", "q", "Oz9"], &mut words);
        if self.rng.chance(0.4) {
            words.push(text("I"));
        }
        if self.rng.chance(0.3) {
            words.push(text("T1000"));
        }
        self.compare(&mut words, number, 0.2);
        self.line(words)
    }

    pub(super) fn meta_arithmetic(&mut self) -> Command {
        let (mut words, number) = self.meta("ma");
        self.some_of(&["v", "t", "c", "k", "q", "Om"], &mut words);
        if self.rng.chance(0.5) {
            words.push(text(format!("D{}", self.number())));
        }
        let falls = makes_none(&words) || self.rng.chance(0.2);
        if falls {
            words.push(self.word(&["MD", "M-", "Md"]));
        } else if self.rng.chance(0.3) {
            words.push(self.word(&["MI", "M+", "Mi"]));
        }
        // A number that grows takes its time to live from the item that it replaces.
        if falls && self.rng.chance(0.35) {
            words.push(text("T1000"));
        }
        if !makes_none(&words) && self.rng.chance(0.3) {
            words.push(self.word(&["N0", "N1000"]));
            words.push(self.word(&["J0", "J13", "J18446744073709551615", "J-1", "Jx"]));
        }
        self.compare(&mut words, number, 0.1);
        self.line(words)
    }
}
