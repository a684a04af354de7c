//! Splits answers into tokens, as far as the comparison needs their meaning.

/// A word, or the value, of an answer. The variants differ in how the tokens of two servers are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Token<'a> {
    /// Bytes that must be the same on both servers.
    Text(&'a [u8]),
    /// The version (CAS) of an item.
    Cas(u64),
    /// A remaining time to live in seconds; -1: for ever.
    Seconds(i64),
    /// Whether an item has been read since it was stored.
    Fetched(bool),
    /// A remaining time to live in seconds as the command `me` shows it: -1 is for ever; others are negative in
    /// memcached 1.6.18, where -1 may therefore also be one second, and positive in newer versions.
    Left(i64),
    /// A word that may be anything on either server: it is not compared.
    Specific,
}

/// The key of an item as written on a line. Plain text and base64 with the same letters name different items.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct WireKey {
    /// Characters of the key as written on the line.
    pub text: Vec<u8>,
    /// Whether the characters are base64 of the item's key (flag `b`).
    pub base64: bool,
}

/// One answer: its bytes and its tokens.
#[derive(Clone, Debug)]
pub struct Reply<'a> {
    /// All bytes of the answer.
    pub bytes: &'a [u8],
    /// Tokens of the line, one per word, then one for the value if there is one.
    pub tokens: Vec<Token<'a>>,
    /// The key in the answer, if there is one.
    pub key: Option<WireKey>,
}

impl Reply<'_> {
    /// The version (CAS) in the answer, if there is one.
    pub fn cas(&self) -> Option<u64> {
        self.tokens.iter().find_map(|token| match token {
            Token::Cas(cas) => Some(*cas),
            _ => None,
        })
    }
}

/// Returns the first answer in `bytes` and removes it from `bytes`; `None` if `bytes` is empty. An incomplete line
/// counts as an answer.
pub fn next<'a>(bytes: &mut &'a [u8]) -> Option<Reply<'a>> {
    if bytes.is_empty() {
        return None;
    }
    let all = *bytes;
    let line_len = all
        .iter()
        .position(|&b| b == b'\n')
        .map_or(all.len(), |at| at + 1);
    let line = all[..line_len].strip_suffix(b"\r\n").unwrap_or(&all[..line_len]);
    let words: Vec<&[u8]> = line.split(|&b| b == b' ').collect();
    let (mut tokens, key) = tokens_of(&words);
    let mut len = line_len;
    if let Some(bytes) = body_len(&words) {
        len = (line_len + bytes + 2).min(all.len());
        tokens.push(Token::Text(&all[line_len..len]));
    }
    *bytes = &all[len..];
    Some(Reply {
        bytes: &all[..len],
        tokens,
        key,
    })
}

/// Length of the body that follows.
fn body_len(words: &[&[u8]]) -> Option<usize> {
    match (words[0], words.len()) {
        (b"VALUE", 4..) => number(words[3]),
        (b"VA", 2..) => number(words[1]),
        _ => None,
    }
}

fn number<T: std::str::FromStr>(word: &[u8]) -> Option<T> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

fn tokens_of<'a>(words: &[&'a [u8]]) -> (Vec<Token<'a>>, Option<WireKey>) {
    let named = |text: &[u8], base64| WireKey {
        text: text.to_vec(),
        base64,
    };
    match words[0] {
        b"VALUE" if words.len() >= 4 => {
            let key = named(words[1], false);
            (words.iter().enumerate().map(classic).collect(), Some(key))
        }
        b"VA" | b"HD" | b"NS" | b"EX" | b"NF" | b"EN" => {
            let base64 = words.contains(&&b"b"[..]);
            let key = words.iter().find_map(|word| word.strip_prefix(b"k"));
            let tokens = words.iter().map(|word| flag(word)).collect();
            (tokens, key.map(|text| named(text, base64)))
        }
        b"ME" => (words.iter().map(|word| debug_field(word)).collect(), None),
        _ => (words.iter().map(|word| Token::Text(word)).collect(), None),
    }
}

fn classic<'a>((nth, word): (usize, &&'a [u8])) -> Token<'a> {
    match (nth, number(word)) {
        (4, Some(cas)) => Token::Cas(cas),
        _ => Token::Text(word),
    }
}

fn flag(word: &[u8]) -> Token<'_> {
    let rest = word.get(1..).unwrap_or_default();
    match (word.first(), number(rest), number(rest)) {
        (Some(b'c'), Some(cas), _) => Token::Cas(cas),
        (Some(b't'), _, Some(seconds)) => Token::Seconds(seconds),
        (Some(b'l'), _, Some(_)) => Token::Specific,
        _ if word == b"h0" || word == b"h1" => Token::Fetched(word == b"h1"),
        _ => Token::Text(word),
    }
}

/// Token of a field of `me`, which shows an item as in memory.
fn debug_field(word: &[u8]) -> Token<'_> {
    let text = std::str::from_utf8(word).unwrap_or_default();
    match text.split_once('=') {
        Some(("exp", seconds)) => seconds.parse().map_or(Token::Text(word), Token::Left),
        Some(("fetch", yes @ ("yes" | "no"))) => Token::Fetched(yes == "yes"),
        Some(("cas", cas)) => cas.parse().map_or(Token::Text(word), Token::Cas),
        Some(("cls" | "size" | "la", _)) => Token::Specific,
        _ => Token::Text(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut bytes: &[u8]) -> Vec<Reply<'_>> {
        std::iter::from_fn(|| next(&mut bytes)).collect()
    }

    #[test]
    fn bodies_belong_to_their_lines() {
        let replies = all(b"VALUE k 5 4 77\r\na\r\nb\r\nEND\r\nVA 2 kq c9 t-1\r\nxy\r\nHD c8\r\nrest");
        let key = |text: &[u8]| {
            Some(WireKey {
                text: text.to_vec(),
                base64: false,
            })
        };
        let lens: Vec<usize> = replies.iter().map(|reply| reply.bytes.len()).collect();
        assert_eq!(lens, [22, 5, 20, 7, 4]);
        assert_eq!((replies[0].cas(), &replies[0].key), (Some(77), &key(b"k")));
        assert_eq!((replies[2].cas(), &replies[2].key), (Some(9), &key(b"q")));
        assert!(replies[2].tokens.contains(&Token::Seconds(-1)));
        assert_eq!((replies[3].cas(), &replies[3].key), (Some(8), &None));
    }

    #[test]
    fn base64_names_another_item_than_the_same_letters_as_text() {
        let replies = all(b"HD c9 kAAAA b\r\nHD c9 kAAAA\r\n");
        assert_ne!(replies[0].key, replies[1].key);
    }

    #[test]
    fn of_an_items_memory_only_what_users_can_tell_counts() {
        let replies = all(b"ME k exp=-1 la=3 cas=6 fetch=no cls=1 size=63\r\n");
        let own = replies[0]
            .tokens
            .iter()
            .filter(|token| **token == Token::Specific)
            .count();
        assert_eq!((own, replies[0].cas()), (3, Some(6)));
    }
}
