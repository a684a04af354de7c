//! Gateways: what they refuse, and how streams hold a gateway against memcached, which refuses none of it.
//!
//! In place of a command that the gateway refuses, memcached is sent one that it refuses in the same words, so that every byte of
//! the answers is still compared, and neither server executes what the other does not. `docs/memcached-gateway.md` says the same
//! for people.

use super::command::{Command, Element, Piece};
use drover_base::Rng;
use std::io::{self, BufRead, BufReader, Error, Write};
use std::net::{SocketAddr, TcpStream};

/// Something that gateways may refuse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Its name in `gateway_refuses` of `stats settings`: a command, or a command of the meta protocol and one of its flags.
    pub name: &'static str,
    /// What memcached gets instead.
    instead: Instead,
}

/// What memcached gets in place of a refused command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Instead {
    /// The same command with a flag that memcached does not know.
    UnknownFlag,
    /// A line that is no command, so `ERROR`.
    UnknownCommand,
    /// The command itself: memcached is started so that it refuses it, too.
    Itself,
    /// Streams do not have it.
    NotDrawn,
}

const fn refusal(name: &'static str, instead: Instead) -> Refusal {
    Refusal { name, instead }
}

/// All that gateways may refuse. Whatever else one refuses is a difference.
pub const REFUSALS: &[Refusal] = &[
    refusal("me", Instead::UnknownCommand),
    refusal("stats detail", Instead::UnknownCommand),
    refusal("flush_all", Instead::Itself),
    refusal("stats cachedump", Instead::Itself),
    refusal("cache_memlimit", Instead::NotDrawn),
    refusal("watch", Instead::NotDrawn),
    refusal("metadump", Instead::NotDrawn),
    refusal("mgdump", Instead::NotDrawn),
    refusal("mg:E", Instead::UnknownFlag),
    refusal("mg:N", Instead::UnknownFlag),
    refusal("mg:R", Instead::UnknownFlag),
    refusal("mg:h", Instead::UnknownFlag),
    refusal("mg:l", Instead::UnknownFlag),
    refusal("mg:t", Instead::UnknownFlag),
    refusal("ms:E", Instead::UnknownFlag),
    refusal("ms:I", Instead::UnknownFlag),
    refusal("md:E", Instead::UnknownFlag),
    refusal("md:I", Instead::UnknownFlag),
    refusal("md:x", Instead::UnknownFlag),
    refusal("ma:E", Instead::UnknownFlag),
    refusal("ma:t", Instead::UnknownFlag),
];

/// Fraction of the commands with refused flags that keep them: most are to be executed.
const KEPT: f64 = 0.125;
/// Values up to this length, bytes, are not too long for any server.
const VALUE_BYTES_MAX: usize = 512 << 10;
/// A flag of no command.
const UNKNOWN_FLAG: &[u8] = b"Z";
/// A line that is no command.
const UNKNOWN_COMMAND: &[u8] = b"mx";

/// Asks the server at `address` what it refuses; nothing if it is no gateway.
///
/// # Errors
/// If it cannot be reached, or refuses what [`REFUSALS`] do not have.
pub fn refused_by(address: SocketAddr) -> io::Result<Vec<Refusal>> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"stats settings\r\n")?;
    for line in BufReader::new(stream).lines() {
        let line = line?;
        if let Some(names) = line.strip_prefix("STAT gateway_refuses ") {
            return names.split(',').map(|name| named(name, address)).collect();
        }
        if line == "END" {
            return Ok(Vec::new());
        }
    }
    Err(Error::other(format!("{address} closes instead of its settings")))
}

fn named(name: &str, address: SocketAddr) -> io::Result<Refusal> {
    let found = REFUSALS.iter().find(|refusal| refusal.name == name).copied();
    found.ok_or_else(|| {
        Error::other(format!(
            "the gateway at {address} refuses {name}, which no gateway should"
        ))
    })
}

impl Refusal {
    /// Whether `word` of a command is the refused flag. The words before the flags are no flags.
    fn is_flag(&self, command: &Command, word: &Piece) -> bool {
        let (Some((verb, letter)), Piece::Text(word)) = (self.name.split_once(':'), word) else {
            return false;
        };
        is_text(&command.words[0], verb) && word.first() == letter.as_bytes().first()
    }

    fn fits(&self, command: &Command) -> bool {
        match (&command.words[0], self.instead) {
            (_, Instead::UnknownFlag) => {
                let start = flags_start(command);
                command
                    .words
                    .iter()
                    .skip(start)
                    .any(|word| self.is_flag(command, word))
            }
            (Piece::Text(line), Instead::UnknownCommand) => {
                line.starts_with(self.name.as_bytes())
                    && matches!(line.get(self.name.len()), None | Some(b' '))
            }
            (Piece::Text(line), Instead::NotDrawn) => line.starts_with(self.name.as_bytes()),
            _ => false,
        }
    }
}

fn is_text(word: &Piece, text: &str) -> bool {
    matches!(word, Piece::Text(word) if word == text.as_bytes())
}

/// Index of a meta command's first flag: verb, key, and a length come before.
fn flags_start(command: &Command) -> usize {
    if is_text(&command.words[0], "ms") { 3 } else { 2 }
}

/// What memcached is sent in place of `command`, if a gateway that refuses `refused` refuses it; `None`: the command itself.
pub fn stand_in(command: &Command, refused: &[Refusal]) -> Option<Command> {
    let refusal = refused.iter().find(|refusal| refusal.fits(command))?;
    let mut instead = command.clone();
    match refusal.instead {
        Instead::UnknownFlag => instead.words.push(Piece::Text(UNKNOWN_FLAG.to_vec())),
        Instead::UnknownCommand => instead.words = vec![Piece::Text(UNKNOWN_COMMAND.to_vec())],
        Instead::Itself | Instead::NotDrawn => {}
    }
    Some(instead)
}

/// Makes stream `nth` of `seed` one for a gateway that refuses `refused`: most commands lose their refused flags.
pub fn adapt(elements: &mut [Element], refused: &[Refusal], (seed, nth): (u64, u64)) {
    if refused.is_empty() {
        return;
    }
    let mut rng = Rng::new(seed, nth, 0x6a7e);
    for element in elements {
        if let Element::Command(command) = element {
            adapt_command(command, refused, &mut rng);
            hide_commands(command);
        }
    }
}

/// Changes what would be a refused command if the value were taken for lines, as after a wrong length: no stand-in could be found.
/// Random letters make no other refused command than `me`.
fn hide_commands(command: &mut Command) {
    let mut rest = command.body.as_deref_mut().unwrap_or_default();
    while let Some(at) = rest.windows(3).position(|window| window == b"me ") {
        rest[at] = b'n';
        rest = &mut rest[at + 1..];
    }
}

fn adapt_command(command: &mut Command, refused: &[Refusal], rng: &mut Rng) {
    let Some(refusal) = refused.iter().find(|refusal| refusal.fits(command)) else {
        return forget_version_of_expired(command);
    };
    match refusal.instead {
        Instead::NotDrawn => command.words = vec![Piece::Text(b"mn".to_vec())],
        Instead::UnknownFlag if !(rng.chance(KEPT) && is_valid(command)) => {
            let (start, whole) = (flags_start(command), command.clone());
            let is_refused = |word: &Piece| refused.iter().any(|refusal| refusal.is_flag(&whole, word));
            let mut index = 0;
            command.words.retain(|word| {
                index += 1;
                index <= start || !is_refused(word)
            });
            forget_version_of_expired(command);
        }
        _ => {}
    }
}

/// Whether nothing but refused flags can be wrong with a meta command. Of two reasons to refuse it the servers may give either:
/// memcached looks at modes, opaque tokens and the value only after it has met an unknown flag, and forgets malformed numbers and
/// keys then.
fn is_valid(command: &Command) -> bool {
    let is_checked_late = |word: &Piece| {
        let Piece::Text(word) = word else { return false };
        match word.split_first() {
            Some((b'M' | b'O' | b'b', _)) => true,
            Some((b'C' | b'D' | b'E' | b'F' | b'J' | b'N' | b'R' | b'T', number)) => !is_short_number(number),
            _ => false,
        }
    };
    let has_value = command.body.as_ref().is_none_or(|body| {
        let announced = command.words.get(2);
        body.len() <= VALUE_BYTES_MAX && announced.is_some_and(|word| is_text(word, &body.len().to_string()))
    });
    has_value && !command.words.iter().any(is_checked_late)
}

/// Whether every flag takes it.
fn is_short_number(text: &[u8]) -> bool {
    (1..=9).contains(&text.len()) && text.iter().all(u8::is_ascii_digit)
}

/// See the page: a gateway deletes an item whose time is over from the start, so that there is no version to show.
fn forget_version_of_expired(command: &mut Command) {
    let is_meta = is_text(&command.words[0], "ms") || is_text(&command.words[0], "ma");
    let is_over = |word: &Piece| matches!(word, Piece::Text(word) if word.starts_with(b"T-"));
    if is_meta && command.words.iter().any(is_over) {
        let start = flags_start(command).min(command.words.len());
        let flags = command.words.split_off(start);
        command
            .words
            .extend(flags.into_iter().filter(|word| !is_text(word, "c")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../../../docs/memcached-gateway.md");

    fn command(line: &str) -> Command {
        Command {
            words: line.split(' ').map(|word| Piece::Text(word.into())).collect(),
            gap: " ",
            ending: "\r\n",
            body: None,
        }
    }

    fn instead(line: &str) -> String {
        stand_in(&command(line), REFUSALS).map_or_else(String::new, |instead| instead.to_string())
    }

    #[test]
    fn memcached_gets_what_it_refuses_in_the_same_words() {
        assert_eq!(instead("mg k v t"), "mg k v t Z\\r\\n");
        assert_eq!(instead("ms k 2 I"), "ms k 2 I Z\\r\\n");
        assert_eq!(instead("me k"), "mx\\r\\n");
        for line in ["mg t v", "ms k I", "mg k v Ot", "mn", "mget k t", "set k 0 0 1"] {
            assert_eq!(instead(line), "", "{line}");
        }
    }

    #[test]
    fn most_commands_lose_what_is_refused() {
        let mut rng = Rng::new(1, 0, 0);
        let mut executed = 0;
        for _ in 0..100 {
            let mut command = command("mg k h v t");
            adapt_command(&mut command, REFUSALS, &mut rng);
            match stand_in(&command, REFUSALS) {
                None => executed += usize::from(command == self::command("mg k v")),
                Some(_) => assert_eq!(command, self::command("mg k h v t")),
            }
        }
        assert!((70..100).contains(&executed), "{executed}");
        let mut expired = command("ms c 2 c k T-1");
        adapt_command(&mut expired, REFUSALS, &mut rng);
        assert_eq!(expired, command("ms c 2 k T-1"));
    }

    #[test]
    fn values_hide_no_refused_command() {
        let mut set = command("set k 0 0 +3");
        set.body = Some(b"a\nme k\nme me ".to_vec());
        hide_commands(&mut set);
        assert_eq!(set.body.as_deref(), Some(&b"a\nne k\nne ne "[..]));
    }

    /// Rows of the page's table are told by their first column.
    #[test]
    fn the_page_has_every_refusal() {
        let (_, table) = PAGE
            .split_once("| Command, flag |")
            .expect("the table of differences");
        let rows: Vec<&str> = table
            .lines()
            .filter_map(|row| row.strip_prefix("| ")?.split(" | ").next())
            .collect();
        for refusal in REFUSALS {
            let (verb, flag) = refusal.name.split_once(':').unwrap_or((refusal.name, ""));
            let quotes = |row: &&str, text: &str| {
                let mut quoted = row.split('`').skip(1).step_by(2);
                quoted.any(|quoted| quoted == text || quoted.ends_with(&format!(" {text}")))
            };
            let has = |row: &&str| match flag {
                "E" => quotes(row, flag),
                "" => quotes(row, verb),
                _ => row
                    .split(';')
                    .any(|part| quotes(&part, verb) && quotes(&part, flag)),
            };
            assert!(rows.iter().any(has), "{} is not in the page", refusal.name);
        }
    }
}
