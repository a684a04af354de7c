//! [`Request`]: what a client asked for, borrowed from its input.

/// How a classic fetch answers and what it does besides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fetch {
    /// `gets`, `gats`: tell the CAS too.
    pub with_cas: bool,
    /// `gat`, `gats`: give what is found this expiry.
    pub touch: Option<Expiry>,
}

/// Which storing command it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "named as the commands")]
pub enum StoreMode {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    Cas,
}

/// An expiry as a client gives it: 0 never, negative already over, up to 30 days relative, above that seconds since
/// 1970.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Expiry(pub i32);

impl Expiry {
    /// The longest relative one, in seconds.
    const RELATIVE_MAX: i32 = 30 * 24 * 3600;

    /// The same in seconds since the server's start, 0 = never, given that it is `now_s` since a start at `start_unix_s`
    /// (seconds since 1970).
    #[inline]
    pub fn to_server_s(self, now_s: u32, start_unix_s: u64) -> u32 {
        match self.0 {
            0 => 0,
            // The first second after the start: over, for everyone who asks later.
            ..0 => 1,
            1..=Expiry::RELATIVE_MAX => now_s.saturating_add(self.0 as u32),
            _ => match (self.0 as u64).checked_sub(start_unix_s) {
                None | Some(0) => 1,
                Some(after_start_s) => after_start_s.min(u64::from(u32::MAX)) as u32,
            },
        }
    }
}

/// A classic storing command with its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Store<'a> {
    /// Which.
    pub mode: StoreMode,
    /// Under which key.
    pub key: &'a [u8],
    /// The client's, kept for it.
    pub flags: u32,
    /// When it goes.
    pub expiry: Expiry,
    /// `cas`: the CAS it must have.
    pub cas: u64,
    /// The value.
    pub value: &'a [u8],
    /// No answer.
    pub noreply: bool,
}

/// Which meta command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "named as the commands")]
pub enum MetaKind {
    Get,
    Set,
    Delete,
    Arithmetic,
    Debug,
}

/// Flags of a meta command, one bit for each letter.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Letters(u64);

impl Letters {
    #[inline]
    fn bit(letter: u8) -> u64 {
        1 << (letter & 63)
    }

    /// Adds `letter`; says whether it is new.
    #[inline]
    pub(crate) fn add(&mut self, letter: u8) -> bool {
        // Letters alone: upper and lower case differ in bit 5, which bits 0-5 keep.
        let is_new = self.0 & Letters::bit(letter) == 0;
        self.0 |= Letters::bit(letter);
        is_new
    }

    /// Whether `letter` is there.
    #[inline]
    pub fn has(self, letter: u8) -> bool {
        self.0 & Letters::bit(letter) != 0
    }
}

/// A meta command about one key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meta<'a> {
    /// Which.
    pub kind: MetaKind,
    /// The key as it was written: base64 if flag `b` is there.
    pub key: &'a [u8],
    /// All flags as they were written, in order, for the reply.
    pub flags: &'a [u8],
    /// Which are there.
    pub letters: Letters,
    /// `T`.
    pub expiry: Expiry,
    /// `N`.
    pub vivify: Expiry,
    /// `R`.
    pub recache: Expiry,
    /// `F`.
    pub client_flags: u32,
    /// `C`.
    pub cas: u64,
    /// `E`.
    pub new_cas: u64,
    /// `J`.
    pub initial: u64,
    /// `D`.
    pub delta: u64,
    /// `M`; 0 if it is not there.
    pub mode: u8,
    /// The value of `ms`.
    pub value: &'a [u8],
}

impl Meta<'_> {
    /// Whether flag `letter` is there.
    #[inline]
    pub fn has(&self, letter: u8) -> bool {
        self.letters.has(letter)
    }
}

/// A value that is over the limit. Its bytes are to be skipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLarge<'a> {
    /// The key, as it was written.
    pub key: &'a [u8],
    /// It is base64.
    pub binary: bool,
    /// What is under the key must go, lest a stale value outlive the one refused.
    pub drop_old: bool,
    /// No answer.
    pub noreply: bool,
}

/// What a client asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request<'a> {
    /// `get`, `gets`, `gat`, `gats`.
    Fetch {
        /// Which.
        fetch: Fetch,
        /// The rest of the line: keys between spaces, at least one.
        keys: &'a [u8],
    },
    /// `set`, `add`, `replace`, `append`, `prepend`, `cas`.
    Store(Store<'a>),
    /// `delete`.
    Delete {
        /// What.
        key: &'a [u8],
        /// No answer.
        noreply: bool,
    },
    /// `incr`, `decr`.
    Arithmetic {
        /// What.
        key: &'a [u8],
        /// By how much.
        delta: u64,
        /// `incr`.
        up: bool,
        /// No answer.
        noreply: bool,
    },
    /// `touch`.
    Touch {
        /// What.
        key: &'a [u8],
        /// Until when.
        expiry: Expiry,
        /// No answer.
        noreply: bool,
    },
    /// `mg`, `ms`, `md`, `ma`, `me`.
    Meta(Meta<'a>),
    /// A storing command whose value is over the limit.
    TooLarge(TooLarge<'a>),
    /// About no key: `mn`, `flush_all`, `stats`, `version`, `quit` ...; the whole line without its end.
    General(&'a [u8]),
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAYS_30: i32 = 30 * 24 * 3600;

    /// 0 never, negative already over, more than 30 days absolute.
    #[test]
    fn expiry_follows_the_rules_of_the_protocol() {
        let start_unix_s = 1_700_000_000;
        let at = |raw| Expiry(raw).to_server_s(100, start_unix_s);
        assert_eq!(at(0), 0);
        assert_eq!(at(-1), 1);
        assert_eq!(at(i32::MIN), 1);
        assert_eq!(at(1), 101);
        assert_eq!(at(DAYS_30), 100 + DAYS_30 as u32);
        assert_eq!(at(DAYS_30 + 1), 1, "in 1970");
        assert_eq!(at(1_700_000_000), 1, "the moment of the start");
        assert_eq!(at(1_700_000_500), 500);
    }

    #[test]
    fn letters_do_not_mix() {
        let mut letters = Letters::default();
        for letter in (b'A'..=b'Z').chain(b'a'..=b'z') {
            assert!(!letters.has(letter));
            assert!(letters.add(letter));
            assert!(!letters.add(letter));
        }
    }
}
