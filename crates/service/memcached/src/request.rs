//! [`Request`]: a client's request, borrowed from its input.

/// Options of a classic fetch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fetch {
    /// Whether to return the CAS too (`gets`, `gats`).
    pub with_cas: bool,
    /// New expiry of the items found (`gat`, `gats`); `None`: their expiry stays.
    pub touch: Option<Expiry>,
}

/// A classic storing command.
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

/// An expiry as clients give it, in seconds: 0 never; negative already expired; up to 30 days counted from now; above
/// that counted from 1970.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Expiry(pub i32);

impl Expiry {
    /// Longest relative expiry, in seconds.
    const RELATIVE_MAX: i32 = 30 * 24 * 3600;

    /// Converts to the second in which the item expires, counted from `start_unix_s`; 0: never. Negative expiries and
    /// times up to the start become 1. `start_unix_s`: start of the server, seconds since 1970. `now_s`: current time,
    /// seconds since that start.
    #[inline]
    pub fn to_server_s(self, now_s: u32, start_unix_s: u64) -> u32 {
        match self.0 {
            0 => 0,
            // The first second after the start: expired for every later request.
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
    /// The command.
    pub mode: StoreMode,
    /// The key.
    pub key: &'a [u8],
    /// The client's flags, stored with the item.
    pub flags: u32,
    /// Expiry of the item.
    pub expiry: Expiry,
    /// The CAS that the item must have; only for [`StoreMode::Cas`], otherwise 0.
    pub cas: u64,
    /// The value.
    pub value: &'a [u8],
    /// Whether the client wants no reply.
    pub noreply: bool,
}

/// A meta command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "named as the commands")]
pub enum MetaKind {
    Get,
    Set,
    Delete,
    Arithmetic,
    Debug,
}

/// Set of the letters of a meta command's flags.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Letters(u64);

impl Letters {
    #[inline]
    fn bit(letter: u8) -> u64 {
        1 << (letter & 63)
    }

    /// Adds `letter`; returns whether it is new.
    #[inline]
    pub(crate) fn add(&mut self, letter: u8) -> bool {
        // Only letters: upper and lower case differ in bit 5, which bits 0-5 keep.
        let is_new = self.0 & Letters::bit(letter) == 0;
        self.0 |= Letters::bit(letter);
        is_new
    }

    /// Whether `letter`, which must be an ASCII letter, is in the set.
    #[inline]
    pub fn has(self, letter: u8) -> bool {
        self.0 & Letters::bit(letter) != 0
    }
}

/// Times of a meta command. Without its flag, each is `Expiry(0)`, never.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MetaTimes {
    /// Flag `T`: new expiry.
    pub expiry: Expiry,
    /// Flag `N`: expiry of an item created on a miss.
    pub vivify: Expiry,
    /// Flag `R`: if the item has less time left than this, one client is told to recache it.
    pub recache: Expiry,
}

/// Numbers of `ma`. Without their flags: initial 0, delta 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MetaNumber {
    /// Flag `J`: initial number on a miss.
    pub initial: u64,
    /// Flag `D`: number to add or subtract.
    pub delta: u64,
}

impl Default for MetaNumber {
    /// What `ma` does without these flags.
    fn default() -> MetaNumber {
        MetaNumber { initial: 0, delta: 1 }
    }
}

/// A meta command about one key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meta<'a> {
    /// The command.
    pub kind: MetaKind,
    /// The key as written: base64 if flag `b` is set.
    pub key: &'a [u8],
    /// All flags as written, in order, for the reply; empty for `me`.
    pub flags: &'a [u8],
    /// Letters of the flags that are set.
    pub letters: Letters,
    /// Flags `T`, `N` and `R`.
    pub times: MetaTimes,
    /// Flag `F`: the client's flags, stored with the item; 0 if absent.
    pub client_flags: u32,
    /// Flag `C`: the CAS that the item must have (for `ms` with flag `I`, this or a larger one); 0 if absent.
    pub cas: u64,
    /// Flag `E`: the CAS to give the item; 0 if absent.
    pub new_cas: u64,
    /// Flags `J` and `D`.
    pub number: MetaNumber,
    /// Flag `M`: the mode's letter or sign; 0 if absent.
    pub mode: u8,
    /// The value of `ms`; empty for other commands.
    pub value: &'a [u8],
}

impl Meta<'_> {
    /// Whether flag `letter` is set.
    #[inline]
    pub fn has(&self, letter: u8) -> bool {
        self.letters.has(letter)
    }
}

/// A storing command whose value is over the limit. The value's bytes are to be skipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLarge<'a> {
    /// The key as written.
    pub key: &'a [u8],
    /// Whether the key is base64.
    pub binary: bool,
    /// Whether to remove the item stored under the key, lest a stale value outlive the refused one (`set`, `ms`).
    pub drop_old: bool,
    /// Whether the client wants no reply.
    pub noreply: bool,
}

/// A client's request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request<'a> {
    /// `get` (or `bget`), `gets`, `gat`, `gats`.
    Fetch {
        /// Options of the fetch.
        fetch: Fetch,
        /// The rest of the line: keys between spaces, at least one for `get` and `gets`.
        keys: &'a [u8],
    },
    /// `set`, `add`, `replace`, `append`, `prepend`, `cas`.
    Store(Store<'a>),
    /// `delete`.
    Delete {
        /// The key.
        key: &'a [u8],
        /// Whether the client wants no reply.
        noreply: bool,
    },
    /// `incr`, `decr`.
    Arithmetic {
        /// The key.
        key: &'a [u8],
        /// Number to add or subtract.
        delta: u64,
        /// True for `incr`.
        up: bool,
        /// Whether the client wants no reply.
        noreply: bool,
    },
    /// `touch`.
    Touch {
        /// The key.
        key: &'a [u8],
        /// New expiry.
        expiry: Expiry,
        /// Whether the client wants no reply.
        noreply: bool,
    },
    /// `mg`, `ms`, `md`, `ma`, `me`.
    Meta(Meta<'a>),
    /// A storing command whose value is over the limit.
    TooLarge(TooLarge<'a>),
    /// A command without a key: `mn`, `flush_all`, `stats`, `version`, `quit` ...; the whole line without its end.
    General(&'a [u8]),
}

impl Request<'_> {
    /// Whether its client wants no reply at all. Quiet meta commands want errors.
    pub(crate) fn wants_no_reply(&self) -> bool {
        match *self {
            Request::Store(Store { noreply, .. })
            | Request::Delete { noreply, .. }
            | Request::Arithmetic { noreply, .. }
            | Request::Touch { noreply, .. } => noreply,
            _ => false,
        }
    }

    /// Whether it may change an item. An `mg` that only reads counts as one that does not, though it may record an access or win the right
    /// to recache a stale item.
    pub(crate) fn may_change(&self) -> bool {
        match self {
            Request::Meta(meta) => match meta.kind {
                MetaKind::Get => b"TNR".iter().any(|&letter| meta.has(letter)),
                MetaKind::Debug => false,
                MetaKind::Set | MetaKind::Delete | MetaKind::Arithmetic => true,
            },
            Request::Fetch { fetch, .. } => fetch.touch.is_some(),
            Request::General(_) => false,
            _ => true,
        }
    }
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
