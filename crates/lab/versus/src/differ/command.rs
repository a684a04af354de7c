//! Commands of a stream, independent of the server: keys and versions are inserted when it is sent.

use super::reply::WireKey;
use std::collections::BTreeMap;
use std::fmt;

/// One word of a command's line in memcached's protocol. Keys are given by number, and versions by the number of their
/// key: [`Names`] inserts those of each server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Piece {
    /// These bytes, the same for both servers.
    Text(Vec<u8>),
    /// The plain key with this number: see [`Names::key`].
    Key(u8),
    /// The binary key with this number, in base64. It names another item than the plain key.
    Key64(u8),
    /// The text, followed by the version (CAS) of the plain key with this number that the server last reported, or
    /// 2^63 if it has reported none.
    Cas(&'static str, u8),
    /// The text, followed by the version (CAS) of the base64 key with this number that the server last reported, or
    /// 2^63 if it has reported none.
    Cas64(&'static str, u8),
}

/// A command of memcached's protocol: a line, and a value after it if the command has one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Command {
    /// Words of the line.
    pub words: Vec<Piece>,
    /// Separator of the words.
    pub gap: &'static str,
    /// Line end, normally `\r\n`.
    pub ending: &'static str,
    /// Bytes of the value after the line, without the `\r\n` that follows them; `None`: no value follows.
    pub body: Option<Vec<u8>>,
}

/// An element of a stream: a command, or the end of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Element {
    /// A command, sent together with the others of its batch.
    Command(Command),
    /// End of a batch: the commands before it are sent as the [`End`] says, and all answers are awaited and compared.
    End(End),
}

/// How to send a batch: in which pieces, over which connection, and whether that is closed afterwards.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct End {
    /// Seed that decides where the batch is cut into pieces.
    pub cut: u32,
    /// Connection over which the batch is sent: this number modulo 3 is its index.
    pub connection: u8,
    /// Whether the batch ends with `quit`. Then the server must close the connection, and a new one is opened.
    pub quits: bool,
}

/// Number of connections per stream to each server.
pub const CONNECTIONS: usize = 3;

impl Element {
    /// Whether the element is a command.
    pub fn is_command(&self) -> bool {
        matches!(self, Element::Command(_))
    }
}

/// Keys and versions to insert into commands for one server: the prefix of all keys, and the versions (CAS) that this
/// server has reported.
#[derive(Clone, Default, Debug)]
pub struct Names {
    /// Prefix of every key, so that streams do not share keys.
    pub prefix: String,
    /// Version (CAS) that the server last reported of each key, by the key as written on a line.
    pub cas: BTreeMap<WireKey, u64>,
}

/// A version that no server assigns.
pub const NO_CAS: u64 = 1 << 63;
/// Number of the key with the maximum length: 250 bytes, 248 as base64.
pub const LONGEST: u8 = 10;
/// Number of the key that is too long: 251 bytes, 252 as base64.
pub const TOO_LONG: u8 = 11;

impl Names {
    /// Returns the plain key with this number: the prefix, `k` and the number. Key 10 is padded to the maximum of 250
    /// bytes, key 11 to 251, which is too long.
    pub fn key(&self, number: u8) -> Vec<u8> {
        let mut key = format!("{}k{number}", self.prefix).into_bytes();
        match number {
            LONGEST => key.resize(250, b'x'),
            TOO_LONG => key.resize(251, b'x'),
            _ => {}
        }
        key
    }

    fn write(&self, piece: &Piece, out: &mut Vec<u8>) {
        match piece {
            Piece::Text(text) => out.extend_from_slice(text),
            Piece::Key(number) => out.extend_from_slice(&self.key(*number)),
            Piece::Key64(number) => out.extend_from_slice(&self.key64(*number)),
            Piece::Cas(text, number) => self.write_cas(text, self.key(*number), false, out),
            Piece::Cas64(text, number) => self.write_cas(text, self.key64(*number), true, out),
        }
    }

    fn write_cas(&self, text: &str, key: Vec<u8>, base64: bool, out: &mut Vec<u8>) {
        let cas = self.cas.get(&WireKey { text: key, base64 });
        let cas = cas.copied().unwrap_or(NO_CAS);
        out.extend_from_slice(format!("{text}{cas}").as_bytes());
    }

    fn key64(&self, number: u8) -> Vec<u8> {
        let mut key = self.prefix.clone().into_bytes();
        key.extend_from_slice(&[0, b' ', b'\n', 0xff, number]);
        match number {
            // In base64 these have 248 and 252 bytes.
            LONGEST => key.resize(186, 0xfe),
            TOO_LONG => key.resize(187, 0xfe),
            _ => {}
        }
        let mut text = Vec::new();
        base64(&key, &mut text);
        text
    }

    /// Appends the bytes of `command` to `out`. A version that is not in [`cas`](Names::cas) becomes 2^63, which no
    /// server assigns.
    pub fn render(&self, command: &Command, out: &mut Vec<u8>) {
        for (nth, word) in command.words.iter().enumerate() {
            if nth > 0 {
                out.extend_from_slice(command.gap.as_bytes());
            }
            self.write(word, out);
        }
        out.extend_from_slice(command.ending.as_bytes());
        if let Some(body) = &command.body {
            out.extend_from_slice(body);
            out.extend_from_slice(b"\r\n");
        }
    }
}

impl fmt::Display for Command {
    /// Keys begin with `_`. A version is shown as its key, because each server counts its own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Names {
            prefix: "_".to_string(),
            ..Names::default()
        };
        let mut command = self.clone();
        for word in &mut command.words {
            let (text, key) = match word {
                Piece::Cas(text, number) => (*text, names.key(*number)),
                Piece::Cas64(text, number) => (*text, names.key64(*number)),
                _ => continue,
            };
            *word = Piece::Text(format!("{text}<version of {}>", key.escape_ascii()).into_bytes());
        }
        let mut bytes = Vec::new();
        names.render(&command, &mut bytes);
        write!(f, "{}", bytes.escape_ascii())
    }
}

fn base64(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for chunk in bytes.chunks(3) {
        let mut group = [0; 3];
        group[..chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes([0, group[0], group[1], group[2]]);
        for digit in 0..4 {
            let at = (bits >> (18 - 6 * digit)) & 63;
            out.push(if digit <= chunk.len() {
                DIGITS[at as usize]
            } else {
                b'='
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_padded() {
        let text = |bytes: &[u8]| {
            let mut out = Vec::new();
            base64(bytes, &mut out);
            String::from_utf8(out).expect("text")
        };
        assert_eq!(
            (text(b"f"), text(b"fo"), text(b"foo")),
            ("Zg==".into(), "Zm8=".into(), "Zm9v".into())
        );
    }

    #[test]
    fn keys_and_versions_are_put_in() {
        let mut names = Names {
            prefix: "p".into(),
            ..Names::default()
        };
        let command = Command {
            words: vec![Piece::Text(b"cas".to_vec()), Piece::Key(3), Piece::Cas("", 3)],
            gap: " ",
            ending: "\r\n",
            body: Some(b"v".to_vec()),
        };
        let mut out = Vec::new();
        names.render(&command, &mut out);
        let [base64, plain] = [true, false].map(|base64| WireKey {
            text: b"pk3".to_vec(),
            base64,
        });
        names.cas.insert(base64, 4);
        names.cas.insert(plain, 5);
        names.render(&command, &mut out);
        assert_eq!(
            String::from_utf8(out).expect("text"),
            "cas pk3 9223372036854775808\r\nv\r\ncas pk3 5\r\nv\r\n"
        );
        assert_eq!(command.to_string(), "cas _k3 <version of _k3>\\r\\nv\\r\\n");
        assert_eq!((names.key(LONGEST).len(), names.key(TOO_LONG).len()), (250, 251));
    }
}
